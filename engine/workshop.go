package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sealstone/sealstone/engine/meta"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// The offline commands that change a store have it to themselves. They work
// either below the index, on what openWorkshop gives, or with a whole store
// that does nothing by itself, opened with workshopOptions.

// workshopOptions opens the closed store in a directory to be worked on:
// nothing runs in the background, so nothing is evicted, and whatever the
// store holds by now is within its capacity.
func workshopOptions(private privateOptions) Options {
	private.noBackground, private.workshop = true, true
	return Options{MustExist: true, HintBytes: -1, private: private}
}

// inWorkshop runs a job on the closed store in dir, opened with o, and closes
// it again.
func inWorkshop(dir string, o Options, do func(*Store) error) error {
	s, err := Open(dir, o)
	if err != nil {
		return err
	}
	return errors.Join(do(s), s.Close(context.Background()))
}

// openWorkshop opens a store as far as it gets without index and log: lock,
// metadata, segments. What wrap returns stands between it and the files. The
// caller calls release.
func openWorkshop(dir string, o Options, wrap func(vfs.FS) vfs.FS) (*Store, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := newStore(dir, o)
	if err := s.openBelowIndex(wrap); err != nil {
		return nil, errors.Join(err, s.release())
	}
	return s, nil
}

func (s *Store) openBelowIndex(wrap func(vfs.FS) vfs.FS) error {
	if err := s.openFS(); err != nil {
		return err
	}
	s.fs = wrap(s.fs)
	if err := requireStore(s.fs); err != nil {
		return fmt.Errorf("engine: open %s: %w", s.dir, err)
	}
	if err := s.openMeta(); err != nil {
		return err
	}
	if err := s.planCapacity(); err != nil {
		return err
	}
	var err error
	s.vol, err = disk.OpenVolume(disk.VolumeOptions{
		FS: s.fs, UUID: s.uuid, Key: s.key, SegmentBytes: s.room.segmentBytes, MaxOpenFiles: s.o.MaxOpenFiles,
	})
	if err != nil {
		return fmt.Errorf("engine: open segments: %w", err)
	}
	return nil
}

// fitWorkshop sets what depends on the store at hand: a capacity that what is
// there can not exceed, and blocks that its segments can hold.
func (s *Store) fitWorkshop(segmentBytes int64, u vfs.Usage) {
	if s.o.CapacityBytes == 0 {
		s.o.CapacityBytes = s.heldBytes() + s.strangeBytes + u.AvailableBytes
	}
	s.o.MaxBlockBytes = min(s.o.MaxBlockBytes, (segmentBytes-64*kib)/65*64)
}

// removeIndexLeftovers removes what an interrupted rebuild has left beside the
// index. Where that fails it stays, and counts against the capacity.
func (s *Store) removeIndexLeftovers() {
	if s.o.ReadOnly {
		return
	}
	for _, dir := range []string{newIndexDir, oldIndexDir} {
		_ = s.fs.RemoveAll(dir)
	}
}

// paced returns a file system whose reads of segments keep to the pace and end
// with the context. Nothing else is held up or given up: what is half written
// serves nobody.
func paced(ctx context.Context, pace *pacer) func(vfs.FS) vfs.FS {
	return func(fs vfs.FS) vfs.FS {
		return vfs.WithHook(fs, func(op vfs.Op) error {
			if op.Kind != vfs.OpRead || !strings.HasPrefix(op.Name, "segments/") {
				return nil
			}
			if err := context.Cause(ctx); err != nil {
				return err
			}
			return pace.wait(ctx, op.Length)
		})
	}
}

// requireStore is ErrNoStore for a directory that holds no store, before
// anything, be it LOCK, is made in it.
func requireStore(fsys vfs.FS) error {
	for _, name := range []string{meta.StoreFile, meta.StoreCopyFile, "segments"} {
		if _, err := fsys.Stat(name); !vfs.IsNotExist(err) {
			return nil
		}
	}
	return ErrNoStore
}
