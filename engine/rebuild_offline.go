package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/wal"
)

// RebuildOptions configures Rebuild.
type RebuildOptions struct {
	// Progress is told how far the segments have been gone through.
	Progress func(doneBytes, totalBytes int64)
	// BytesPerSecond bounds reads of segments; 0 is no bound.
	BytesPerSecond int64
}

// LeftOut counts extents that a rebuild did not enter into the index, by the
// reason.
type LeftOut struct {
	Dropped     int64 `json:"dropped"`     // a tombstone says that the block was dropped
	Dead        int64 `json:"dead"`        // a moved source, a refused copy, a shed put
	Quarantined int64 `json:"quarantined"` // found bad
	StaleEpoch  int64 `json:"stale_epoch"` // under the floor of its namespace
	Superseded  int64 `json:"superseded"`  // another extent of the block is the one that counts
	Unverified  int64 `json:"unverified"`  // not sealed, and does not verify: a put that a crash cut off
	NoBytes     int64 `json:"no_bytes"`    // an alias of bytes that are no more
	Distrusted  int64 `json:"distrusted"`  // the tombstones of its segment are damaged
}

// RebuildReport is what Rebuild did.
type RebuildReport struct {
	Dir      string  `json:"dir"`
	UUID     string  `json:"uuid"` // hexadecimal
	Segments int64   `json:"segments"`
	Extents  int64   `json:"extents"`
	Blocks   int64   `json:"blocks"` // in the new index
	LeftOut  LeftOut `json:"left_out"`
	// LogDamage says what was wrong with the log. What is behind it counts as
	// never written, but for what the segments hold of it.
	LogDamage string `json:"log_damage,omitempty"`
	// Notes are sentences about what an operator may want to know.
	Notes []string `json:"notes"`
}

// Rebuild makes the index of a closed store anew from its segments, as Open
// does where the index is lost. What was dropped, evicted, quarantined, or
// belongs to an older epoch stays gone. The old index is in its place until
// the new one is whole: a rebuild that fails, or is interrupted, leaves the
// store as it was.
//
// Errors: ErrLocked, ErrNoStore, ErrDamaged, ErrUnsupported, the context's,
// those of the file system.
func Rebuild(ctx context.Context, dir string, o RebuildOptions) (*RebuildReport, error) {
	return rebuildStore(ctx, dir, o, privateOptions{})
}

func rebuildStore(ctx context.Context, dir string, o RebuildOptions, private privateOptions) (r *RebuildReport, err error) {
	pace, err := newPacer(o.BytesPerSecond)
	if err != nil {
		return nil, err
	}
	open := workshopOptions(private)
	open.Progress = o.Progress
	s, err := openWorkshop(dir, open, paced(ctx, pace))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.release()) }()
	w := &rebuild{recovery: recovery{s: s}, report: &RebuildReport{Dir: dir, UUID: fmt.Sprintf("%x", s.uuid), Notes: []string{}}}
	if err := w.run(ctx); err != nil {
		return nil, fmt.Errorf("engine: rebuild the index of %s: %w", dir, err)
	}
	return w.report, nil
}

// rebuild is a Rebuild under way.
type rebuild struct {
	recovery
	report *RebuildReport
}

func (w *rebuild) run(ctx context.Context) error {
	s := w.s
	s.removeIndexLeftovers()
	if err := s.settleIndexFormat(); err != nil {
		return err
	}
	if err := s.syncOldLog(); err != nil {
		return err
	}
	if err := w.readWholeLog(); err != nil {
		return err
	}
	if err := w.build(ctx); err != nil {
		s.abandonIndex()
		return err
	}
	return w.install(ctx)
}

// readWholeLog finds the log's end and the evictions in it.
func (w *rebuild) readWholeLog() error {
	err := w.scanLog()
	var bad errBadRecord
	switch {
	case errors.As(err, &bad):
		w.report.LogDamage = err.Error()
	case errors.Is(err, wal.ErrUnsupported):
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	case err != nil:
		return fmt.Errorf("read the log: %w", err)
	case w.log.Corrupt != nil:
		w.report.LogDamage = w.log.Corrupt.Error()
	}
	if err := w.s.fs.MkdirAll(quarantineDir); err == nil {
		_ = wal.Preserve(w.s.fs, logDir, w.log.Torn, quarantineDir) // best effort, as at Open
	}
	return nil
}

// build makes the new index beside the old one, and a log that begins where
// the new index ends. Until it is installed both are litter to whoever opens
// the store.
func (w *rebuild) build(ctx context.Context) error {
	s := w.s
	o := s.indexOptions()
	o.Dir = newIndexDir
	idx, err := index.Create(ctx, o)
	if err != nil {
		return err
	}
	s.idx, s.live = idx, map[uint64]int64{}
	b, err := w.fill(ctx)
	if err != nil {
		return err
	}
	w.take(b)
	s.log, err = wal.Create(s.logOptions(), max(w.log.End, firstLSN))
	if err != nil {
		return fmt.Errorf("new log: %w", err)
	}
	s.mark = s.log.End()
	w.applied = s.log.End()
	return w.flushIndex()
}

// take reports what went in and what did not.
func (w *rebuild) take(b *rebuilder) {
	r := w.report
	r.Segments, r.Extents, r.Blocks, r.LeftOut = int64(b.segments), b.extents, int64(b.blocks), b.left
	for _, e := range w.s.Events(0) {
		if e.Kind == EventRebuild || e.Kind == EventHealed {
			r.Notes = append(r.Notes, e.Message)
		}
	}
}

// install puts the new index into the place of the old one. A power cut
// between the two renames leaves no index, and the next Open makes one. The
// evicted segments go before the log that names them.
func (w *rebuild) install(ctx context.Context) error {
	s := w.s
	idx := s.idx
	s.idx = nil
	if err := idx.Close(ctx); err != nil {
		s.abandonIndex()
		return fmt.Errorf("close the new index: %w", err)
	}
	if err := s.swapIndex(); err != nil {
		return err
	}
	if err := w.unlinkEvicted(); err != nil {
		return err
	}
	if err := s.log.RemoveOthers(); err != nil {
		return fmt.Errorf("remove the old log: %w", err)
	}
	s.removeIndexLeftovers()
	return nil
}

func (s *Store) swapIndex() error {
	if err := s.fs.RemoveAll(oldIndexDir); err != nil {
		return err
	}
	if err := s.fs.Rename(indexDir, oldIndexDir); err != nil && !vfs.IsNotExist(err) {
		return err
	}
	if err := s.fs.Rename(newIndexDir, indexDir); err != nil {
		return err
	}
	return s.fs.SyncDir(".")
}

// abandonIndex removes a new index that was not finished.
func (s *Store) abandonIndex() {
	if idx := s.idx; idx != nil {
		s.idx = nil
		ctx, cancel := openContext()
		defer cancel()
		_ = idx.Close(ctx) // whatever it says: it goes
	}
	_ = s.fs.RemoveAll(newIndexDir) // or the next Open does
}
