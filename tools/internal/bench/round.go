package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sealstone/sealstone/tools/internal/cputime"
	"github.com/sealstone/sealstone/tools/internal/pagecache"
)

// task is what one round does.
type task struct {
	what     string // shown while it runs
	workload string
	round    int // from 1; 0 outside of rounds
	check    bool
}

// round runs a task over its batches. A round with puts ends with a flush,
// which belongs to the work.
func (b *bench) round(ctx context.Context, s *stage, t task) (measured, error) {
	w := workloads[t.workload]
	call := w.call
	if t.check {
		call = (*worker).check
	}
	if err := pagecache.Drop(s.dir); err != nil {
		b.note("the page cache could not be dropped: " + err.Error())
	}
	batches := b.batches(t)
	depth := &callDepth{now: time.Now}
	workers := b.workers(s, t, depth)
	f := b.feed(t, batches, w.puts)
	runtime.GC() // of what the preparation left
	from, cpu, begin := markDepth(depth, s.store, w.puts), cputime.Process(), time.Now()
	var group sync.WaitGroup
	for _, worker := range workers {
		group.Go(func() {
			for {
				batch := f.next(ctx, func() { f.last = markDepth(depth, s.store, w.puts) })
				if batch == nil {
					return
				}
				call(worker, ctx, batch)
				f.done(len(batch))
			}
		})
	}
	group.Wait()
	if w.puts && ctx.Err() == nil {
		if err := s.store.Flush(ctx); err != nil {
			return measured{}, fmt.Errorf("bench: flush: %w", err)
		}
	}
	m := measured{wall: time.Since(begin), cpu: cputime.Process() - cpu}
	for _, worker := range workers {
		m.add(worker.measured)
	}
	m.depth, m.depthSource = meanDepth(from, f.last, b.config.Depth)
	m.depthJudged = w.moves && f.handed() > 2*b.config.Concurrency && f.last.at.Sub(from.at) >= b.config.judgeFrom
	if t.workload == Offload {
		s.filled = true
	}
	return m, ctx.Err()
}

// workers are made anew for each round.
func (b *bench) workers(s *stage, t task, depth *callDepth) []*worker {
	parts := s.shape.Planes
	if t.workload == Ranges {
		parts = max(1, parts/rangeParts)
	}
	putSet := s.set
	if t.workload == Mixed {
		putSet = t.round<<16 | s.set
	}
	all := make([]*worker, len(s.buffers))
	for i := range all {
		all[i] = &worker{
			store: s.store, shape: s.shape, parts: parts, set: s.set, putSet: putSet,
			buffer: s.buffers[i], hashes: s.hashes, depth: depth,
			random: rand.New(rand.NewPCG(uint64(t.round), uint64(i))),
		}
	}
	return all
}

// batches are the calls of a round. Blocks that are read are in a shuffled
// order, as fio reads them, and not in that of the writes, which would measure
// the device's read-ahead.
func (b *bench) batches(t task) [][]int {
	random := rand.New(rand.NewPCG(uint64(t.round), 1))
	if t.workload == Match {
		return matchBatches(b.config.blocks(), random)
	}
	order := make([]int, b.config.blocks())
	for i := range order {
		order[i] = i
	}
	if !workloads[t.workload].ordered {
		random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	var all [][]int
	for n := b.config.BatchBlocks; len(order) > 0; order = order[n:] {
		all = append(all, order[:n])
	}
	return all
}

// matchBatches are 256 chains, as long as there are blocks for.
func matchBatches(blocks int, random *rand.Rand) [][]int {
	n := min(matchHashes, blocks)
	all := make([][]int, 256)
	for i := range all {
		first := random.IntN(blocks - n + 1)
		for at := first; at < first+n; at++ {
			all[i] = append(all[i], at)
		}
	}
	return all
}

// feed hands out the batches of a round.
type feed struct {
	batches [][]int
	again   bool      // begin anew after the last one
	until   time.Time // zero: no end but that of the batches
	now     func() time.Time
	taken   atomic.Int64
	moved   atomic.Int64
	total   int64
	report  func(done, total int64)

	once sync.Once
	last depthMark // when no more was to be begun
}

func (b *bench) feed(t task, batches [][]int, puts bool) *feed {
	f := &feed{batches: batches, now: b.config.now}
	for _, batch := range batches {
		f.total += int64(len(batch))
	}
	if t.round > 0 && !t.check && b.config.Duration > 0 {
		f.until, f.again = b.config.now().Add(b.config.Duration), !puts
	}
	f.report = func(done, total int64) {
		b.config.Progress(Progress{What: t.what, Round: t.round, Rounds: b.config.Rounds, Done: done, Total: total})
	}
	return f
}

// next is the next batch, or nil. It calls last once, when the last one was
// handed out: from then on there is nothing left to keep the depth up.
func (f *feed) next(ctx context.Context, last func()) []int {
	i := int(f.taken.Add(1)) - 1
	over := ctx.Err() != nil || !f.until.IsZero() && !f.now().Before(f.until) ||
		i >= len(f.batches) && !f.again
	if over {
		f.once.Do(last)
		f.taken.Add(-1)
		return nil
	}
	if i == len(f.batches)-1 && !f.again {
		f.once.Do(last)
	}
	return f.batches[i%len(f.batches)]
}

// handed is how many batches were handed out. Only after all work is done.
func (f *feed) handed() int { return int(f.taken.Load()) }

func (f *feed) done(n int) { f.report(min(f.moved.Add(int64(n)), f.total), f.total) }
