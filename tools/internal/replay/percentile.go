package replay

import (
	"math"
	"slices"
	"time"
)

// Latencies are samples, one per call. Every one is kept: a replay makes
// thousands of calls, not millions, and an exact percentile needs no
// explanation.
type Latencies []time.Duration

// PercentileUS is the nearest-rank percentile in microseconds: the smallest
// sample that at least p percent of the samples do not exceed; 0 if there are
// no samples.
func (l Latencies) PercentileUS(p float64) float64 {
	if len(l) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(l))
	rank := int(math.Ceil(p * float64(len(sorted)) / 100))
	at := sorted[min(max(rank, 1), len(sorted))-1]
	return math.Round(float64(at)/float64(time.Microsecond)*10) / 10
}
