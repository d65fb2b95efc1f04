package disk

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/sealstone/sealstone/tiers"
)

// queue is where a batch puts its requests.
type queue interface {
	// submit queues the requests of a batch and answers none; those that
	// find no room it marks. An error says that the reader is closed.
	submit(*batch) error
	// abandon gives up what may be given up.
	abandon(*batch)
}

// batch is one ReadBatch or WriteBatch; it counts the requests that have no
// answer yet.
type batch struct {
	ctx     context.Context
	write   bool
	items   []tiers.Item
	reqs    []request // by item; one without an item was refused as malformed
	pending atomic.Int64
	done    chan struct{} // of capacity 1; sent to once, by the last answer
}

func newBatch(ctx context.Context, items []tiers.Item) *batch {
	return &batch{ctx: ctx, items: items, done: make(chan struct{}, 1)}
}

func newWriteBatch(items []tiers.Item) *batch {
	b := newBatch(context.Background(), items)
	b.write = true
	return b
}

// run takes a batch from its items to its last answer.
func (b *batch) run(q queue) error {
	b.reqs = make([]request, len(b.items))
	valid := 0
	for i := range b.items {
		it := &b.items[i]
		it.N, it.Path, it.Err = 0, tiers.PathNone, it.Check()
		if it.Err == nil {
			b.reqs[i].init(b, it)
			valid++
		}
	}
	b.pending.Store(int64(valid))
	if err := q.submit(b); err != nil {
		return tiers.FailAll(b.items, fmt.Errorf("disk: %s batch: %w", b.op(), err))
	}
	b.refuseRest()
	if valid == 0 {
		return nil
	}
	select {
	case <-b.done:
	case <-b.ctx.Done():
		q.abandon(b)
		<-b.done
	}
	return nil
}

// refuseRest answers what no worker will: malformed items, and those for
// which no queue had room.
func (b *batch) refuseRest() {
	for i := range b.items {
		r := &b.reqs[i]
		if r.item == nil {
			b.items[i].Answer(0, tiers.PathNone, fmt.Errorf("disk: %s item %d: %w", b.op(), i, b.items[i].Err))
		} else if r.noRoom {
			r.refuse(fmt.Errorf("the queue is full: %w", tiers.ErrBusy))
		}
	}
}

// abandon gives up each request that may be given up.
func (b *batch) abandon() {
	for i := range b.reqs {
		if r := &b.reqs[i]; r.item != nil {
			r.abandon()
		}
	}
}

func (b *batch) answered() {
	if b.pending.Add(-1) == 0 {
		b.done <- struct{}{}
	}
}

// op is what the batch does, for messages.
func (b *batch) op() string {
	if b.write {
		return "write"
	}
	return "read"
}
