package bench

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/sealstone/sealstone/tools/internal/fio"
	"github.com/sealstone/sealstone/tools/internal/pagecache"
	"github.com/sealstone/sealstone/tools/internal/replay"
)

// latencyTime is how long a round of single gets lasts, and fio's beside it.
const latencyTime = time.Second

// latency measures gets of one block, one at a time, and fio at depth 1, in
// alternating rounds.
func (b *bench) latency(ctx context.Context, s *stage, yard *yardstick, sum *summary) error {
	for n := range b.config.Rounds {
		b.config.Progress(Progress{What: sum.name + ": single gets", Round: n + 1, Rounds: b.config.Rounds})
		if err := pagecache.Drop(s.dir); err != nil {
			b.note("the page cache could not be dropped: " + err.Error())
		}
		m := b.singles(ctx, s, n)
		if err := ctx.Err(); err != nil {
			return err
		}
		sum.singles = append(sum.singles, m.calls)
		sum.checkFailed += m.failed
		sum.checkWrong += m.wrong
		if yard == nil {
			continue
		}
		job := yard.same
		job.Depth, job.Jobs, job.Runtime, job.RuntimeMax = 1, 1, latencyTime, 0
		r, err := b.tool.Run(ctx, job)
		if err != nil {
			return err
		}
		sum.fioSingles = append(sum.fioSingles, r)
	}
	return nil
}

// singles gets blocks in a random order until the time is over.
func (b *bench) singles(ctx context.Context, s *stage, n int) measured {
	w := b.workers(s, task{workload: Onboard, round: n + 1}, &callDepth{now: time.Now})[0]
	w.parts = s.shape.Planes
	order := rand.New(rand.NewPCG(uint64(n), 2)).Perm(b.config.blocks())
	for begin := time.Now(); ctx.Err() == nil && time.Since(begin) < latencyTime; {
		for _, at := range order[:min(16, len(order))] {
			w.get(ctx, []int{at})
		}
		order = append(order[min(16, len(order)):], order[:min(16, len(order))]...)
	}
	return w.measured
}

// Latency is that of one block got alone.
type Latency struct {
	Percentiles
	Curve Curve `json:"curve"`
	// Fio is fio's at depth 1 with the engine of the store's path.
	Fio       *Percentiles `json:"fio,omitempty"`
	FioCurve  Curve        `json:"fio_curve,omitempty"`
	P99ToFio  float64      `json:"p99_ratio_to_fio,omitempty"` // median of the rounds' ratios
	FioEngine string       `json:"fio_engine,omitempty"`
}

func latencyOf(singles []replay.Latencies, beside []fio.Result, engine string) *Latency {
	if len(singles) == 0 {
		return nil
	}
	l := &Latency{Curve: curveOf(singles)}
	l.Percentiles = l.Curve.percentiles()
	if len(beside) != len(singles) {
		return l
	}
	l.FioCurve, l.FioEngine = percentilesOf(beside), engine
	p := l.FioCurve.percentiles()
	l.Fio = &p
	var ratios []float64
	for i, s := range singles {
		ratios = append(ratios, divide(s.PercentileUS(99), microseconds(beside[i].Latency[99])))
	}
	l.P99ToFio = median(ratios)
	return l
}
