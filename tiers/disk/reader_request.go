package disk

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/tiers"
)

// batch counts the requests of one ReadBatch or WriteBatch that have no
// answer yet.
type batch struct {
	ctx     context.Context
	write   bool
	reqs    []request // by item; one without an item was refused as malformed
	pending atomic.Int64
	done    chan struct{} // of capacity 1; sent to once, by the last answer
}

// op is what the batch does, for messages.
func (b *batch) op() string {
	if b.write {
		return "write"
	}
	return "read"
}

// refuseRest answers what no worker will: malformed items, and the requests
// from index accepted on, which were not queued.
func (b *batch) refuseRest(items []tiers.Item, accepted int) {
	for i := range items {
		switch {
		case b.reqs[i].item == nil:
			items[i].Answer(0, tiers.PathNone, fmt.Errorf("disk: %s item %d: %w", b.op(), i, items[i].Err))
		case i >= accepted:
			b.reqs[i].refuse(fmt.Errorf("queue is full: %w", tiers.ErrBusy))
		}
	}
}

func (b *batch) answered() {
	if b.pending.Add(-1) == 0 {
		b.done <- struct{}{}
	}
}

// States of a request. Each leads to exactly one answer, and whoever makes
// the transition gives it:
//
//	queued -> running -> delivering -> (answer by the worker)
//	queued -> pinned                -> (answer by the worker)
//	queued, running -> abandoned       (answer by ReadBatch)
//
// Only in delivering and pinned may a worker touch the spans, and neither
// can be abandoned: so after ReadBatch nobody touches them.
const (
	stateQueued int32 = iota
	stateRunning
	statePinned
	stateDelivering
	stateAbandoned
)

// request is one item on its way. It copies what a worker needs, because the
// item belongs to the caller again once it was given up: only who holds the
// right to answer may touch it.
type request struct {
	b      *batch
	item   *tiers.Item
	file   tiers.File
	offset int64
	length int
	spans  [][]byte

	pinned   bool // nobody gives it up: spans may be read into
	suitable bool // spans suit direct I/O but for a tail

	state atomic.Int32
}

func (r *request) init(b *batch, it *tiers.Item) {
	r.b, r.item = b, it
	r.file, r.offset, r.length, r.spans = it.File, it.Offset, it.Length, it.Spans
	r.pinned = it.WaitForDevice || b.ctx.Done() == nil
	r.suitable = it.OffHeap && it.Offset%directAlignBytes == 0 && spansSuitDirect(it.Spans)
}

// spansSuitDirect: every span begins on the alignment, and all but the last
// fill whole blocks of it.
func spansSuitDirect(spans [][]byte) bool {
	for i, s := range spans {
		if len(s) == 0 || !aligned.IsAligned(s, directAlignBytes) {
			return false
		}
		if i < len(spans)-1 && len(s)%directAlignBytes != 0 {
			return false
		}
	}
	return true
}

// start takes the request for a worker; false if it was given up.
func (r *request) start() bool {
	to := stateRunning
	if r.pinned {
		to = statePinned
	}
	return r.state.CompareAndSwap(stateQueued, to)
}

// claim takes the right to touch the spans and to answer.
func (r *request) claim() bool {
	return r.pinned || r.state.CompareAndSwap(stateRunning, stateDelivering)
}

// finish gives the worker's answer; the request must be claimed. Done is told
// before the answer counts: after it the batch may return.
func (r *request) finish(path tiers.Path, err error) {
	if err != nil {
		r.item.Answer(0, tiers.PathNone, r.fail(err))
	} else {
		r.item.Answer(r.length, path, nil)
	}
	r.b.answered()
}

// fail says what was asked for beside what went wrong.
func (r *request) fail(err error) error {
	return fmt.Errorf("disk: %s %d bytes at %d of file %d: %w", r.b.op(), r.length, r.offset, r.file.ID(), err)
}

// refuse answers a request that was never queued.
func (r *request) refuse(err error) {
	r.state.Store(stateDelivering)
	r.finish(tiers.PathNone, err)
}

// abandon answers the request for the caller unless a worker holds the right
// to. A queued request's file is released here, a running one's by its worker
// when the read has really ended.
func (r *request) abandon() {
	if r.item == nil {
		return // malformed, and answered
	}
	if r.state.CompareAndSwap(stateQueued, stateAbandoned) {
		r.file.Release()
		r.finish(tiers.PathNone, abandoned(r.b.ctx))
		return
	}
	if !r.pinned && r.state.CompareAndSwap(stateRunning, stateAbandoned) {
		r.finish(tiers.PathNone, abandoned(r.b.ctx))
	}
}
