package disk

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sealstone/sealstone/tiers"
)

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
	maxRebuilds int

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
		maxRebuilds: orDefault(o.rebuilds, maxRebuilds),
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
