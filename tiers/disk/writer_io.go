package disk

import (
	"fmt"
	"math"

	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/internal/vfs"
)

// WriteAt writes image, whole pages, at page, inside one reservation or over
// several that follow one another. Memory that is aligned to 4096 bytes, best
// outside the Go heap, goes past the page cache, by VolumeOptions.IO where
// there is one; other memory through it. The bytes are in the file when it
// returns, and durable after the next Sync. After a failure the Writer takes no more
// extents; the reservations that image touches must be ended as holes.
func (w *Writer) WriteAt(page uint32, image []byte) error {
	if err := w.checkWrite(page, image); err != nil {
		return fmt.Errorf("disk: write extent: %w", err)
	}
	off := int64(page) * PageBytes
	var err error
	if io := w.batchIO(image); io != nil {
		err = w.writeBatch(io, image, off)
	} else {
		err = w.writePages(image, off)
	}
	if err != nil {
		w.mu.Lock()
		w.failed = true
		w.mu.Unlock()
		return fmt.Errorf("disk: write extent: segment %016x page %d: %w", w.s.id, page, err)
	}
	return nil
}

func (w *Writer) checkWrite(page uint32, image []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.usableLocked(); err != nil {
		return err
	}
	if len(image) == 0 || len(image)%PageBytes != 0 {
		return invalidf("segment %016x: image of %d bytes is not whole pages", w.s.id, len(image))
	}
	end := uint64(page) + uint64(len(image)/PageBytes)
	for at := uint64(page); at < end; {
		next, ok := w.reservedUpTo(at)
		if !ok {
			return invalidf("segment %016x: pages %d to %d are not all reserved", w.s.id, page, end)
		}
		at = next
	}
	return nil
}

// reservedUpTo returns where the reservation ends that has a page.
func (w *Writer) reservedUpTo(page uint64) (end uint64, ok bool) {
	if r, ok := w.reserved[uint32(page)]; ok && page <= math.MaxUint32 {
		return page + uint64(r.pages), true
	}
	for first, r := range w.reserved {
		if end := uint64(first) + uint64(r.pages); page >= uint64(first) && page < end {
			return end, true
		}
	}
	return 0, false
}

// writePages writes p, whole pages, in bounded pieces. Direct I/O that the
// system refuses is not tried again; the bytes then go through the page cache.
func (w *Writer) writePages(p []byte, off int64) error {
	for len(p) > 0 {
		n := min(len(p), writePieceBytes)
		if err := w.writePiece(p[:n], off); err != nil {
			return err
		}
		p, off = p[n:], off+int64(n)
	}
	return nil
}

func (w *Writer) writePiece(p []byte, off int64) error {
	if w.direct != nil && !w.directOff.Load() && aligned.IsAligned(p, PageBytes) {
		err := writeFull(w.direct, p, off)
		if !isRefusal(err) {
			return err
		}
		w.directOff.Store(true)
		w.v.refuseDirect(fmt.Sprintf("write %s: %v", SegmentName(w.s.id), err))
	}
	return writeFull(w.buffered, p, off)
}

// writeFull writes all of p or says why not.
func writeFull(f vfs.File, p []byte, off int64) error {
	n, err := f.WriteAt(p, off)
	if err == nil && n != len(p) {
		return fmt.Errorf("wrote %d of %d bytes at %d", n, len(p), off)
	}
	return err
}

// Sync makes every extent durable whose reservation was made before the call.
// It waits until these have ended, so that no unwritten hole precedes a
// durable extent, then syncs the file. A failed sync poisons the Writer and
// is never repeated: the system may have dropped the pages and call the next
// sync a success. A sealed segment is synced: a Seal that came first is no
// error, as who syncs cannot know of it.
func (w *Writer) Sync() error {
	w.syncMu.Lock()
	defer w.syncMu.Unlock()
	w.mu.Lock()
	sealed := w.sealed
	w.mu.Unlock()
	if sealed {
		return nil
	}
	if err := w.sync(); err != nil {
		return fmt.Errorf("disk: sync segment: %w", err)
	}
	return nil
}

// sync is Sync under syncMu.
func (w *Writer) sync() error {
	upTo, err := w.awaitEnded()
	if err != nil {
		return err
	}
	if err := w.buffered.Datasync(); err != nil {
		return w.poison(err)
	}
	w.mu.Lock()
	w.synced = max(w.synced, upTo)
	w.mu.Unlock()
	return w.recount()
}

// awaitEnded waits for the reservations that exist now.
func (w *Writer) awaitEnded() (upTo uint64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	upTo = w.tickets
	for {
		if err := w.usableLocked(); err != nil {
			return 0, err
		}
		if !w.pendingBelow(upTo) {
			return upTo, nil
		}
		w.changed.Wait()
	}
}

func (w *Writer) pendingBelow(ticket uint64) bool {
	for _, r := range w.reserved {
		if r.ticket < ticket {
			return true
		}
	}
	return false
}

// Dirty reports whether something was reserved since the last good Sync
// began.
func (w *Writer) Dirty() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tickets > w.synced
}

// recount takes over what the file really holds on disk. Blocks are known
// exactly only after a sync, and extents of unwritten space cost some when
// they are split.
func (w *Writer) recount() error {
	info, err := w.buffered.Stat()
	if err != nil {
		return w.poison(err)
	}
	w.v.mu.Lock()
	w.s.info.SizeBytes = info.SizeBytes
	w.v.mu.Unlock()
	w.v.setData(w.s, info.AllocatedBytes)
	return nil
}
