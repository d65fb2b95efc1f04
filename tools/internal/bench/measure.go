package bench

import (
	"math"
	"slices"
	"time"

	"github.com/sealstone/sealstone/tools/internal/replay"
)

// measured is what a round, or a worker's part of it, came to.
type measured struct {
	wall, cpu     time.Duration
	calls         replay.Latencies
	bytes         int64 // of blocks that were answered with OK
	failed, wrong int64
	statuses      map[string]int64
}

// count adds the results of a call on n blocks; an absent one is a failure.
func (m *measured) count(n int, blockBytes int64, results []replay.Result) {
	for _, r := range results {
		m.status(r.Status, 1)
		if r.OK {
			m.bytes += blockBytes
		} else {
			m.failed++
		}
	}
	m.failed += int64(max(0, n-len(results)))
}

func (m *measured) status(name string, n int64) {
	if m.statuses == nil {
		m.statuses = map[string]int64{}
	}
	m.statuses[name] += n
}

func merge(parts []measured) (m measured) {
	for _, p := range parts {
		m.calls = append(m.calls, p.calls...)
		m.bytes += p.bytes
		m.failed += p.failed
		m.wrong += p.wrong
		for k, n := range p.statuses {
			m.status(k, n)
		}
	}
	return m
}

func summarise(name string, rounds []measured) Result {
	r := Result{Workload: name, Statuses: map[string]int64{}}
	var rate, cpu, calls, p50, p99 []float64
	for _, m := range rounds {
		gib := float64(m.bytes) / (1 << 30)
		rate = append(rate, divide(gib, m.wall.Seconds()))
		cpu = append(cpu, divide(m.cpu.Seconds(), gib))
		calls = append(calls, divide(float64(len(m.calls)), m.wall.Seconds()))
		p50 = append(p50, m.calls.PercentileUS(50))
		p99 = append(p99, m.calls.PercentileUS(99))
		r.Failed += m.failed
		r.Wrong += m.wrong
		for k, n := range m.statuses {
			r.Statuses[k] += n
		}
	}
	r.GiBPerSecond, r.CPUSecondsPerGiB, r.CallsPerSecond = median(rate), median(cpu), median(calls)
	r.P50US, r.P99US = median(p50), median(p99)
	return r
}

func divide(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// median is the middle value, or the mean of the two; to four digits behind
// the point.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(v))
	mid := s[len(s)/2]
	if len(s)%2 == 0 {
		mid = (mid + s[len(s)/2-1]) / 2
	}
	return math.Round(mid*1e4) / 1e4
}
