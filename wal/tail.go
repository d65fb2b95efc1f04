package wal

import (
	"fmt"
	"io"

	"github.com/sealstone/sealstone/internal/vfs"
)

// tailFile is the file that groups go to.
type tailFile struct {
	f    vfs.File
	path string
	h    header
}

// offset is where in the file an LSN stands.
func (t *tailFile) offset(l LSN) int64 { return headerBytes + int64(l-t.h.base) }

// createFile makes a log file: allocated, its header and its name durable.
// What is left of one that fails is removed if possible; Recover knows it for
// what it is.
func createFile(o *Options, h header) (*tailFile, error) {
	h.uuid, h.segmentBytes, h.salt = o.UUID, o.SegmentBytes, o.newSalt()
	page := h.encode()
	t := &tailFile{path: o.path(h.base), h: h}
	var err error
	t.f, err = o.FS.Open(t.path, vfs.Create|vfs.Excl|vfs.ReadWrite)
	if err != nil {
		return nil, fmt.Errorf("wal: create %s: %w", t.path, err)
	}
	if err := initFile(o, t, page); err != nil {
		_ = t.f.Close() // the first error is the one to tell
		_ = o.FS.Remove(t.path)
		return nil, err
	}
	return t, nil
}

// initFile makes a new file's room, header and name durable.
func initFile(o *Options, t *tailFile, page []byte) error {
	if err := t.f.Preallocate(0, o.SegmentBytes); err != nil {
		return fmt.Errorf("wal: allocate %d bytes for %s: %w", o.SegmentBytes, t.path, err)
	}
	if err := writeAll(t.f, page, 0); err != nil {
		return fmt.Errorf("wal: write header of %s: %w", t.path, err)
	}
	if err := t.f.Sync(); err != nil {
		return fmt.Errorf("wal: sync %s: %w", t.path, err)
	}
	if err := o.FS.SyncDir(o.Dir); err != nil {
		return fmt.Errorf("wal: sync directory %s: %w", o.Dir, err)
	}
	return nil
}

// writeAll is WriteAt where a short write is an error.
func writeAll(f io.WriterAt, p []byte, off int64) error {
	n, err := f.WriteAt(p, off)
	if err == nil && n != len(p) {
		err = io.ErrShortWrite
	}
	return err
}
