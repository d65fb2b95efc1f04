package check

import (
	"context"
	"slices"
	"time"
)

// Bounds of a measurement.
const (
	repetitionsMin = 3
	repetitionsMax = 2000
)

// measure repeats once, which moves n bytes, for about the given time.
func measure(ctx context.Context, what string, n int64, during time.Duration, once func() error) (Speed, error) {
	s := Speed{What: what, Bytes: n}
	if err := once(); err != nil { // warms up, and is not counted
		return s, err
	}
	var took []time.Duration
	for began := time.Now(); len(took) < repetitionsMin || time.Since(began) < during && len(took) < repetitionsMax; {
		if err := context.Cause(ctx); err != nil {
			return s, err
		}
		at := time.Now()
		if err := once(); err != nil {
			return s, err
		}
		took = append(took, time.Since(at))
	}
	slices.Sort(took)
	s.Repetitions = len(took)
	s.MedianMicros = micros(took[len(took)/2])
	s.BestMicros = micros(took[0])
	s.GBs = float64(n) / 1000 / max(s.MedianMicros, 0.001)
	return s, nil
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
