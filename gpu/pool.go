package gpu

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// pool gives out pieces of one kind of memory under a byte limit. It gets the
// memory in regions, lazily, and keeps them: registering is what costs. Who
// finds no room waits in the order of arrival, so that none is overtaken for
// ever, large or small, until the context or the bound on waiting ends.
//
// A piece that a hung call may still touch is set aside: it stays in use for
// good, and its region is never let go.
type pool struct {
	name        string
	limitBytes  int64 // less what the driver did not take back
	regionBytes int64 // what is asked of the driver at a time
	unitBytes   int64 // sizes are rounded up to it
	waitMax     time.Duration
	clock       Clock
	// grow gets a region of exactly so many bytes, drop lets it go. They are
	// called without the lock, by one goroutine at a time.
	grow func(sizeBytes int64) (*region, error)
	drop func(*region) error

	mu       sync.Mutex
	regions  []*region
	inUse    map[*piece]struct{}
	waiters  []*poolWaiter
	growing  bool
	grown    sync.WaitGroup // the goroutine that grows
	growErr  error          // of the last try, nil after a success
	growNext time.Time
	closed   error // why nothing is given any more
	stats    PoolStats
}

// region is memory that the driver gave.
type region struct {
	base      uint64 // address, in the device or in this process
	sizeBytes int64
	mem       []byte // of pinned memory
	own       any    // what drop needs
	arena     *arena
	taken     int // pieces
}

// piece is a part of a region that somebody holds.
type piece struct {
	pool      *pool
	region    *region
	off       int64
	sizeBytes int64 // as asked for
	holder    string
	aside     bool
}

// poolWaiter is a request for room; ready is closed once p or err is set.
type poolWaiter struct {
	sizeBytes int64
	holder    string
	ready     chan struct{}
	p         *piece
	err       error
	done      bool
}

// growAgain is how long a pool does without asking a driver that refused.
const growAgain = time.Second

func (p *pool) init() *pool {
	p.inUse = map[*piece]struct{}{}
	p.stats.LimitBytes = p.limitBytes
	return p
}

// limit is the bound as it is now.
func (p *pool) limit() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limitBytes
}

// take gets a piece of at least sizeBytes for a holder that Close names.
func (p *pool) take(ctx context.Context, sizeBytes int64, holder string) (*piece, error) {
	if sizeBytes < 1 {
		return nil, fmt.Errorf("%w: %d bytes of %s memory", ErrInvalid, sizeBytes, p.name)
	}
	return p.await(ctx, p.request(sizeBytes, holder))
}

// request queues a request and serves it if there is room.
func (p *pool) request(sizeBytes int64, holder string) *poolWaiter {
	w := &poolWaiter{sizeBytes: sizeBytes, holder: holder, ready: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed != nil {
		w.answer(nil, p.closed)
		return w
	}
	if sizeBytes > p.limitBytes || roundUp(sizeBytes, p.unitBytes) > p.limitBytes {
		p.stats.Refused++
		w.answer(nil, fmt.Errorf("%w: %d bytes of %s memory, of which there are at most %d", ErrTooLarge, sizeBytes, p.name, p.limitBytes))
		return w
	}
	p.waiters = append(p.waiters, w)
	p.serve()
	p.growIfNeeded()
	if !w.done {
		p.stats.Waits++
	}
	return w
}

// await waits for the answer, the end of ctx, or the bound.
func (p *pool) await(ctx context.Context, w *poolWaiter) (*piece, error) {
	select {
	case <-w.ready:
		return w.p, w.err
	default:
	}
	// A little longer than a call of the driver may take, so that one that
	// hangs is the answer.
	late, stop := p.clock.After(p.waitMax + p.waitMax/2)
	defer stop()
	var why error
	select {
	case <-w.ready:
		return w.p, w.err
	case <-ctx.Done():
		why = context.Cause(ctx)
	case <-late:
		why = fmt.Errorf("none was given back within %v", p.waitMax)
	}
	if !p.leave(w) { // the answer came at the same time
		return w.p, w.err
	}
	return nil, fmt.Errorf("%w: %d bytes of %s memory: %w", ErrExhausted, w.sizeBytes, p.name, why)
}

// leave takes w out of the queue; false says that it was answered meanwhile.
func (p *pool) leave(w *poolWaiter) bool {
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
	p.stats.Refused++
	p.serve() // a smaller request may have stood behind it
	p.growIfNeeded()
	return true
}

func (w *poolWaiter) answer(pc *piece, err error) {
	w.p, w.err, w.done = pc, err, true
	close(w.ready)
}

// serve gives room to those who wait, in order. p.mu is held.
func (p *pool) serve() {
	for len(p.waiters) > 0 {
		w := p.waiters[0]
		pc := p.place(w)
		if pc == nil {
			return
		}
		w.answer(pc, nil)
		p.waiters[0] = nil
		p.waiters = p.waiters[1:]
	}
}

// place cuts a piece from a region. p.mu is held.
func (p *pool) place(w *poolWaiter) *piece {
	n := roundUp(w.sizeBytes, p.unitBytes)
	for _, r := range p.regions {
		if off, ok := r.arena.take(n); ok {
			pc := &piece{pool: p, region: r, off: off, sizeBytes: w.sizeBytes, holder: w.holder}
			r.taken++
			p.inUse[pc] = struct{}{}
			p.stats.InUseBytes += n
			return pc
		}
	}
	return nil
}

// address is where the piece begins.
func (pc *piece) address() uint64 { return pc.region.base + uint64(pc.off) }

// bytes is the memory of a pinned piece.
func (pc *piece) bytes() []byte {
	whole := roundUp(pc.sizeBytes, pc.pool.unitBytes)
	return pc.region.mem[pc.off : pc.off+pc.sizeBytes : pc.off+whole]
}

// give returns the piece: nothing touches its memory any more.
func (pc *piece) give() {
	p := pc.pool
	n := roundUp(pc.sizeBytes, p.unitBytes)
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, held := p.inUse[pc]; !held || pc.aside {
		return
	}
	delete(p.inUse, pc)
	pc.region.arena.give(pc.off, n)
	pc.region.taken--
	p.stats.InUseBytes -= n
	p.serve()
	p.growIfNeeded()
}

// setAside keeps the piece for good, since something may still touch it.
func (pc *piece) setAside(why string) {
	p := pc.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, held := p.inUse[pc]; !held || pc.aside {
		return
	}
	pc.aside = true
	pc.holder = why
	p.stats.SetAsideBytes += roundUp(pc.sizeBytes, p.unitBytes)
	p.failHopeless()
}

func (p *pool) snapshot() PoolStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}
