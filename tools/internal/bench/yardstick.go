package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sealstone/sealstone/tools/internal/fio"
)

// trialTime is how long each engine of fio is tried.
const trialTime = 500 * time.Millisecond

// directUnit is what requests past the page cache are multiples of.
const directUnit = 4096

// yardstick is fio doing the same as a workload, in rounds that alternate
// with those of the store. A nil yardstick does nothing.
type yardstick struct {
	b    *bench
	best fio.Job // of the highest rate
	same fio.Job // of the engine that the store's path corresponds to
}

// fioRound is what fio and the hash came to in one round.
type fioRound struct {
	best, same fio.Result
	hash       hashing
}

// prepare makes fio's file and chooses its engine; nil where no comparison is
// asked for or none makes sense.
func (b *bench) prepare(ctx context.Context, name string, s *stage) (_ *yardstick, err error) {
	if b.tool == nil {
		return nil, nil
	}
	if !workloads[name].beside {
		b.note("fio has nothing to compare with " + name)
		return nil, nil
	}
	b.config.Progress(Progress{What: name + ": prepare fio"})
	y := &yardstick{b: b}
	defer func() {
		if err != nil {
			err = errors.Join(err, y.close())
		}
	}()
	path := s.store.Path().Name
	job := b.job(name, path)
	if job.Work == fio.RandomRead {
		if err := b.tool.Fill(ctx, job); err != nil {
			return nil, err
		}
	}
	var refused map[string]string
	if y.best, refused, err = b.tool.Best(ctx, job, trialTime); err != nil {
		return nil, err
	}
	for _, e := range fio.Engines {
		if reason, ok := refused[e]; ok {
			b.note(fmt.Sprintf("fio cannot use %s here: %s", e, reason))
		}
	}
	y.same = y.best
	if e := engineOf(path); y.best.Engine != e && refused[e] == "" {
		y.same = job
		y.same.Engine = e
		y.same = y.same.OnHugePages()
		if y.same.Check() != nil {
			y.same = y.best
		}
	}
	if !y.best.HugePages || !y.same.HugePages {
		b.note("fio's memory is on small pages, the store's on huge ones, which direct I/O takes at a lower price: vm.nr_hugepages=160 gives fio the same for a depth of 64")
	}
	return y, nil
}

// engineOf is the engine of fio that does I/O as a path of the store does.
func engineOf(path string) string {
	if path == "uring" {
		return fio.EngineUring
	}
	return fio.EnginePsync
}

// job moves as many bytes as a round, in requests of the same size.
func (b *bench) job(name, path string) fio.Job {
	c := b.config
	bs := c.BlockBytes
	if name == Ranges {
		planes := c.planes(name)
		s := Shape{BlockBytes: c.BlockBytes, Planes: planes}
		_, bs = s.plane(max(1, planes/rangeParts) - 1)
	}
	bs = (bs + directUnit - 1) / directUnit * directUnit
	job := fio.Job{
		Work: fio.RandomRead, File: filepath.Join(c.Dir, "fio.data"), FileBytes: int64(c.blocks()) * bs,
		BlockBytes: bs, Engine: fio.EnginePsync, Jobs: 1, Depth: min(c.Depth, c.blocks()), Buffered: path == "buffered",
	}
	if workloads[name].puts {
		job.Work, job.RuntimeMax = fio.SequentialWrite, c.Duration
	} else {
		job.Runtime = c.Duration
	}
	return job
}

// round runs fio once, and once more with the store's own kind of engine, and
// measures the hash.
func (y *yardstick) round(ctx context.Context, s *stage, sum *summary) (err error) {
	if y == nil {
		return nil
	}
	c := y.b.config
	n := len(sum.rounds)
	c.Progress(Progress{What: sum.name + ": fio", Round: n, Rounds: c.Rounds})
	var r fioRound
	jobs := []*fio.Result{&r.best, &r.same}
	// Each comes first as often as the other.
	order := []int{n % 2, 1 - n%2}
	for _, i := range order {
		job := []fio.Job{y.best, y.same}[i]
		if i == 1 && y.same == y.best {
			continue
		}
		if *jobs[i], err = y.b.tool.Run(ctx, job); err != nil {
			return err
		}
	}
	if y.same == y.best {
		r.same = r.best
	}
	r.hash = measureHash(s.buffers)
	sum.fio = append(sum.fio, r)
	sum.best, sum.same = y.best, y.same
	return nil
}

// close removes fio's file.
func (y *yardstick) close() error {
	if y == nil {
		return nil
	}
	err := os.Remove(filepath.Join(y.b.config.Dir, "fio.data"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// median of a figure over rounds of fio.
func medianOf(rounds []fioRound, figure func(fioRound) float64) float64 {
	return median(each(rounds, figure))
}

// percentilesOf are those of fio that every round has, each the median.
func percentilesOf(results []fio.Result) Curve {
	var c Curve
	for _, p := range curvePercentiles {
		var us []float64
		for _, r := range results {
			if d, ok := r.Latency[p]; ok {
				us = append(us, microseconds(d))
			}
		}
		if len(us) == len(results) && len(us) > 0 {
			c = append(c, Point{p, median(us)})
		}
	}
	return slices.Clip(c)
}
