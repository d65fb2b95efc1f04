package disk

import (
	"fmt"
	"sync/atomic"

	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/tiers"
)

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

	// onRing: a ring takes it, not the pread workers. noRoom: the queue was
	// full. Both are set while the batch is submitted.
	onRing, noRoom bool
	// fd is its direct descriptor, with onRing.
	fd int
	// started: it was taken to be served. Whoever serves it owns the field.
	started bool

	state atomic.Int32
}

// init fills in a request.
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
	if r.started {
		return true
	}
	to := stateRunning
	if r.pinned {
		to = statePinned
	}
	r.started = r.state.CompareAndSwap(stateQueued, to)
	return r.started
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
	if r.state.CompareAndSwap(stateQueued, stateAbandoned) {
		r.file.Release()
		r.finish(tiers.PathNone, abandoned(r.b.ctx))
		return
	}
	if !r.pinned && r.state.CompareAndSwap(stateRunning, stateAbandoned) {
		r.finish(tiers.PathNone, abandoned(r.b.ctx))
	}
}
