package aligned

import (
	"context"
	"fmt"
	"math/bits"
	"sync"
)

// Pool recycles buffers in size classes, powers of two from PageBytes (or the system's page) up, and
// keeps what it holds (in use and cached together) within a limit. Memory is
// not zeroed between owners. Requests that find no room wait in the order of
// their arrival. It is safe for concurrent use; the methods of a nil Pool
// answer ErrClosed or zeros.
type Pool struct {
	mu         sync.Mutex
	limitBytes int64
	inUseBytes int64
	inUseCount int64
	// cachedBytes and cached are the free buffers, by class.
	cachedBytes int64
	cached      [maxClasses][][]byte
	waiters     []*waiter
	closed      bool
}

// maxClasses bounds the class of maxAllocBytes.
const maxClasses = 64

// waiter is a request for room. One that found none has a channel, which is
// closed, with done set, once the room is taken in its name or the pool
// closed.
type waiter struct {
	class      int
	classBytes int64
	ready      chan struct{}
	mem        []byte // recycled, or nil: to be mapped
	err        error
	done       bool
}

// NewPool makes a pool that holds at most limitBytes.
func NewPool(limitBytes int64) *Pool { return &Pool{limitBytes: limitBytes} }

// classOf is the class of a size and how many bytes its buffers have.
func classOf(sizeBytes int) (class int, classBytes int64) {
	if sizeBytes <= unitBytes {
		return 0, int64(unitBytes)
	}
	class = bits.Len(uint(sizeBytes-1)) - bits.Len(uint(unitBytes-1))
	return class, int64(unitBytes) << class
}

// Get takes a buffer of at least sizeBytes; Bytes is as long as asked for.
// Without room it waits until other owners free theirs or ctx ends, and then
// fails with ErrExhausted, which wraps the error of ctx. What can never fit
// fails with ErrTooLarge at once. It may also fail with ErrClosed,
// ErrInvalidSize, or the kernel's error.
func (p *Pool) Get(ctx context.Context, sizeBytes int) (*Buffer, error) {
	w, err := p.take(sizeBytes, true)
	if err != nil {
		return nil, err
	}
	if w.ready == nil { // no need to wait
		return p.deliver(w, sizeBytes)
	}
	select {
	case <-w.ready:
		return p.deliver(w, sizeBytes)
	case <-ctx.Done():
	}
	if p.leave(w) {
		return nil, fmt.Errorf("%w: %d bytes, limit %d: %w", ErrExhausted, sizeBytes, p.limitBytes, context.Cause(ctx))
	}
	return p.deliver(w, sizeBytes) // the room came at the same time
}

// TryGet is Get without waiting: without room, or with others waiting for it,
// it fails with ErrExhausted.
func (p *Pool) TryGet(sizeBytes int) (*Buffer, error) {
	w, err := p.take(sizeBytes, false)
	if err != nil {
		return nil, err
	}
	return p.deliver(w, sizeBytes)
}

// take takes room at once, or else queues (with wait).
func (p *Pool) take(sizeBytes int, wait bool) (*waiter, error) {
	if p == nil {
		return nil, ErrClosed
	}
	if sizeBytes < 1 || sizeBytes > maxAllocBytes {
		return nil, fmt.Errorf("%w: %d bytes", ErrInvalidSize, sizeBytes)
	}
	class, classBytes := classOf(sizeBytes)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return nil, ErrClosed
	case classBytes > p.limitBytes:
		return nil, fmt.Errorf("%w: %d bytes take %d, limit %d", ErrTooLarge, sizeBytes, classBytes, p.limitBytes)
	}
	w := &waiter{class: class, classBytes: classBytes}
	if len(p.waiters) == 0 && p.grant(w) {
		return w, nil
	}
	if !wait {
		return nil, fmt.Errorf("%w: %d bytes, limit %d", ErrExhausted, sizeBytes, p.limitBytes)
	}
	w.ready = make(chan struct{})
	p.waiters = append(p.waiters, w)
	return w, nil
}

// grant takes room for w if there is some, with a cached buffer of its class
// or by giving cached ones of others back to the kernel. p.mu is held.
func (p *Pool) grant(w *waiter) bool {
	if p.inUseBytes+w.classBytes > p.limitBytes {
		return false
	}
	if n := len(p.cached[w.class]); n > 0 {
		w.mem = p.cached[w.class][n-1]
		p.cached[w.class][n-1] = nil
		p.cached[w.class] = p.cached[w.class][:n-1]
		p.cachedBytes -= w.classBytes
	} else {
		p.trim(p.limitBytes - p.inUseBytes - w.classBytes)
	}
	p.inUseBytes += w.classBytes
	p.inUseCount++
	w.done = true
	if w.ready != nil {
		close(w.ready)
	}
	return true
}

// trim unmaps cached buffers, the largest first, until they hold at most
// keepBytes. p.mu is held.
func (p *Pool) trim(keepBytes int64) {
	for class := maxClasses - 1; class >= 0 && p.cachedBytes > keepBytes; class-- {
		for n := len(p.cached[class]); n > 0 && p.cachedBytes > keepBytes; n-- {
			unmapMemory(p.cached[class][n-1])
			p.cached[class][n-1] = nil
			p.cached[class] = p.cached[class][:n-1]
			p.cachedBytes -= int64(unitBytes) << class
		}
	}
}

// deliver makes the buffer of a waiter that is done.
func (p *Pool) deliver(w *waiter, sizeBytes int) (*Buffer, error) {
	if w.err != nil {
		return nil, w.err
	}
	if w.mem == nil {
		mem, err := mapMemory(int(w.classBytes))
		if err != nil {
			p.giveBack(w.classBytes)
			return nil, fmt.Errorf("aligned: map %d bytes: %w", w.classBytes, err)
		}
		w.mem = mem
	}
	return &Buffer{mem: w.mem, size: sizeBytes, pool: p}, nil
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
		if !p.grant(w) {
			return
		}
		p.waiters[0] = nil
		p.waiters = p.waiters[1:]
	}
}

// put takes the memory of a freed buffer back.
func (p *Pool) put(mem []byte) {
	class, classBytes := classOf(len(mem))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		unmapMemory(mem)
	} else {
		p.cached[class] = append(p.cached[class], mem)
		p.cachedBytes += classBytes
	}
	p.endUse(classBytes)
}

// giveBack returns room for which no memory could be mapped.
func (p *Pool) giveBack(classBytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endUse(classBytes)
}

// endUse returns room and serves who waits for it. p.mu is held.
func (p *Pool) endUse(classBytes int64) {
	p.inUseBytes -= classBytes
	p.inUseCount--
	p.serve()
}

// Stats is what the pool holds now, in bytes: given out, cached, and the
// limit on both together.
func (p *Pool) Stats() (inUse, cached, limit int64) {
	if p == nil {
		return 0, 0, 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.inUseBytes, p.cachedBytes, p.limitBytes
}

// Close unmaps what is cached and ends all waiting with ErrClosed. It does
// not wait: buffers still in use stay valid and are unmapped when they are
// freed; if there are some it returns ErrLeaked with their number. A second
// Close answers by what is still in use then.
func (p *Pool) Close() error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.trim(0)
	for _, w := range p.waiters {
		w.err, w.done = ErrClosed, true
		close(w.ready)
	}
	p.waiters = nil
	if p.inUseCount > 0 {
		return fmt.Errorf("%w: %d of %d bytes together", ErrLeaked, p.inUseCount, p.inUseBytes)
	}
	return nil
}
