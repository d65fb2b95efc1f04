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
	// PoolWaitMax bounds the wait for a bounce buffer, after which the item
	// is tiers.ErrBusy. 0 means DefaultPoolWaitMax.
	PoolWaitMax time.Duration
}

// PreadReader reads with preadv(2) on a capped pool of goroutines: the path
// that works everywhere. It implements [tiers.Reader].
//
// A range goes straight into the spans where nobody can give it up (the
// context cannot end, or Item.WaitForDevice) and the memory suits the file;
// else through a bounce buffer, and is copied once it is whole.
type PreadReader struct {
	pool        *aligned.Pool
	workersMax  int
	queueMax    int
	poolWaitMax time.Duration
	refusal     atomic.Pointer[string]

	mu      sync.Mutex
	wake    *sync.Cond
	queue   []*request
	workers int // goroutines alive
	busy    int // of these, inside a read
	closed  bool
	gone    chan struct{} // closed when closed is set and no worker is left
}

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
func (p *PreadReader) Name() string { return "pread" }

// Refusal says why the reader no longer uses direct I/O, or "" when nothing
// was refused.
func (p *PreadReader) Refusal() string {
	if s := p.refusal.Load(); s != nil {
		return *s
	}
	return ""
}

// ReadBatch implements tiers.Reader.
func (p *PreadReader) ReadBatch(ctx context.Context, items []tiers.Item) error {
	b := &batch{ctx: ctx, done: make(chan struct{}, 1)}
	reqs := make([]request, len(items))
	queued := make([]*request, 0, len(items))
	for i := range items {
		items[i].N, items[i].Path, items[i].Err = 0, tiers.PathNone, nil
		if err := items[i].Check(); err != nil {
			items[i].Err = fmt.Errorf("disk: read item %d: %w", i, err)
			continue
		}
		reqs[i].init(b, &items[i])
		queued = append(queued, &reqs[i])
	}
	if len(queued) == 0 {
		return nil
	}
	b.pending.Store(int64(len(queued)))
	if err := p.submit(queued); err != nil {
		return tiers.FailAll(items, fmt.Errorf("disk: read batch: %w", err))
	}
	select {
	case <-b.done:
	case <-ctx.Done():
		p.abandon(queued)
		<-b.done
	}
	for i := range items {
		if items[i].Err == nil {
			reqs[i].answer(&items[i])
		}
	}
	return nil
}

// submit queues the requests, starting workers as needed; those past the
// limit are answered at once.
func (p *PreadReader) submit(reqs []*request) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return tiers.ErrClosed
	}
	room := p.queueMax + p.workersMax - p.busy - len(p.queue)
	for _, r := range reqs {
		if room <= 0 {
			r.refuse(fmt.Errorf("disk: read %d of file %d: %d reads wait already: %w",
				r.offset, r.file.ID(), len(p.queue), tiers.ErrBusy))
			continue
		}
		room--
		r.file.Retain()
		p.queue = append(p.queue, r)
		if p.workers < p.workersMax && p.workers-p.busy < len(p.queue) {
			p.workers++
			go p.work()
		} else {
			p.wake.Signal()
		}
	}
	return nil
}

// abandon gives up what may be given up and takes the unstarted requests out
// of the queue, so that dead ones do not fill it.
func (p *PreadReader) abandon(reqs []*request) {
	for _, r := range reqs {
		r.abandon()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := p.queue[:0]
	for _, r := range p.queue {
		if r.state.Load() == stateQueued {
			kept = append(kept, r)
		}
	}
	clear(p.queue[len(kept):])
	p.queue = kept
}

// work is one worker: it serves requests until the reader is closed and the
// queue is empty.
func (p *PreadReader) work() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		for len(p.queue) == 0 && !p.closed {
			p.wake.Wait()
		}
		if len(p.queue) == 0 {
			p.workers--
			if p.workers == 0 {
				close(p.gone)
			}
			return
		}
		r := p.queue[0]
		p.queue[0] = nil
		p.queue = p.queue[1:]
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
		busy, waiting := p.busy, len(p.queue)
		p.mu.Unlock()
		return fmt.Errorf("disk: close reader: %d reads in the kernel, %d waiting; call again: %w",
			busy, waiting, context.Cause(ctx))
	}
}
