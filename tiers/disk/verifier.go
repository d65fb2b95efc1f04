package disk

import (
	"context"
	"fmt"
)

// Verifier reads and verifies extents of one segment, best in the order of
// their addresses: it keeps one piece of the file in memory, so that small
// extents that lie side by side cost one read together. Nobody may write to
// the segment meanwhile. It holds a handle and 1 MiB, and belongs to one
// goroutine.
type Verifier struct {
	v   *Volume
	h   *Handle
	win *window
}

// NewVerifier opens a segment for verifying; Close gives it back. Errors: as
// Acquire, and those of the system.
func (v *Volume) NewVerifier(id uint64) (*Verifier, error) {
	h, err := v.Acquire(id)
	if err != nil {
		return nil, err
	}
	win, err := v.newWindow(h)
	if err != nil {
		h.Release()
		return nil, fmt.Errorf("disk: verify segment %d: %w", id, err)
	}
	win.sparse = true
	return &Verifier{v: v, h: h, win: win}, nil
}

// Close gives up the handle and the memory.
func (r *Verifier) Close() {
	r.win.free()
	r.h.Release()
}

// Verify is Volume.VerifyExtent, and returns the header.
func (r *Verifier) Verify(ctx context.Context, at Address, want uint64) (*Extent, error) {
	e, err := r.v.expectHeader(r.win, at, want)
	if err == nil {
		err = verifyPayload(ctx, r.win, e)
	}
	if err != nil {
		return nil, fmt.Errorf("disk: verify extent at %v: %w", at, err)
	}
	return e, nil
}

// Header is Volume.VerifyExtent for the header alone.
func (r *Verifier) Header(at Address, want uint64) (*Extent, error) {
	e, err := r.v.expectHeader(r.win, at, want)
	if err != nil {
		return nil, fmt.Errorf("disk: read extent at %v: %w", at, err)
	}
	return e, nil
}
