package engine

import (
	"context"
	"fmt"
	"sync"
)

// Operations run on goroutines of the store, in lanes of their own kind, so
// that reads which hang in the device hold up neither a Match nor an operator.
const (
	// opsMax bounds the puts, gets and drops that run at a time.
	opsMax = 256
	// asksMax bounds the lookups, controlsMax the calls of operators.
	asksMax     = 256
	controlsMax = 16
)

// lane bounds the operations of a kind that run at a time.
type lane struct {
	turns chan struct{}
	mu    sync.Mutex
	left  int  // operations that run on though their caller has left: they hang
	full  bool // so many that no turn is free for others
	// hangs is told when full changes. It must not use the lane.
	hangs func(full bool)
}

func newLane(n int, hangs func(full bool)) *lane {
	return &lane{turns: make(chan struct{}, n), hangs: hangs}
}

// running is how many operations have begun and not ended.
func (l *lane) running() int { return len(l.turns) }

// enter waits for a turn. It does not wait where none is to be expected: all
// are taken by operations that hang.
func (l *lane) enter(ctx context.Context) error {
	select {
	case l.turns <- struct{}{}:
		return nil
	default:
	}
	if l.isFull() {
		return fmt.Errorf("%w: the device does not answer: %d operations hang in it, as many as may run at a time", ErrShed, cap(l.turns))
	}
	select {
	case l.turns <- struct{}{}:
		return nil
	case <-ctx.Done():
		return errLeft{ctx.Err()}
	}
}

// deviceHangs is told when nothing can be read or written any more because
// all that is under way hangs, and when that has ended.
func (s *Store) deviceHangs(all bool) {
	if !all {
		s.health.clear("hangs")
		return
	}
	s.health.set("hangs", HealthAllMiss, "the device does not answer: %d operations hang in it; the store goes on by itself when one of them ends", opsMax)
}

// leave gives the turn back.
func (l *lane) leave() { <-l.turns }

func (l *lane) isFull() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.full
}

// count adds an operation that hangs, or takes away one that has ended.
func (l *lane) count(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left += n
	if full := l.left >= cap(l.turns); full != l.full {
		l.full = full
		l.hangs(full)
	}
}
