package replay

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/sealstone/sealstone/tools/internal/diskuse"
	"github.com/sealstone/sealstone/tools/internal/trace"
)

// Run replays a trace. The error is about what could not be done (a trace
// that cannot be read, a store that does not open); promises that were broken
// are in the report, see [Report.Broken].
func Run(ctx context.Context, c Config) (*Report, error) {
	t, err := trace.Read(c.TracePath)
	if err != nil {
		return nil, err
	}
	if c, t, err = c.withTrace(t); err != nil {
		return nil, err
	}
	r := &run{
		config: c, trace: t, tally: &tally{},
		infinite: t.InfiniteHitsEach(), done: make([]bool, len(t.Requests)),
	}
	watcher := diskuse.Watch(c.Dir, c.SampleEvery, os.Getpid())
	begin := time.Now()
	err = r.all(ctx, watcher)
	watcher.Stop()
	if err != nil {
		return nil, err
	}
	report := r.tally.finish(r.counters, time.Since(begin))
	report.Trace, report.Format = c.TracePath, t.Format
	report.BlockBytes, report.CapacityBytes = c.BlockBytes, c.CapacityBytes
	report.HitRateInfinite = ratio(t.InfiniteHits(), t.References())
	if report.DiskBytesMax, report.DiskSamples, err = watcher.Max(); err != nil {
		return nil, fmt.Errorf("replay: measure the disk use of %s: %w", c.Dir, err)
	}
	return report, nil
}

// run is a replay under way.
type run struct {
	config   Config
	trace    *trace.Trace
	counters Counters // of stores that are gone

	// repeated are requests that were cut off by the kill. What they put
	// before is no hit when they are replayed again.
	repeated map[int]bool
	infinite []int // hits of an infinite cache by request

	mu    sync.Mutex
	tally *tally
	done  []bool // by request
	count int
	next  int
}

// all runs the child's part, if there is one, and the rest in this process.
func (r *run) all(ctx context.Context, w *diskuse.Watcher) error {
	var books *ledger
	if r.config.KillAfter > 0 {
		var err error
		if books, err = r.runChild(ctx, w); err != nil {
			return err
		}
	}
	begin := time.Now()
	s, err := r.config.Open(ctx, r.config)
	if err != nil {
		return fmt.Errorf("replay: open the store: %w", err)
	}
	opened := time.Since(begin)
	if books != nil {
		err = r.check(ctx, s, books, opened)
		r.repeated = books.begun
	}
	if err == nil {
		err = r.requests(ctx, s, nobody{}, r.finished)
	}
	if err == nil {
		err = s.Flush(ctx)
	}
	r.counters = r.counters.add(s.Counters())
	if cerr := closeStore(ctx, s); err == nil {
		err = cerr
	}
	return err
}

// closeTimeout bounds a close, which goes on after an interrupt.
const closeTimeout = time.Minute

func closeStore(ctx context.Context, s Store) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		return fmt.Errorf("replay: close the store: %w", err)
	}
	return nil
}

// requests replays what is not done yet, in order, by several workers.
func (r *run) requests(ctx context.Context, s Store, watch observer, finished func(Outcome) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	for range r.config.Concurrency {
		w, err := newWorker(r.config, r.trace, s, watch)
		if err != nil {
			cancel(err)
			break
		}
		group.Go(func() {
			defer w.free()
			if err := r.work(ctx, w, finished); err != nil {
				cancel(err)
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}

func (r *run) work(ctx context.Context, w *worker, finished func(Outcome) error) error {
	for {
		index, ok := r.take()
		if !ok {
			return nil
		}
		o, err := w.request(ctx, index)
		if err == nil {
			err = finished(o)
		}
		if err != nil {
			return err
		}
	}
}

// take gives out the next request that is not done.
func (r *run) take() (index int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.next < len(r.done) && r.done[r.next] {
		r.next++
	}
	if r.next == len(r.done) {
		return 0, false
	}
	r.next++
	return r.next - 1, true
}

// finished takes a request's outcome into the account.
func (r *run) finished(o Outcome) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.repeated[o.Request] {
		o.Hits = min(o.Hits, r.infinite[o.Request])
	}
	r.tally.add(o)
	r.done[o.Request] = true
	r.count++
	r.config.Progress(r.count, len(r.done))
	return nil
}
