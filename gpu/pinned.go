package gpu

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"unsafe"
)

// pinnedUnitBytes is what pinned buffers are aligned to and rounded up to, as
// direct I/O wants it.
const pinnedUnitBytes = 4 << 10

// Pinned is host memory outside the Go heap that the GPU reads and writes by
// itself: it is registered with the driver, and begins on a page. It has one
// owner until Free. Its bytes are those of the last owner at first.
type Pinned struct {
	piece *piece
	d     *Device

	mu    sync.Mutex
	users int  // copies under way
	freed bool // by its owner
	hung  bool // a copy did not end
}

// TakePinned gets sizeBytes of pinned memory, at most Options.PinnedBytesMax.
// Without room it waits until some is given back, ctx ends or
// Options.HangTimeout has passed, and then fails with ErrExhausted. It may also
// fail with ErrClosed, ErrDeviceLost, ErrInvalid, or with ErrPinning inside an
// ErrExhausted.
func (d *Device) TakePinned(ctx context.Context, sizeBytes int) (*Pinned, error) {
	if err := d.usable(); err != nil {
		return nil, err
	}
	pc, err := d.pinned.take(ctx, int64(sizeBytes), callerOf(2))
	if err != nil {
		return nil, err
	}
	b := &Pinned{piece: pc, d: d}
	d.buffers.add(b)
	return b, nil
}

// Bytes is the memory: as long as asked for, with a capacity of whole pages.
// After Free it is nil; slices taken before must not be touched any more.
func (b *Pinned) Bytes() []byte {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.freed {
		return nil
	}
	return b.piece.bytes()
}

// Free gives the memory back. If a copy of the Device still uses it, which is
// so only after a call that hung, it stays out of use for good. Only the first
// call does something.
func (b *Pinned) Free() {
	if b == nil {
		return
	}
	b.mu.Lock()
	first := !b.freed
	b.freed = true
	idle := first && b.users == 0
	b.mu.Unlock()
	if first {
		b.d.buffers.remove(b)
	}
	if idle {
		b.piece.give()
	}
}

// use keeps the memory from its next owner while a copy runs.
func (b *Pinned) use() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.freed {
		return false
	}
	b.users++
	return true
}

// unuse ends a use. After a copy that was given up the memory is set aside.
func (b *Pinned) unuse(hung bool) {
	b.mu.Lock()
	if hung {
		b.hung = true
		b.mu.Unlock()
		b.piece.setAside("a copy that did not end, of a buffer of " + b.piece.holder)
		return
	}
	b.users--
	idle := b.freed && b.users == 0 && !b.hung
	b.mu.Unlock()
	if idle {
		b.piece.give()
	}
}

// pinnedSet finds the buffer that a slice lies in.
type pinnedSet struct {
	mu  sync.Mutex
	all map[*region]map[*Pinned]struct{}
}

func (s *pinnedSet) add(b *Pinned) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[*region]map[*Pinned]struct{}{}
	}
	in := s.all[b.piece.region]
	if in == nil {
		in = map[*Pinned]struct{}{}
		s.all[b.piece.region] = in
	}
	in[b] = struct{}{}
}

func (s *pinnedSet) remove(b *Pinned) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.all[b.piece.region]
	delete(in, b)
	if len(in) == 0 {
		delete(s.all, b.piece.region)
	}
}

// use finds the buffer that holds all of mem and begins a use of it.
func (s *pinnedSet) use(mem []byte) (*Pinned, error) {
	if len(mem) == 0 {
		return nil, fmt.Errorf("%w: no bytes", ErrInvalid)
	}
	from := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem))))
	s.mu.Lock()
	defer s.mu.Unlock()
	for r, in := range s.all {
		if from < r.base || from >= r.base+uint64(r.sizeBytes) {
			continue
		}
		for b := range in {
			at := b.piece.address()
			if from >= at && from+uint64(len(mem)) <= at+uint64(b.piece.sizeBytes) && b.use() {
				return b, nil
			}
		}
	}
	return nil, fmt.Errorf("%w: %d bytes that are in no buffer of TakePinned of this device", ErrInvalid, len(mem))
}

// callerOf names the function and line that called the package.
func callerOf(skip int) string {
	pc, _, line, ok := runtime.Caller(skip)
	if !ok {
		return "unknown"
	}
	return fmt.Sprintf("%s:%d", runtime.FuncForPC(pc).Name(), line)
}
