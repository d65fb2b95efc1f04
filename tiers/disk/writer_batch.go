package disk

import (
	"errors"
	"fmt"

	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers"
)

const (
	// writeItemBytes is one request of a write. On a virtio disk several of
	// this size were faster than one of 4 MiB, and reads get in between.
	writeItemBytes = 1 << 20
	// writeItemsMax is how many requests of one write are with the device at
	// a time.
	writeItemsMax = writePieceBytes / writeItemBytes
)

// writerFile gives a Writer's descriptors to a tiers.ReadWriter. They stay
// open while a write runs, since a Writer does not close before the write's
// reservation has ended; so there is nothing to count.
type writerFile struct{ w *Writer }

func (f writerFile) ID() uint64 { return f.w.s.id }
func (f writerFile) Retain()    {}
func (f writerFile) Release()   {}

func (f writerFile) File(direct bool) vfs.File {
	switch {
	case !direct:
		return f.w.buffered
	case f.w.direct == nil || f.w.directOff.Load():
		return nil
	}
	return f.w.direct
}

// batchIO returns what writes extents at depth, or nil where they are written
// one piece after the other: without VolumeOptions.IO, from memory that does
// not suit direct I/O, and to a file that is no file of the system's.
func (w *Writer) batchIO(p []byte) tiers.ReadWriter {
	if w.v.o.IO == nil || !aligned.IsAligned(p, PageBytes) || w.buffered.Fd() == vfs.InvalidFd {
		return nil
	}
	return w.v.o.IO()
}

// writeBatch writes p, whole pages, as several requests at a time. What the
// reader has no room for (or, closing, does not take any more) is written
// here.
func (w *Writer) writeBatch(io tiers.ReadWriter, p []byte, off int64) error {
	for len(p) > 0 {
		n := min(len(p), writeItemsMax*writeItemBytes)
		items := w.writeItems(p[:n], off)
		_ = io.WriteBatch(items) // it stands in each item
		for i := range items {
			if err := w.written(&items[i]); err != nil {
				return err
			}
		}
		p, off = p[n:], off+int64(n)
	}
	return nil
}

func (w *Writer) writeItems(p []byte, off int64) []tiers.Item {
	items := make([]tiers.Item, 0, (len(p)+writeItemBytes-1)/writeItemBytes)
	for len(p) > 0 {
		n := min(len(p), writeItemBytes)
		items = append(items, tiers.Item{
			File: writerFile{w}, Offset: off, Length: n, Spans: [][]byte{p[:n:n]}, OffHeap: true, WaitForDevice: true,
		})
		p, off = p[n:], off+int64(n)
	}
	return items
}

// written judges one request that was answered.
func (w *Writer) written(it *tiers.Item) error {
	switch {
	case errors.Is(it.Err, tiers.ErrBusy), errors.Is(it.Err, tiers.ErrClosed):
		return w.writePages(it.Spans[0], it.Offset)
	case it.Err != nil:
		return it.Err
	}
	if it.Path == tiers.PathBuffered && w.direct != nil && !w.directOff.Swap(true) {
		w.v.refuseDirect(fmt.Sprintf("write %s: the path went through the page cache", SegmentName(w.s.id)))
	}
	return nil
}
