package disk

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sealstone/sealstone/internal/vfs"
)

// Writer appends extents to a new segment. It is safe for concurrent use:
// each extent takes its pages with Reserve, is written with WriteAt, and
// ended with Done.
//
// After a failed write the Writer takes no more extents; those that were
// written can still be synced and sealed, the failed one leaves a hole. A
// failed sync poisons it: nothing is tried again on its file, and what Sync
// covered before stays good.
type Writer struct {
	v         *Volume
	s         *segment
	buffered  vfs.File
	direct    vfs.File // nil without direct I/O
	directOff atomic.Bool
	syncMu    sync.Mutex // one sync or seal at a time

	mu         sync.Mutex
	changed    *sync.Cond // a reservation ended
	next       uint32     // first free page
	limitPages uint32     // of the segment
	entryBytes int64      // footer bytes promised
	reserved   map[uint32]reservation
	tickets    uint64 // reservations ever made
	synced     uint64 // those below are ended and synced
	entries    []FooterEntry
	full       bool // a reservation had no room
	failed     bool // a write failed: nothing can be reserved
	sealing    bool // Seal has begun: nothing can be reserved
	sealed     bool
	closed     bool
	err        error // why it is poisoned
}

// reservation is room taken for one extent.
type reservation struct {
	pages      uint32
	entryBytes int
	ticket     uint64
}

// ID returns the segment's id.
func (w *Writer) ID() uint64 { return w.s.id }

// UsedBytes is the part of the segment that is taken, header and holes
// included.
func (w *Writer) UsedBytes() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return int64(w.next) * PageBytes
}

// Full reports whether a reservation was refused for want of room, or not
// even a small extent has room, or the Writer is poisoned or ended: it is
// time for another segment.
func (w *Writer) Full() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	small := FooterEntryBytes(MaxHashBytes, MaxHashBytes)
	return w.full || w.failed || w.err != nil || w.sealing || w.closed || !w.fits(2, small)
}

// Err returns why the Writer is poisoned, or nil.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// fits reports whether an extent has room, with its entry in the footer.
func (w *Writer) fits(pages, entryBytes int) bool {
	end := (int64(w.next) + int64(pages)) * PageBytes
	return end+FooterBytes(w.entryBytes+int64(entryBytes)) <= int64(w.limitPages)*PageBytes
}

// Reserve takes pages for one extent, whose footer entry will take
// footerEntryBytes (see FooterEntryBytes). Room for the footer is always
// kept. ok is false if there is no room, or the Writer is poisoned or ended.
// Each reservation must be ended by exactly one Done.
func (w *Writer) Reserve(pages, footerEntryBytes int) (page uint32, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil || w.failed || w.sealing || w.closed || pages <= 0 || footerEntryBytes < 0 {
		return 0, false
	}
	if !w.fits(pages, footerEntryBytes) {
		w.full = true
		return 0, false
	}
	page = w.next
	w.next += uint32(pages)
	w.entryBytes += int64(footerEntryBytes)
	w.reserved[page] = reservation{uint32(pages), footerEntryBytes, w.tickets}
	w.tickets++
	return page, true
}

// Done ends the reservation at page: with the extent's footer entry when its
// bytes were written, or with nil when it failed and leaves a hole. A page
// without a reservation is ErrInvalid, an entry that does not fit it too (the
// reservation ends as a hole).
func (w *Writer) Done(page uint32, entry *FooterEntry) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, ok := w.reserved[page]
	if !ok {
		return invalidf("segment %016x: end of a reservation at page %d that is none", w.s.id, page)
	}
	delete(w.reserved, page)
	w.changed.Broadcast()
	if entry == nil {
		w.entryBytes -= int64(r.entryBytes)
		return nil
	}
	size := FooterEntryBytes(len(entry.Hash), len(entry.Parent))
	if entry.Page != page || entry.EndPage() != page+r.pages || size > r.entryBytes {
		w.entryBytes -= int64(r.entryBytes)
		return invalidf("segment %016x: entry of pages %d to %d for a reservation of %d to %d",
			w.s.id, entry.Page, entry.EndPage(), page, page+r.pages)
	}
	w.entryBytes -= int64(r.entryBytes - size)
	w.entries = append(w.entries, *entry)
	return nil
}

// Entries returns the entries of all extents that were ended as written,
// sorted by page.
func (w *Writer) Entries() []FooterEntry {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := slices.Clone(w.entries)
	slices.SortFunc(out, func(a, b FooterEntry) int { return cmp.Compare(a.Page, b.Page) })
	return out
}

// poison records the first failure and returns it as later calls will.
func (w *Writer) poison(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = fmt.Errorf("segment %016x: %w: %w", w.s.id, ErrPoisoned, err)
		w.changed.Broadcast() // a sync that waits for reservations
	}
	return w.err
}

// usableLocked returns why nothing may be written, or nil; w.mu must be held.
func (w *Writer) usableLocked() error {
	switch {
	case w.err != nil:
		return w.err
	case w.sealed || w.closed:
		return invalidf("segment %016x: its writer has ended", w.s.id)
	}
	return nil
}
