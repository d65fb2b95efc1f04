package engine

import (
	"sync"
	"time"
)

// depthMeter integrates the number of requests with the readers over time.
type depthMeter struct {
	mu     sync.Mutex
	n      int
	since  time.Time
	weight time.Duration // sum over time of n
	busy   time.Duration // time with n > 0
}

func (m *depthMeter) add(delta int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settle(time.Now())
	m.n += delta
}

// settle accounts for the time since the last change. m.mu is held.
func (m *depthMeter) settle(now time.Time) {
	if m.n > 0 {
		d := now.Sub(m.since)
		m.busy += d
		m.weight += time.Duration(m.n) * d
	}
	m.since = now
}

// read returns how many requests are under way, the time during which there
// were any, and the sum of all requests' times.
func (m *depthMeter) read() (n int, busy, weight time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settle(time.Now())
	return m.n, m.busy, m.weight
}
