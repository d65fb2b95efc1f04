package fio

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Best runs the job briefly with each engine and with one and two threads and
// returns the job of the highest rate, and by engine why others do not run
// here. Each has two turns, the second in reverse, and its better one counts:
// what else the machine does must not decide.
func (t *Tool) Best(ctx context.Context, j Job, trial time.Duration) (Job, map[string]string, error) {
	refused := map[string]string{}
	var best Job
	var bestRate float64
	turns := candidates(j)
	again := slices.Clone(turns)
	slices.Reverse(again)
	for _, c := range append(turns, again...) {
		if refused[c.Engine] != "" {
			continue
		}
		short := c
		short.Runtime, short.RuntimeMax = 0, trial
		r, err := t.Run(ctx, short)
		if ctx.Err() != nil {
			return Job{}, nil, err
		}
		if err != nil {
			refused[c.Engine] = err.Error()
			continue
		}
		if rate := r.MiBPerSecond(); rate > bestRate {
			best, bestRate = c, rate
		}
	}
	if bestRate == 0 {
		var all error
		for _, reason := range refused {
			all = errors.Join(all, errors.New(reason))
		}
		return Job{}, refused, fmt.Errorf("fio: no engine can %s %s: %w", j.Work, j.File, all)
	}
	return best, refused, nil
}

// candidates are the ways to do a job: a single thread of fio can be bound by
// its processor, more of them by their locks. Memory is on huge pages where
// the system has some to give, which is never slower.
func candidates(j Job) []Job {
	var all []Job
	for _, e := range Engines {
		for _, jobs := range []int{1, 2} {
			c := j
			c.Engine, c.Jobs = e, jobs
			if e == EnginePsync && jobs > 1 || c.Check() != nil {
				continue
			}
			all = append(all, c.OnHugePages())
		}
	}
	return all
}
