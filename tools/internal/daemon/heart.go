package daemon

import (
	"fmt"
	"sync"
	"time"
)

// Heart tells a process that is wedged from one that is slow: wedged is one
// whose own look at the store has not come back and in which no request has
// ended, both for as long as the bound. A store without an answer from its
// disk is not wedged: its calls end by their own deadlines.
type Heart struct {
	bound time.Duration
	now   func() time.Time
	done  func() int64 // requests that have ended

	mu        sync.Mutex
	alive     time.Time // the latest sign of life
	lastEnded int64
}

// NewHeart begins with a sign of life. The number of ended requests must be
// had without waiting.
func NewHeart(bound time.Duration, now func() time.Time, ended func() int64) *Heart {
	return &Heart{bound: bound, now: now, done: ended, alive: now()}
}

// Beat is called when a look at the store came back.
func (h *Heart) Beat() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.alive = h.now()
}

// Alive tells whether there was a sign of life within the bound, and if not,
// how long ago the last one was.
func (h *Heart) Alive() (bool, string) {
	ended := h.done()
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	if ended != h.lastEnded {
		h.lastEnded, h.alive = ended, now
	}
	if silent := now.Sub(h.alive); silent >= h.bound {
		return false, fmt.Sprintf("the store gives no answer and no request has ended for %v", silent.Round(time.Second))
	}
	return true, ""
}
