package aligned

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Pool cuts buffers from slabs: large mappings, on huge pages where they can
// be had. A buffer takes its size rounded up by at most an eighth, to whole
// pages, and begins at a multiple of at least PageBytes; neighbours that come
// free grow together again. Pages are filled in when they are first given out,
// not at the first access, so that no fault falls into the I/O; memory is not
// zeroed between owners.
//
// What is given out and what is kept for the next request together stay within
// the limit: where the free rest is in pieces that do not fit, it goes back to
// the kernel, page by page if need be. What was not needed for a while goes
// back as well, down to a low-water mark. Requests that find no room wait in
// the order of their arrival, so that none is overtaken for ever, large or
// small. A Pool is safe for concurrent use; the methods of a nil Pool answer
// ErrClosed or zeros.
//
// A freed buffer's addresses may get other pages behind them. Who registers
// memory with the kernel or a device must hold the buffer as long.
type Pool struct {
	o          Options
	slabBytes  int
	kind       Huge   // of slabs to come, but for hugetlb
	hugeReason string // why there is no better kind
	nodes      int

	mu         sync.Mutex
	slabs      []*slab
	inUseBytes int64
	inUseCount int64
	// cachedBytes are warm pages that no buffer takes.
	cachedBytes int64
	// peakBytes is the most in use since the last look for idle memory.
	peakBytes int64
	idle      *time.Timer // nil: never armed
	armed     bool
	waiters   []*waiter
	live      map[*Buffer]struct{} // with RecordSites
	count     counters
	closed    bool
}

// errNoRoom: the request has to wait.
var errNoRoom = errors.New("aligned: no room now")

// waiter is a request for room. Its channel is closed, with done set, once the
// room is taken in its name or the pool closed.
type waiter struct {
	pages, node int
	ready       chan struct{}
	r           run
	err         error
	done        bool
}

// Get takes a buffer of at least sizeBytes; Bytes is as long as asked for.
// Without room it waits until other owners free theirs or ctx ends, and then
// fails with ErrExhausted, which wraps the error of ctx. What can never fit
// fails with ErrTooLarge at once. It may also fail with ErrClosed,
// ErrInvalidSize, or the kernel's error.
func (p *Pool) Get(ctx context.Context, sizeBytes int) (*Buffer, error) {
	r, w, err := p.take(sizeBytes, true)
	if err != nil {
		return nil, err
	}
	if w == nil {
		return p.deliver(r, sizeBytes)
	}
	select {
	case <-w.ready:
	case <-ctx.Done():
		if p.leave(w) {
			return nil, fmt.Errorf("%w: %d bytes, limit %d: %w", ErrExhausted, sizeBytes, p.Memory().LimitBytes, context.Cause(ctx))
		}
		// The room came at the same time.
	}
	if w.err != nil {
		return nil, w.err
	}
	return p.deliver(w.r, sizeBytes)
}

// TryGet is Get without waiting: without room, or with others waiting for it,
// it fails with ErrExhausted.
func (p *Pool) TryGet(sizeBytes int) (*Buffer, error) {
	r, _, err := p.take(sizeBytes, false)
	if err != nil {
		return nil, err
	}
	return p.deliver(r, sizeBytes)
}

// take takes room at once, or else queues (with wait).
func (p *Pool) take(sizeBytes int, wait bool) (run, *waiter, error) {
	if p == nil {
		return run{}, nil, ErrClosed
	}
	if sizeBytes < 1 || sizeBytes > maxAllocBytes {
		return run{}, nil, fmt.Errorf("%w: %d bytes", ErrInvalidSize, sizeBytes)
	}
	pages, node := classPages(sizeBytes), 0
	if p.nodes > 1 {
		node = p.o.node()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return run{}, nil, ErrClosed
	case bytesOf(pages) > p.o.LimitBytes:
		return run{}, nil, fmt.Errorf("%w: %d bytes take %d, limit %d", ErrTooLarge, sizeBytes, bytesOf(pages), p.o.LimitBytes)
	}
	if len(p.waiters) == 0 {
		if r, err := p.grant(pages, node); !errors.Is(err, errNoRoom) {
			return r, nil, err
		}
	}
	if !wait {
		return run{}, nil, fmt.Errorf("%w: %d bytes, limit %d", ErrExhausted, sizeBytes, p.o.LimitBytes)
	}
	w := &waiter{pages: pages, node: node, ready: make(chan struct{})}
	p.waiters = append(p.waiters, w)
	return run{}, w, nil
}

// grant takes a run of pages if the limit leaves room, else it fails with
// errNoRoom. p.mu is held.
func (p *Pool) grant(pages, node int) (run, error) {
	if p.inUseBytes+bytesOf(pages) > p.o.LimitBytes {
		return run{}, errNoRoom
	}
	s, page, err := p.place(pages, node)
	if err != nil {
		return run{}, err
	}
	cold := s.take(page, pages)
	p.inUseBytes += bytesOf(pages)
	p.inUseCount++
	p.peakBytes = max(p.peakBytes, p.inUseBytes)
	p.cachedBytes -= bytesOf(pages - cold)
	r := run{s: s, page: page, pages: pages}
	if cold > 0 {
		p.squeeze(p.o.LimitBytes - p.inUseBytes)
		spare := max(0, p.o.LimitBytes-p.inUseBytes-p.cachedBytes) / int64(unitBytes)
		p.cachedBytes += bytesOf(s.fill(&r, int(spare)))
	}
	return r, nil
}

// place finds free pages near a node, or maps a slab. p.mu is held.
func (p *Pool) place(pages, node int) (*slab, int, error) {
	align := classAlign(pages)
	for _, s := range p.slabs {
		if s.node == node {
			if page, ok := s.find(pages, align); ok {
				return s, page, nil
			}
		}
	}
	// Memory of another node is better than to take it from that node.
	if p.nodes > 1 && p.inUseBytes+p.cachedBytes+bytesOf(pages) > p.o.LimitBytes {
		for _, s := range p.slabs {
			if page, ok := s.find(pages, align); ok {
				return s, page, nil
			}
		}
	}
	s, err := p.addSlab(pages, node)
	return s, 0, err
}

// deliver makes the buffer of a run that was granted. Filling in happens here,
// outside the lock.
func (p *Pool) deliver(r run, sizeBytes int) (*Buffer, error) {
	if r.fillTo > r.fillFrom {
		known, err := p.o.populate(r.s.piece(r.fillFrom, r.fillTo))
		if err != nil {
			p.give(r.s, r.page, r.pages)
			return nil, err
		}
		if !known { // then only what is ours may be touched
			touch(r.bytes())
		}
		p.settle(r)
	}
	b := &Buffer{mem: r.bytes()[:sizeBytes], pool: p, slab: r.s}
	p.record(b)
	return b, nil
}

// settle keeps the books true after filling in more than the run itself.
func (p *Pool) settle(r run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.s.settle(r.fillFrom, r.fillTo)
}

// touch writes to each page, which its owner has not used yet.
func touch(mem []byte) {
	for i := 0; i < len(mem); i += PageBytes {
		mem[i] = 0
	}
}

// leave takes w out of the queue; false says that it was served meanwhile.
func (p *Pool) leave(w *waiter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.done {
		return false
	}
	for i, other := range p.waiters {
		if other == w {
			p.waiters = append(p.waiters[:i], p.waiters[i+1:]...)
			break
		}
	}
	p.serve() // a smaller request may have stood behind it
	return true
}

// serve grants room to those who wait, in order. p.mu is held.
func (p *Pool) serve() {
	for len(p.waiters) > 0 {
		w := p.waiters[0]
		if w.r, w.err = p.grant(w.pages, w.node); errors.Is(w.err, errNoRoom) {
			w.err = nil
			return
		}
		w.done = true
		close(w.ready)
		p.waiters[0] = nil
		p.waiters = p.waiters[1:]
	}
}

// put takes back the memory of a freed buffer.
func (p *Pool) put(b *Buffer) {
	p.forget(b)
	p.give(b.slab, b.slab.pageOf(b.mem), cap(b.mem)/unitBytes)
}

// give takes a run back and serves who waits for room.
func (p *Pool) give(s *slab, page, pages int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.give(page, pages)
	p.inUseBytes -= bytesOf(pages)
	p.inUseCount--
	p.cachedBytes += bytesOf(pages)
	if p.closed {
		p.squeeze(0)
		return
	}
	p.serve()
	p.armIdle()
}

// Close returns what is cached to the kernel and ends all waiting with
// ErrClosed. It does not wait: buffers still in use stay valid and are
// unmapped when they are freed; if there are some it returns ErrLeaked with
// their number and bytes and, with RecordSites, where they were taken. A
// second Close answers by what is still in use then.
func (p *Pool) Close() error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.disarmIdle()
	p.squeeze(0)
	for _, w := range p.waiters {
		w.err, w.done = ErrClosed, true
		close(w.ready)
	}
	p.waiters = nil
	if p.inUseCount > 0 {
		return fmt.Errorf("%w: %d of %d bytes together%s", ErrLeaked, p.inUseCount, p.inUseBytes, p.sites())
	}
	return nil
}

func bytesOf(pages int) int64 { return int64(pages) * int64(unitBytes) }
