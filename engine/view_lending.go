package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/tiers/disk"
)

// lentShare: views together hold at most this part of MaxInflightBytes.
const lentShare = 2

// lending is what makes a batch lend its blocks. It keeps the account of the
// memory that the batch may lend: taken from the gate at once, before anything
// is read, as batches that held some while they waited for more could wait for
// one another.
type lending struct {
	gate  *byteGate
	views []View // the caller's: only under the batch's operation

	mu    sync.Mutex
	left  int64 // taken from the gate, and in no loan
	ended bool
}

func newLending(gate *byteGate, views []View) *lending {
	return &lending{gate: gate, views: views}
}

// reserve takes room for blocks, in the order of the caller, as many as may be
// lent at a time, and returns those. Others are settled.
func (l *lending) reserve(ctx context.Context, g *getBatch, wants []*want) []*want {
	total, n := int64(0), 0
	for _, w := range wants {
		size := w.lentBytes(g.n)
		if n > 0 && total+size > l.gate.maxBytes {
			break
		}
		total, n = total+size, n+1
	}
	for _, w := range wants[n:] {
		g.fail(w, StatusMiss, fmt.Sprintf("a call lends at most %d bytes, half of MaxInflightBytes: release some and ask for the rest", l.gate.maxBytes), ErrShed, false)
	}
	wants = wants[:n]
	if n == 0 {
		return nil
	}
	got, err := l.gate.enter(ctx, total)
	if err != nil {
		for _, w := range wants {
			g.failed(w, fmt.Errorf("%d bytes are lent by views, at most %d may be: %w", l.gate.heldBytes.Load(), l.gate.maxBytes, err), false)
		}
		return nil
	}
	l.left = got
	return wants
}

// take takes n bytes for a loan, from what was reserved or, for a block that
// is read a second time, from what happens to be free.
func (l *lending) take(n int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n = min(n, l.gate.maxBytes)
	if n > l.left && !l.more(n-l.left) {
		return false
	}
	l.left -= n
	return true
}

func (l *lending) more(n int64) bool {
	if !l.gate.tryEnter(n) {
		return false
	}
	l.left += n
	return true
}

// giveBack returns n bytes: to the batch, which may need them for another
// read, or after its end to all.
func (l *lending) giveBack(n int64) {
	n = min(n, l.gate.maxBytes)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		l.gate.leave(n)
		return
	}
	l.left += n
}

// end gives back what the batch reserved and did not lend.
func (l *lending) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.gate.leave(l.left)
	l.left = 0
}

// loan is memory of one read, lent to the views of the blocks in it. Close
// waits for it as for an operation.
type loan struct {
	s      *Store
	from   *lending
	buf    *aligned.Buffer
	bytes  int64
	shares atomic.Int32 // the read's own, and one for each view
}

// newLoan takes memory for a read. The caller has a share of it.
func (l *lending) newLoan(ctx context.Context, s *Store, take takeBuffer, sizeBytes int64) (*loan, error) {
	if !l.take(sizeBytes) {
		return nil, fmt.Errorf("%w: views hold %d bytes, at most %d may be lent: %w", ErrShed, l.gate.heldBytes.Load(), l.gate.maxBytes, aligned.ErrExhausted)
	}
	buf, err := take(ctx, int(sizeBytes))
	if err != nil {
		l.giveBack(sizeBytes)
		return nil, err
	}
	s.ops.add()
	out := &loan{s: s, from: l, buf: buf, bytes: sizeBytes}
	out.shares.Store(1)
	return out, nil
}

// release gives one share back.
func (l *loan) release() {
	if l.shares.Add(-1) > 0 {
		return
	}
	l.buf.Free()
	l.from.giveBack(l.bytes)
	l.s.ops.done()
}

// lentBytes is the memory that a block takes to be lent: what is read of it,
// or, where it is certain to be compressed, its header and raw bytes, which
// take its place.
func (w *want) lentBytes(n *Namespace) int64 {
	e := &w.found.entry
	if !w.shrunk() && w.decodedBytes == 0 {
		return e.Bytes()
	}
	raw := w.decodedBytes
	if raw == 0 { // each plane but the last may end with a page that is not full
		raw = alignUp(e.RawBytes + int64(len(n.layout.Planes)-1)*(disk.PageBytes-1))
	}
	return max(e.Bytes(), int64(e.HeaderPages)*disk.PageBytes+raw)
}

// shrunk: the block is stored in fewer pages than its raw bytes take.
func (w *want) shrunk() bool { return w.payloadBytes() < alignUp(w.found.entry.RawBytes) }
