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
	ownCPU        time.Duration // part of cpu that is the bench's own
	calls         replay.Latencies
	bytes         int64 // of blocks that were answered with OK
	failed, wrong int64
	firstErr      error
	statuses      map[string]int64
	depth         float64
	depthSource   string
	depthJudged   bool // long enough to be held to the depth asked for
}

// count adds the results of a call on n blocks; an absent one is a failure.
func (m *measured) count(n int, blockBytes int64, results []Answer) {
	for _, r := range results {
		m.status(r.Status, 1)
		if r.OK {
			m.bytes += blockBytes
			continue
		}
		m.failed++
		if m.firstErr == nil {
			m.firstErr = r.Err
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

// add takes in a worker's part.
func (m *measured) add(p measured) {
	m.calls = append(m.calls, p.calls...)
	m.ownCPU += p.ownCPU
	m.bytes += p.bytes
	m.failed += p.failed
	m.wrong += p.wrong
	if m.firstErr == nil {
		m.firstErr = p.firstErr
	}
	for k, n := range p.statuses {
		m.status(k, n)
	}
}

func (m *measured) mibPerSecond() float64 {
	return divide(float64(m.bytes)/(1<<20), m.wall.Seconds())
}

func (m *measured) cpuPerGiB() float64 {
	return divide((m.cpu - m.ownCPU).Seconds(), float64(m.bytes)/(1<<30))
}

func (m *measured) ownCPUPerGiB() float64 {
	return divide(m.ownCPU.Seconds(), float64(m.bytes)/(1<<30))
}

func divide(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// spread is the median of some figures, the least and the greatest.
type spread struct{ median, least, most float64 }

func spreadOf(v []float64) spread {
	if len(v) == 0 {
		return spread{}
	}
	s := slices.Sorted(slices.Values(v))
	mid := s[len(s)/2]
	if len(s)%2 == 0 {
		mid = (mid + s[len(s)/2-1]) / 2
	}
	return spread{round4(mid), round4(s[0]), round4(s[len(s)-1])}
}

// median is the middle value, or the mean of the two; to four digits behind
// the point.
func median(v []float64) float64 { return spreadOf(v).median }

func round4(v float64) float64 { return math.Round(v*1e4) / 1e4 }

// each takes a figure from every round.
func each[T, U any](rounds []T, figure func(T) U) []U {
	v := make([]U, len(rounds))
	for i, r := range rounds {
		v[i] = figure(r)
	}
	return v
}
