package disk

import (
	"context"
	"errors"
	"fmt"

	"github.com/sealstone/sealstone/internal/vfs"
)

// Seal ends the segment: it makes all extents durable, writes a footer with
// the entries (sorted by page) behind the last one, syncs, cuts the file to
// the footer's end, syncs, and closes the Writer. The caller seals when the
// record of every listed extent is applied; what is not listed is dead.
// Open reservations are ErrInvalid. Failures poison the Writer.
func (w *Writer) Seal(entries []FooterEntry) error {
	w.syncMu.Lock()
	defer w.syncMu.Unlock()
	start, err := w.beginSeal(entries)
	if err != nil {
		return fmt.Errorf("disk: seal segment: %w", err)
	}
	footer, err := w.encodeFooter(entries, start)
	if err != nil {
		return fmt.Errorf("disk: seal segment %016x: %w", w.s.id, err)
	}
	if err := w.sync(); err != nil {
		return fmt.Errorf("disk: seal segment: %w", err)
	}
	if err := finishSeal(w.buffered, footer, start); err != nil {
		return fmt.Errorf("disk: seal segment: %w", w.poison(err))
	}
	w.mu.Lock()
	w.sealed = true
	w.mu.Unlock()
	if err := w.recount(); err != nil {
		return fmt.Errorf("disk: seal segment: %w", err)
	}
	w.v.mu.Lock()
	w.s.info.Sealed = true
	w.v.mu.Unlock()
	return w.close()
}

// beginSeal checks the entries against what was written and returns the page
// of the footer. From here on nothing can be reserved.
func (w *Writer) beginSeal(entries []FooterEntry) (start uint32, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.usableLocked(); err != nil {
		return 0, err
	}
	if n := len(w.reserved); n > 0 {
		return 0, invalidf("segment %016x: %d reservations are open", w.s.id, n)
	}
	written := make(map[uint32]uint32, len(w.entries))
	for i := range w.entries {
		written[w.entries[i].Page] = w.entries[i].EndPage()
	}
	for i := range entries {
		if end, ok := written[entries[i].Page]; !ok || end != entries[i].EndPage() {
			return 0, invalidf("segment %016x: no extent was written at pages %d to %d",
				w.s.id, entries[i].Page, entries[i].EndPage())
		}
	}
	w.sealing = true
	return w.next, nil
}

// encodeFooter makes the footer; if that cannot be, the Writer goes on.
func (w *Writer) encodeFooter(entries []FooterEntry, start uint32) ([]byte, error) {
	footer, err := EncodeFooter(entries, w.s.id, start, w.v.o.UUID, w.v.o.Key)
	if end := int64(start)*PageBytes + int64(len(footer)); err == nil && end > int64(w.limitPages)*PageBytes {
		err = invalidf("entries larger than those that were reserved: the footer ends at %d", end)
	}
	if err != nil {
		w.mu.Lock()
		w.sealing = false
		w.mu.Unlock()
	}
	return footer, err
}

// finishSeal writes the footer and cuts the file behind it. The footer is
// durable before the cut: a file that ends in a trailer is a sealed one.
func finishSeal(f vfs.File, footer []byte, start uint32) error {
	off := int64(start) * PageBytes
	if err := writeFull(f, footer, off); err != nil {
		return err
	}
	if err := f.Datasync(); err != nil {
		return err
	}
	if err := f.Truncate(off + int64(len(footer))); err != nil {
		return err
	}
	return f.Datasync()
}

// Close ends the Writer without a footer: the segment stays unsealed until
// SealOld. Open reservations are ErrInvalid. Closing twice is nothing.
func (w *Writer) Close() error {
	w.syncMu.Lock()
	defer w.syncMu.Unlock()
	return w.close()
}

func (w *Writer) close() error {
	w.mu.Lock()
	if n := len(w.reserved); n > 0 {
		w.mu.Unlock()
		return invalidf("close writer of segment %016x: %d reservations are open", w.s.id, n)
	}
	if w.closed {
		w.mu.Unlock()
		return nil
	}
	w.closed = true
	w.mu.Unlock()
	err := closeAll(w.buffered, w.direct)
	w.v.cache.unreserve(writerFiles)
	w.v.mu.Lock()
	w.s.writer = nil
	w.v.mu.Unlock()
	if err != nil {
		return fmt.Errorf("disk: close writer of segment %016x: %w", w.s.id, err)
	}
	return nil
}

// SealOld gives an unsealed segment of an earlier run a footer with exactly
// these entries (sorted by page). The footer goes behind every listed extent
// and every other one that a scan finds; what follows is cut off. Data and
// names are made durable first. A segment that is sealed, or has a Writer, is
// ErrInvalid; one whose header page a newer release wrote is ErrUnsupported.
func (v *Volume) SealOld(id uint64, entries []FooterEntry) error {
	if err := v.sealOld(id, entries); err != nil {
		return fmt.Errorf("disk: seal old segment %016x: %w", id, err)
	}
	return nil
}

func (v *Volume) sealOld(id uint64, entries []FooterEntry) (err error) {
	s, err := v.beginSealOld(id)
	if err != nil {
		return err
	}
	defer v.endSealOld(s)
	end, err := v.lastExtentEnd(id, entries)
	if err != nil {
		return err
	}
	if end, err = v.cutEnd(id, end, entries); err != nil {
		return err
	}
	footer, err := EncodeFooter(entries, id, end, v.o.UUID, v.o.Key)
	if err != nil {
		return err
	}
	if err := v.cache.reserve(1); err != nil {
		return err
	}
	defer v.cache.unreserve(1)
	f, err := v.o.FS.Open(SegmentName(id), vfs.ReadWrite)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := v.syncOld(f, id); err != nil {
		return err
	}
	if err := finishSeal(f, footer, end); err != nil {
		return err
	}
	if info, err = f.Stat(); err != nil {
		return err
	}
	v.setData(s, info.AllocatedBytes)
	v.mu.Lock()
	s.info.SizeBytes, s.info.Sealed = info.SizeBytes, true
	v.mu.Unlock()
	return nil
}

// beginSealOld returns the segment if SealOld may write to it, and keeps others
// from it until endSealOld.
func (v *Volume) beginSealOld(id uint64) (*segment, error) {
	s, err := v.sealable(id)
	if err != nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if s.sealing || s.unlinking || s.info.Sealed {
		return nil, invalidf("it is being sealed or unlinked")
	}
	s.sealing = true
	return s, nil
}

// cutEnd is where the footer goes: behind all entries, and behind the extents
// that a scan finds as far as the file reaches. A file that was cut from
// outside keeps the whole extents that it has.
func (v *Volume) cutEnd(id uint64, end uint32, entries []FooterEntry) (uint32, error) {
	info, err := v.o.FS.Stat(SegmentName(id))
	if err != nil {
		return 0, err
	}
	filePages := uint32(info.SizeBytes / PageBytes)
	end = max(1, min(end, filePages))
	for i := range entries {
		end = max(end, entries[i].EndPage())
	}
	if end > max(1, filePages) {
		return 0, invalidf("an entry ends at page %d, the file has %d bytes", end, info.SizeBytes)
	}
	return end, nil
}

// sealable returns the segment if it is an unsealed one of an earlier run.
func (v *Volume) sealable(id uint64) (*segment, error) {
	if v.o.ReadOnly {
		return nil, ErrReadOnly
	}
	s, err := v.lookup(id)
	if err != nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case s.writer != nil:
		return nil, invalidf("its writer is open")
	case s.info.Sealed:
		return nil, invalidf("it is sealed")
	case errors.Is(s.info.HeaderErr, ErrUnsupported):
		return nil, s.info.HeaderErr
	case s.info.TrailerErr != nil:
		return nil, s.info.TrailerErr
	}
	return s, nil
}

func (v *Volume) endSealOld(s *segment) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s.sealing = false
}

// lastExtentEnd is the page behind the last extent that a scan finds. What
// lies before the last entry does not matter.
func (v *Volume) lastExtentEnd(id uint64, entries []FooterEntry) (uint32, error) {
	end := uint32(1)
	for i := range entries {
		end = max(end, entries[i].EndPage())
	}
	err := v.scanFrom(context.Background(), id, end, func(e *Extent, _ uint64, at Address) error {
		end = at.Page + uint32(e.Pages())
		return nil
	})
	return end, err
}

// syncOld makes the content of a file of an earlier run durable, and its
// name: a process that was killed may have left both in memory only.
func (v *Volume) syncOld(f vfs.File, id uint64) error {
	if err := f.Datasync(); err != nil {
		return err
	}
	if err := v.o.FS.SyncDir(segmentDir(id)); err != nil {
		return err
	}
	return v.o.FS.SyncDir(segmentsDir)
}
