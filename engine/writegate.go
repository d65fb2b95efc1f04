package engine

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// writeGate bounds the bytes of extents that are with the device at a time, so
// that a large batch of puts leaves it free for reads in between. It is passed
// before room in a segment is taken: whoever waits here holds up no sync.
type writeGate struct {
	maxBytes  int64
	free      *semaphore.Weighted
	heldBytes atomic.Int64
	mostBytes atomic.Int64 // the most held so far
}

func newWriteGate(maxBytes int64) *writeGate {
	return &writeGate{maxBytes: maxBytes, free: semaphore.NewWeighted(maxBytes)}
}

// enter waits for the turn of n bytes, first come, first served. More than the
// gate holds pass alone. It returns what is to be given back to leave.
func (g *writeGate) enter(ctx context.Context, n int64) (held int64, err error) {
	n = min(n, g.maxBytes)
	if err := g.free.Acquire(ctx, n); err != nil {
		return 0, err
	}
	storeMax(&g.mostBytes, g.heldBytes.Add(n))
	return n, nil
}

func (g *writeGate) leave(held int64) {
	g.heldBytes.Add(-held)
	g.free.Release(held)
}
