package bench

import (
	"sync"
	"time"
)

// callDepth sums up requests in flight over time, as far as the calls tell:
// what a call asked for counts as in flight until the call returns. A reader
// that counts its own requests is believed instead.
type callDepth struct {
	mu      sync.Mutex
	now     func() time.Time
	flying  int
	since   time.Time
	seconds float64 // requests x seconds
}

func (d *callDepth) add(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.advance()
	d.flying += n
}

func (d *callDepth) advance() {
	now := d.now()
	if !d.since.IsZero() {
		d.seconds += float64(d.flying) * now.Sub(d.since).Seconds()
	}
	d.since = now
}

// requestSeconds is the sum until now.
func (d *callDepth) requestSeconds() float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.advance()
	return d.seconds
}

// depthMark is a reading of both counts at one time.
type depthMark struct {
	at            time.Time
	calls, reader float64 // requests x seconds
	hasReader     bool
}

// markDepth reads the counts. Requests that write are not the reader's.
func markDepth(d *callDepth, s Store, writes bool) depthMark {
	m := depthMark{at: d.now(), calls: d.requestSeconds()}
	if r := s.Path().Reader; r != nil && !writes {
		m.reader, m.hasReader = r.RequestSeconds, true
	}
	return m
}

// meanDepth is the mean number of requests in flight between two marks, at
// most the depth that the readers allow, and who counted it.
func meanDepth(from, to depthMark, most int) (depth float64, source string) {
	seconds := to.at.Sub(from.at).Seconds()
	if to.hasReader && from.hasReader {
		return divide(to.reader-from.reader, seconds), DepthOfReader
	}
	return min(divide(to.calls-from.calls, seconds), float64(most)), DepthOfCalls
}

// Who counted the depth.
const (
	// DepthOfReader: requests that the readers have and did not answer. They
	// have room for the depth asked for, so up to it these are in the kernel.
	DepthOfReader = "reader"
	DepthOfCalls  = "calls" // blocks of the calls under way
)
