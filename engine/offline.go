package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/engine/meta"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// offline is a closed store opened to be looked at. Nothing in its directory
// is changed: not even the owner's name in LOCK, which is only held. It is a
// Store without log, reader and background, so that what Open would make of
// the directory is worked out by Open's own code.
type offline struct {
	s     *Store
	found []meta.Finding
	rec   *recovery
	// indexErr says why the index can not be used, or is nil. An index that is
	// merely absent has indexAbsent set beside it.
	indexErr    error
	indexAbsent bool
	logLost     string   // why the log counts as lost, or ""
	changes     *changes // nil if the index will be rebuilt
}

// openOffline opens the store in dir. Errors: ErrLocked, ErrNoStore,
// ErrDamaged (neither copy of STORE or NAMESPACES is whole), ErrUnsupported,
// those of the file system. Damage elsewhere is kept for whoever asks.
func openOffline(dir string, private privateOptions) (*offline, error) {
	o, err := Options{ReadOnly: true, MustExist: true, private: private}.withDefaults()
	if err != nil {
		return nil, err
	}
	f := &offline{s: newStore(dir, o)}
	f.rec = &recovery{s: f.s}
	if err := f.open(); err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

func (f *offline) open() error {
	if err := f.s.openFS(); err != nil {
		return err
	}
	if err := f.s.holdReadOnly(); err != nil {
		return fmt.Errorf("engine: open %s: %w", f.s.dir, err)
	}
	m, found, err := meta.Open(f.s.fs, true)
	f.found = found
	if err != nil {
		return fmt.Errorf("engine: open %s: %w", f.s.dir, metaError(err))
	}
	f.s.setMeta(m)
	f.s.room.segmentBytes = m.Store().SegmentBytes
	f.s.vol, err = disk.OpenVolume(disk.VolumeOptions{
		FS: f.s.fs, UUID: f.s.uuid, Key: f.s.key, SegmentBytes: m.Store().SegmentBytes, ReadOnly: true,
	})
	if err != nil {
		return fmt.Errorf("engine: open segments: %w", err)
	}
	for _, i := range f.s.vol.Segments() {
		f.s.segs[i.ID] = &segment{id: i.ID, class: i.Class, sealed: i.Sealed, retired: true}
	}
	return f.openRecords()
}

// openRecords opens the index, reads the log, and works out what the log's
// records will change when the store is opened.
func (f *offline) openRecords() error {
	ctx, cancel := openContext()
	defer cancel()
	idx, err := f.openIndex(ctx)
	switch {
	case errors.Is(err, index.ErrNewer):
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	case errors.Is(err, index.ErrIncomplete):
		f.indexErr, f.indexAbsent = err, true
	case err != nil:
		f.indexErr = err
	default:
		f.s.idx = idx
		if f.rec.applied, f.s.live, err = f.readIndexState(ctx); err != nil {
			f.indexErr = err
		}
	}
	if err := f.rec.readLog(); err != nil {
		return err
	}
	if f.indexErr == nil {
		f.logLost = f.rec.lost
	} else {
		f.rec.lost = f.indexErr.Error() // a log can not be held against an index that is not there
	}
	if f.rec.lost != "" {
		return nil
	}
	f.changes, err = f.pendingChanges()
	if err != nil {
		f.indexErr = err
		f.rec.lose(err.Error())
	}
	return nil
}

// openIndex opens the index. One without its manifest is missing rather than
// damaged: a crash in the wrong moment leaves that.
func (f *offline) openIndex(ctx context.Context) (*index.DB, error) {
	names, err := f.s.fs.List(indexDir)
	if err != nil && !vfs.IsNotExist(err) {
		return nil, err
	}
	if !hasManifest(names) {
		return nil, fmt.Errorf("%w: %s has no manifest", index.ErrIncomplete, indexDir)
	}
	return index.Open(ctx, f.s.indexOptions())
}

// hasManifest reports whether the markers among the files of the index name
// manifests that are there. (A power cut may keep the marker's name and lose
// the manifest's.)
func hasManifest(names []string) bool {
	found := false
	for _, n := range names {
		if mark, ok := strings.CutPrefix(n, "marker.manifest."); ok {
			_, manifest, _ := strings.Cut(mark, ".")
			if !slices.Contains(names, manifest) {
				return false
			}
			found = true
		}
	}
	return found
}

// close gives everything up.
func (f *offline) close() error { return f.s.release() }

// entry is what a key will hold once the store is open again, or nil.
func (f *offline) entry(ctx context.Context, k index.Key) (*index.Entry, error) {
	if f.rec.lost != "" {
		return nil, fmt.Errorf("%w: the index will be rebuilt (%s): open the store for writing once", ErrDamaged, f.rec.lost)
	}
	e, touched := f.changes.keys[k]
	if !touched {
		found, err := f.s.idx.Get(ctx, []index.Key{k}, false)
		if err != nil {
			return nil, fmt.Errorf("engine: read the index: %w", err)
		}
		if found[0].OK {
			e = &found[0].Entry
		}
	}
	if e != nil && e.Seq < f.s.floorLocked(k.Namespace) {
		return nil, nil
	}
	return e, nil
}
