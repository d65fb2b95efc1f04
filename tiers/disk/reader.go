package disk

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/tiers"
)

// Limits and defaults of [PreadOptions].
const (
	DefaultReadWorkers  = 32
	MaxReadWorkers      = 64
	DefaultReadQueue    = 4096
	DefaultPoolWaitMax  = 5 * time.Second
	directAlignBytes    = PageBytes
	maxSpansPerSyscall  = 1024 // IOV_MAX
	maxTransientRetries = 64
)

// PreadOptions sets up a [PreadReader].
type PreadOptions struct {
	// Workers is the number of reads in the kernel at one time, each with a
	// thread of its own. 0 means DefaultReadWorkers; more than
	// MaxReadWorkers is cut to that.
	Workers int
	// QueueMax is the number of reads that may wait for a worker; one more
	// is answered tiers.ErrBusy. 0 means DefaultReadQueue.
	QueueMax int
	// Pool gives the bounce buffers. It must be at least as large as the
	// largest item with 4 KiB added at both ends and rounded up to a power
	// of two. Required.
	Pool *aligned.Pool
	// Buffered takes every byte through the page cache, and keeps little of
	// it there.
	Buffered bool
	// PoolWaitMax bounds the wait for a bounce buffer, after which the item
	// is tiers.ErrBusy. 0 means DefaultPoolWaitMax.
	PoolWaitMax time.Duration
}

// PreadReader reads with preadv(2) and writes with pwrite(2) on a capped pool
// of goroutines: the path that works everywhere. It implements
// [tiers.ReadWriter].
//
// A range goes straight into the spans where nobody can give it up (the
// context cannot end, or Item.WaitForDevice) and the memory suits the file;
// else through a bounce buffer, and is copied once it is whole.
type PreadReader struct {
	pool        *aligned.Pool
	workersMax  int
	queueMax    int
	poolWaitMax time.Duration
	buffered    bool
	refusal     atomic.Pointer[string] // of direct reads
	refusalW    atomic.Pointer[string] // of direct writes

	mu      sync.Mutex
	wake    *sync.Cond
	queue   lanes
	workers int // goroutines alive
	busy    int // of these, inside a read
	closed  bool
	gone    chan struct{} // closed when closed is set and no worker is left
}

var _ tiers.ReadWriter = (*PreadReader)(nil)

// NewPreadReader returns a reader without any goroutine yet; they start as
// reads come in.
func NewPreadReader(o PreadOptions) (*PreadReader, error) {
	if o.Pool == nil {
		return nil, fmt.Errorf("disk: new pread reader: no buffer pool: %w", ErrInvalid)
	}
	if o.Workers < 0 || o.QueueMax < 0 || o.PoolWaitMax < 0 {
		return nil, fmt.Errorf("disk: new pread reader: negative limit: %w", ErrInvalid)
	}
	p := &PreadReader{
		pool:        o.Pool,
		workersMax:  min(orDefault(o.Workers, DefaultReadWorkers), MaxReadWorkers),
		queueMax:    orDefault(o.QueueMax, DefaultReadQueue),
		poolWaitMax: orDefault(o.PoolWaitMax, DefaultPoolWaitMax),
		buffered:    o.Buffered,
		gone:        make(chan struct{}),
	}
	p.wake = sync.NewCond(&p.mu)
	return p, nil
}

func orDefault[T int | int64 | time.Duration](v, def T) T {
	if v == 0 {
		return def
	}
	return v
}

// Name implements tiers.Reader.
func (p *PreadReader) Name() string {
	if p.buffered {
		return "buffered"
	}
	return "pread"
}

// Buffered says whether the reader was told to use the page cache.
func (p *PreadReader) Buffered() bool { return p.buffered }

// Refusal says why reads no longer use direct I/O, or "" when nothing was
// refused.
func (p *PreadReader) Refusal() string { return reason(&p.refusal) }

// WriteRefusal says why writes no longer use direct I/O, or "" when nothing
// was refused.
func (p *PreadReader) WriteRefusal() string { return reason(&p.refusalW) }

func reason(p *atomic.Pointer[string]) string {
	if s := p.Load(); s != nil {
		return *s
	}
	return ""
}

// refuse remembers the first reason.
func refuse(p *atomic.Pointer[string], err error) {
	s := err.Error()
	p.CompareAndSwap(nil, &s)
}

// ReadBatch implements tiers.Reader.
func (p *PreadReader) ReadBatch(ctx context.Context, items []tiers.Item) error {
	return newBatch(ctx, items).run(p)
}

// WriteBatch implements tiers.ReadWriter by pwrite(2).
func (p *PreadReader) WriteBatch(items []tiers.Item) error {
	return newWriteBatch(items).run(p)
}

// submit implements queue, but for what went to a ring.
func (p *PreadReader) submit(b *batch) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return tiers.ErrClosed
	}
	room := p.queueMax + p.workersMax - p.busy - p.queue.len()
	for i := range b.reqs {
		r := &b.reqs[i]
		if r.item == nil || r.onRing {
			continue
		}
		if room <= 0 {
			r.noRoom = true
			continue
		}
		room--
		r.file.Retain()
		p.push(r)
	}
	return nil
}

// push queues a request for the next worker, or for a new one. p.mu is held.
func (p *PreadReader) push(r *request) {
	p.queue.push(r)
	if p.workers < p.workersMax && p.workers-p.busy < p.queue.len() {
		p.workers++
		go p.work()
	} else {
		p.wake.Signal()
	}
}

// takeOver queues a request that a ring could not serve and whose file it
// retained. There is always room: the rings bound how many there can be. The
// reader is not closed before they are.
func (p *PreadReader) takeOver(r *request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.push(r)
}

// abandon implements queue: what was given up leaves the queue, so that dead
// requests do not fill it.
func (p *PreadReader) abandon(b *batch) {
	b.abandon()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue.dropAbandoned()
}

// work is one worker: it serves requests until the reader is closed and the
// queue is empty.
func (p *PreadReader) work() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		for p.queue.len() == 0 && !p.closed {
			p.wake.Wait()
		}
		if p.queue.len() == 0 {
			p.workers--
			if p.workers == 0 {
				close(p.gone)
			}
			return
		}
		r := p.queue.pop()
		p.busy++
		p.mu.Unlock()
		p.serve(r)
		p.mu.Lock()
		p.busy--
	}
}

// Close implements tiers.Reader. Reads that are queued are still served.
func (p *PreadReader) Close(ctx context.Context) error {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		if p.workers == 0 {
			close(p.gone)
		}
		p.wake.Broadcast()
	}
	p.mu.Unlock()
	select {
	case <-p.gone:
		return nil
	default:
	}
	select {
	case <-p.gone:
		return nil
	case <-ctx.Done():
		p.mu.Lock()
		busy, waiting := p.busy, p.queue.len()
		p.mu.Unlock()
		return fmt.Errorf("disk: close reader: %d reads in the kernel, %d waiting; call again: %w",
			busy, waiting, context.Cause(ctx))
	}
}
