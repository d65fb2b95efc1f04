package disk

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sealstone/sealstone/internal/uring"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers"
)

// Limits and defaults of [UringOptions].
const (
	DefaultUringDepth = 64
	MaxUringDepth     = 1024
	MaxUringRings     = 16

	// DefaultSubmitBytes fits the cache of a CPU of its own, with room for
	// what else is in there.
	DefaultSubmitBytes = 1 << 20

	uringRingsAtMost = 4  // of the default
	submitBatchMax   = 16 // requests in one call

	// A ring that breaks is made anew, but not for ever: more often than
	// this in a minute, and its requests go to the pread path.
	maxRebuilds    = 3
	rebuildsPerDur = time.Minute
)

// UringOptions sets up a [UringReader].
type UringOptions struct {
	// Rings is the number of rings, each with a thread of its own on which
	// Item.Done runs. 0 means the number of CPUs, at most 4; more than
	// MaxUringRings is cut to that.
	Rings int
	// Depth is the number of requests in the kernel at one time, over all
	// rings. 0 means DefaultUringDepth; more than MaxUringDepth is cut to
	// that, less than one per ring raised to it.
	Depth int
	// SubmitBytes is how much a ring hands to the kernel in one call: at
	// least one request, at most 16. A device in memory completes them inside
	// the call, and what is not too much is still in the CPU's cache when
	// Done looks at it. 0 means DefaultSubmitBytes.
	SubmitBytes int
	// Pread is the path for what a ring can not do; its QueueMax bounds the
	// queue of the rings as well, and its Pool gives the bounce buffers.
	Pread PreadOptions

	// open makes a ring in place of uring.New, in tests.
	open func(entries int) (ring, error)
}

// ring is what a worker needs of uring.Ring, so that tests can break it.
type ring interface {
	Push(uring.SQE) bool
	Pending() int
	InFlight() int
	Enter(min int, timeout time.Duration) error
	Wait(min int, timeout time.Duration) error
	Next() (uring.CQE, bool)
	Close() error
	Modes() string
}

func openRing(entries int) (ring, error) {
	r, err := uring.New(entries)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// UringReader reads and writes past the page cache through io_uring: one
// ring, on a thread of its own, for each of a few CPUs. It implements
// [tiers.ReadWriter].
//
// Whatever a ring can not do goes to the pread path, item by item: files
// without a direct descriptor, spans that suit no direct write, kinds of I/O
// that the kernel refuses, and all of it once the rings are broken for good.
//
// Item.Done runs on the thread of the ring that did the I/O, while the kernel
// works on the ring's other requests and other rings on theirs.
type UringReader struct {
	pread       *PreadReader
	queueMax    int
	depth       int // per ring
	submitBytes int
	open        func(entries int) (ring, error)

	refusal  atomic.Pointer[string] // of reads by a ring
	refusalW atomic.Pointer[string] // of writes by a ring

	inFlight  atomic.Int64 // requests that the workers have taken
	fallbacks atomic.Uint64

	mu       sync.Mutex
	wake     *sync.Cond
	queue    lanes
	workers  []*ringWorker // with a ring that works
	idle     int           // of these, waiting on wake
	threads  int           // goroutines of workers
	closed   bool
	gone     chan struct{} // closed when no thread is left
	modes    string
	rebuilt  uint64
	rebuilds []time.Time // of the last minute
	broken   string      // why a ring was given up last
}

var _ tiers.ReadWriter = (*UringReader)(nil)

// NewUringReader makes the rings. Where the system has no io_uring, or a
// limit of the process is in the way, it fails with an error of package uring
// that says why (uring.ErrUnsupported, uring.ErrLimit), and leaves nothing
// behind.
func NewUringReader(o UringOptions) (*UringReader, error) {
	if o.Rings < 0 || o.Depth < 0 || o.SubmitBytes < 0 {
		return nil, fmt.Errorf("disk: new uring reader: negative limit: %w", ErrInvalid)
	}
	if o.Pread.Buffered {
		return nil, fmt.Errorf("disk: new uring reader: rings go past the page cache, Buffered is set: %w", ErrInvalid)
	}
	p, err := NewPreadReader(o.Pread)
	if err != nil {
		return nil, fmt.Errorf("disk: new uring reader: %w", err)
	}
	rings := min(orDefault(o.Rings, min(runtime.GOMAXPROCS(0), uringRingsAtMost)), MaxUringRings)
	depth := min(orDefault(o.Depth, DefaultUringDepth), MaxUringDepth)
	u := &UringReader{
		pread:       p,
		queueMax:    p.queueMax,
		depth:       max((depth+rings-1)/rings, 1),
		submitBytes: orDefault(o.SubmitBytes, DefaultSubmitBytes),
		open:        o.open,
		gone:        make(chan struct{}),
	}
	u.wake = sync.NewCond(&u.mu)
	if u.open == nil {
		u.open = openRing
	}
	if err := u.start(rings); err != nil {
		return nil, errors.Join(fmt.Errorf("disk: new uring reader: %w", err), u.Close(context.Background()))
	}
	return u, nil
}

// start starts the workers and waits until each has its ring.
func (u *UringReader) start(rings int) error {
	made := make(chan error, rings)
	u.mu.Lock()
	for range rings {
		w := &ringWorker{u: u}
		u.workers = append(u.workers, w)
		u.threads++
		go w.run(made)
	}
	u.mu.Unlock()
	var first error
	for range rings {
		if err := <-made; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// Name implements tiers.Reader.
func (u *UringReader) Name() string { return "uring" }

// Refusal says why reads do not, or no longer, take the best path, or "" when
// nothing was refused.
func (u *UringReader) Refusal() string {
	if s := reason(&u.refusal); s != "" {
		return s
	}
	return u.pread.Refusal()
}

// WriteRefusal is Refusal for writes.
func (u *UringReader) WriteRefusal() string {
	if s := reason(&u.refusalW); s != "" {
		return s
	}
	return u.pread.WriteRefusal()
}

// UringStats is the state of a [UringReader].
type UringStats struct {
	// Rings is the number of rings that work, Depth how many requests fit
	// into them together.
	Rings, Depth int
	// Modes names what the kernel granted at setup.
	Modes string
	// InFlight is the number of requests in the rings now, Queued how many
	// wait to get there.
	InFlight, Queued int
	// Rebuilt counts rings that broke and were made anew; Fallbacks the
	// requests that a ring began, or waited for, and the pread path did.
	Rebuilt, Fallbacks uint64
	// Broken says why a ring was given up last, or is "".
	Broken string
}

// Stats tells the state.
func (u *UringReader) Stats() UringStats {
	u.mu.Lock()
	defer u.mu.Unlock()
	return UringStats{
		Rings: len(u.workers), Depth: len(u.workers) * u.depth, Modes: u.modes,
		InFlight: int(u.inFlight.Load()), Queued: u.queue.len(),
		Rebuilt: u.rebuilt, Fallbacks: u.fallbacks.Load(), Broken: u.broken,
	}
}

// ReadBatch implements tiers.Reader.
func (u *UringReader) ReadBatch(ctx context.Context, items []tiers.Item) error {
	return newBatch(ctx, items).run(u)
}

// WriteBatch implements tiers.ReadWriter.
func (u *UringReader) WriteBatch(items []tiers.Item) error {
	return newWriteBatch(items).run(u)
}

// route decides whether a ring serves the request.
func (u *UringReader) route(r *request) bool {
	var f vfs.File
	switch {
	case r.b.write:
		if u.refusalW.Load() == nil {
			f = u.pread.directWriter(r)
		}
	case u.refusal.Load() == nil:
		f = u.pread.directReader(r)
	}
	if f == nil {
		return false
	}
	fd := f.Fd()
	r.fd = int(fd)
	return fd != vfs.InvalidFd
}

// submit implements queue. The pread path is closed after u is, so under the
// lock it is open.
func (u *UringReader) submit(b *batch) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return tiers.ErrClosed
	}
	queued, other := 0, 0
	room := u.queueMax + len(u.workers)*u.depth - int(u.inFlight.Load()) - u.queue.len()
	for i := range b.reqs {
		r := &b.reqs[i]
		if r.item == nil {
			continue
		}
		if r.onRing = len(u.workers) > 0 && u.route(r); !r.onRing {
			other++
			continue
		}
		if queued >= room {
			r.noRoom = true
			continue
		}
		queued++
		r.file.Retain()
		u.queue.push(r)
	}
	u.wakeFor(queued)
	if other == 0 {
		return nil
	}
	return u.pread.submit(b)
}

// wakeFor gets workers going for n new requests: first those that have
// nothing to do, then those that wait in the kernel. u.mu is held.
func (u *UringReader) wakeFor(n int) {
	for range min(n, u.idle) {
		u.wake.Signal()
		n--
	}
	for _, w := range u.workers {
		if n <= 0 {
			return
		}
		if w.asleep {
			w.asleep = false
			w.waker.Wake()
			n--
		}
	}
}

// abandon implements queue.
func (u *UringReader) abandon(b *batch) {
	u.pread.abandon(b)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.queue.dropAbandoned()
}

// Close implements tiers.Reader. Reads that are queued are still served.
func (u *UringReader) Close(ctx context.Context) error {
	u.mu.Lock()
	if !u.closed {
		u.closed = true
		u.wake.Broadcast()
		u.wakeFor(len(u.workers))
	}
	u.mu.Unlock()
	select {
	case <-u.gone:
		return u.pread.Close(ctx)
	default:
	}
	select {
	case <-u.gone:
		return u.pread.Close(ctx)
	case <-ctx.Done():
		s := u.Stats()
		return fmt.Errorf("disk: close uring reader: %d requests in the rings, %d waiting; call again: %w",
			s.InFlight, s.Queued, context.Cause(ctx))
	}
}
