package disk

import (
	"fmt"
	"sync/atomic"

	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers"
)

// Handle is a hard reference to the file of a segment: while it is held the
// bytes stay readable, even when the segment is unlinked. It implements
// [tiers.File].
type Handle struct {
	v    *Volume
	s    *segment
	refs atomic.Int32
}

var _ tiers.File = (*Handle)(nil)

// Acquire opens a segment for reading. Errors: ErrNoSegment if it is absent
// or unlinked; tiers.ErrBusy if MaxOpenFiles are in use; tiers.ErrClosed;
// those of the system. Every Handle must be released.
func (v *Volume) Acquire(id uint64) (*Handle, error) {
	s, err := v.lookup(id)
	if err != nil {
		return nil, fmt.Errorf("disk: acquire segment %016x: %w", id, err)
	}
	if err := v.cache.acquire(&s.data); err != nil {
		if vfs.IsNotExist(err) { // somebody else has removed it
			err = fmt.Errorf("%w: %w", ErrNoSegment, err)
		}
		return nil, fmt.Errorf("disk: acquire segment %016x: %w", id, err)
	}
	h := &Handle{v: v, s: s}
	h.refs.Store(1)
	return h, nil
}

// ID returns the segment's id.
func (h *Handle) ID() uint64 { return h.s.id }

// File returns the descriptor: through the page cache, or with direct set
// past it, which is nil where direct I/O is refused. It is closed with the
// last Release and must not be closed by the caller.
func (h *Handle) File(direct bool) vfs.File {
	if direct {
		return h.s.data.direct
	}
	return h.s.data.buffered
}

// Retain adds a reference; each needs a Release of its own.
func (h *Handle) Retain() { h.refs.Add(1) }

// Release gives a reference back. The last one lets the file be closed, and
// an unlinked segment's space return.
func (h *Handle) Release() {
	if h.refs.Add(-1) == 0 {
		// Nothing was written through these descriptors: a failed close
		// loses nothing.
		_ = h.v.cache.release(&h.s.data)
	}
}
