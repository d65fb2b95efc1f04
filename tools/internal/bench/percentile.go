package bench

import (
	"time"

	"github.com/sealstone/sealstone/tools/internal/replay"
)

// curvePercentiles are the points of a curve; fio is asked for the same.
var curvePercentiles = []float64{1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 99.9, 100}

// Point says that Percent of all samples took US microseconds or less.
type Point struct {
	Percent float64 `json:"percent"`
	US      float64 `json:"us"`
}

// Curve is a distribution of latencies by percentile, in rising order.
type Curve []Point

// at is a percentile of the curve, 0 if it has none.
func (c Curve) at(percent float64) float64 {
	for _, p := range c {
		if p.Percent == percent {
			return p.US
		}
	}
	return 0
}

// curveOf is the curve of some rounds: at each percentile the median, but of
// the maximum the maximum.
func curveOf(rounds []replay.Latencies) Curve {
	var c Curve
	for _, p := range curvePercentiles {
		s := spreadOf(each(rounds, func(l replay.Latencies) float64 { return l.PercentileUS(p) }))
		if p == 100 {
			s.median = s.most
		}
		c = append(c, Point{p, s.median})
	}
	return c
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// Percentiles are latencies in microseconds.
type Percentiles struct {
	P50US  float64 `json:"p50_us"`
	P90US  float64 `json:"p90_us"`
	P99US  float64 `json:"p99_us"`
	P999US float64 `json:"p999_us"`
	MaxUS  float64 `json:"max_us"`
}

func (c Curve) percentiles() Percentiles {
	return Percentiles{c.at(50), c.at(90), c.at(99), c.at(99.9), c.at(100)}
}
