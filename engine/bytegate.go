package engine

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// byteGate bounds the bytes that are held at a time: those of extents that are
// with the device, so that a large batch of puts leaves it free for reads in
// between, and those that are lent to callers. The gate of writes is passed
// before room in a segment is taken: whoever waits there holds up no sync.
type byteGate struct {
	maxBytes  int64
	free      *semaphore.Weighted
	heldBytes atomic.Int64
	mostBytes atomic.Int64 // the most held so far
}

func newByteGate(maxBytes int64) *byteGate {
	return &byteGate{maxBytes: maxBytes, free: semaphore.NewWeighted(maxBytes)}
}

// enter waits for the turn of n bytes, first come, first served. More than the
// gate holds pass alone. It returns what is to be given back to leave.
func (g *byteGate) enter(ctx context.Context, n int64) (held int64, err error) {
	n = min(n, g.maxBytes)
	if err := g.free.Acquire(ctx, n); err != nil {
		return 0, err
	}
	storeMax(&g.mostBytes, g.heldBytes.Add(n))
	return n, nil
}

// tryEnter is enter without waiting, for those who hold some already and must
// not wait for more.
func (g *byteGate) tryEnter(n int64) bool {
	if n > g.maxBytes || !g.free.TryAcquire(n) {
		return false
	}
	storeMax(&g.mostBytes, g.heldBytes.Add(n))
	return true
}

func (g *byteGate) leave(held int64) {
	g.heldBytes.Add(-held)
	g.free.Release(held)
}
