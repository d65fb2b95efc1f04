package engine

import (
	"errors"
	"fmt"
	"io"

	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// windowBytes is how much of a segment is read at a time.
const windowBytes = 4 << 20

// errCut: the file ends before what is asked for.
var errCut = errors.New("the file is cut short")

// window is a piece of a segment in memory, moved along as a walk goes on. It
// reads past the page cache where it can, and drops what it read from it where
// it can not: a store is larger than the cache, and who uses that is not asked.
type window struct {
	buffered, direct vfs.File
	buf              *aligned.Buffer
	sizeBytes        int64 // of the file
	from, to         int64 // what is loaded
	before           func(n int64) error
	advance          func(n int64)
	readBytes        int64 // what advance was told
	furthest         int64 // read up to here
	err              error // of before: nothing is read any more
}

// newWindow makes a window on a file. before is called with the length of each
// read and may keep it waiting, or end all of them by an error; advance with
// what was read for the first time.
func newWindow(h *disk.Handle, sizeBytes int64, before func(int64) error, advance func(int64)) (*window, error) {
	buf, err := aligned.Alloc(windowBytes)
	if err != nil {
		return nil, fmt.Errorf("buffer of %d bytes: %w", windowBytes, err)
	}
	return &window{buffered: h.File(false), direct: h.File(true), buf: buf, sizeBytes: sizeBytes, before: before, advance: advance}, nil
}

// bytes returns [off, off+n) of the file; off is at a page, n whole pages and
// at most windowBytes. It is valid until the next call. errCut: the file ends
// before.
func (w *window) bytes(off int64, n int) ([]byte, error) {
	if off+int64(n) > w.sizeBytes {
		return nil, errCut
	}
	if off >= w.from && off+int64(n) <= w.to {
		return w.buf.Bytes()[off-w.from:][:n], nil
	}
	all := int(min(windowBytes, (w.sizeBytes-off)&^(disk.PageBytes-1)))
	err := w.load(off, all)
	if err != nil && all > n && w.err == nil {
		err = w.load(off, n) // what is bad may lie behind
	}
	if err != nil {
		return nil, err
	}
	return w.buf.Bytes()[:n], nil
}

func (w *window) load(off int64, n int) error {
	if w.err == nil {
		w.err = w.before(int64(n))
	}
	if w.err != nil {
		return w.err
	}
	p := w.buf.Bytes()[:n]
	w.from, w.to = 0, 0
	err := errCut
	if w.direct != nil {
		if err = readFullAt(w.direct, p, off); err != nil {
			w.direct = nil // refused or failed: the other way decides
		}
	}
	if err != nil {
		if err = readFullAt(w.buffered, p, off); err != nil {
			return err
		}
		_ = w.buffered.DropCache(off, int64(n)) // a hint
	}
	w.from, w.to = off, off+int64(n)
	if w.to > w.furthest {
		fresh := w.to - max(w.furthest, off)
		w.furthest = w.to
		w.readBytes += fresh
		w.advance(fresh)
	}
	return nil
}

// readBuffered has all reads from now on go through the page cache, what is
// loaded as well. What the cache holds from before proves nothing.
func (w *window) readBuffered() {
	_ = w.buffered.DropCache(0, w.sizeBytes) // a hint
	w.direct, w.from, w.to = nil, 0, 0
}

func readFullAt(f vfs.File, p []byte, off int64) error {
	n, err := f.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return errCut
	}
	return err
}
