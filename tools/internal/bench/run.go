package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sealstone/sealstone/tools/internal/blockgen"
	"github.com/sealstone/sealstone/tools/internal/replay"
)

// Run measures the workloads on s, which should be empty and large enough for
// all rounds: what it evicts or sheds is counted as failed.
func Run(ctx context.Context, s replay.Store, c Config) (*Report, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	b := &bench{config: c, store: s}
	for range c.Concurrency {
		p, free, err := s.NewBuffer(c.BatchBlocks * int(c.BlockBytes))
		if err != nil {
			return nil, fmt.Errorf("bench: make a buffer: %w", err)
		}
		defer free()
		blockgen.New(1).Fill(p, blockgen.Ref{Scope: "bench base"})
		b.buffers = append(b.buffers, p)
	}
	report := &Report{
		BlockBytes: c.BlockBytes, BatchBlocks: c.BatchBlocks, Concurrency: c.Concurrency,
		Rounds: c.Rounds, RoundBytes: int64(c.blocks()) * c.BlockBytes,
	}
	b.total = int64(len(c.Workloads)*c.Rounds) * int64(c.blocks())
	for _, name := range c.Workloads {
		r, err := b.workload(ctx, name)
		if err != nil {
			return nil, err
		}
		report.Results = append(report.Results, r)
	}
	return report, nil
}

type bench struct {
	config  Config
	store   store
	buffers [][]byte // by worker
	filled  bool     // the blocks of round 0 are stored
	done    atomic.Int64
	total   int64
}

// workload runs all rounds of one workload.
func (b *bench) workload(ctx context.Context, name string) (Result, error) {
	if name != Offload && !b.filled {
		if _, err := b.round(ctx, 0, b.put); err != nil {
			return Result{}, err
		}
		b.done.Add(-int64(b.config.blocks()))
	}
	call := map[string]callFunc{Offload: b.put, Onboard: b.get, Match: b.match}[name]
	var rounds []measured
	for n := range b.config.Rounds {
		from := n
		if name != Offload {
			from = 0
		}
		m, err := b.round(ctx, from, call)
		if err != nil {
			return Result{}, err
		}
		rounds = append(rounds, m)
	}
	b.filled = true
	return summarise(name, rounds), nil
}

// callFunc makes one call on a batch of blocks of a round, with a worker's
// buffer, and counts what came of it.
type callFunc func(ctx context.Context, buffer []byte, round int, batch []int, m *measured)

// round runs call over all batches of a round in a random order and ends with
// a flush, which belongs to the work.
func (b *bench) round(ctx context.Context, round int, call callFunc) (measured, error) {
	batches := b.batches(round)
	parts := make([]measured, b.config.Concurrency)
	var next atomic.Int64
	var group sync.WaitGroup
	cpu, begin := cpuTime(), time.Now()
	for w := range parts {
		group.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(batches) {
					return
				}
				call(ctx, b.buffers[w], round, batches[i], &parts[w])
				b.config.Progress(b.done.Add(int64(len(batches[i]))), b.total)
			}
		})
	}
	group.Wait()
	if err := b.store.Flush(ctx); err != nil {
		return measured{}, fmt.Errorf("bench: flush: %w", err)
	}
	m := merge(parts)
	m.wall, m.cpu = time.Since(begin), cpuTime()-cpu
	return m, ctx.Err()
}

// batches shuffles the blocks' batches: reads in the order of the writes would
// measure the device's read-ahead.
func (b *bench) batches(round int) [][]int {
	var all [][]int
	for first := 0; first < b.config.blocks(); first += b.config.BatchBlocks {
		batch := make([]int, b.config.BatchBlocks)
		for i := range batch {
			batch[i] = first + i
		}
		all = append(all, batch)
	}
	random := rand.New(rand.NewPCG(uint64(round), 1))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}
