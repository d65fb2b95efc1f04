package engine

import (
	"context"
	"errors"
	"io"
	"sync/atomic"

	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/tiers"
	"github.com/sealstone/sealstone/tiers/disk"
)

// Bounds of what one batch has in flight at a time; what is beyond follows in
// a further round.
const (
	roundBytesMax   = 64 << 20
	roundFetchesMax = 1024
)

// flight is a fetch that is being read.
type flight struct {
	*fetch
	g      *getBatch
	buf    *aligned.Buffer
	loan   *loan // that the buffer is in, of what is to be lent
	handle *disk.Handle
	path   *ioPath        // that reads it
	inside bool           // the caller's memory is held for the round
	planes [][]planeSpans // of a straight fetch: by want, by plane
	// parts, of a split fetch, with what is expected of the header and the sums
	// of the chunks as they are taken.
	parts   []splitPart
	expect  *disk.Extent
	got     []uint64
	pending atomic.Int32 // items without an answer
	failed  atomic.Pointer[error]
	first   int // its items in the round
	items   int
}

// fetchAll reads what was planned, a bounded part at a time. Whatever does
// not come out as a verified block stays unsettled, or says in the block why.
func (g *getBatch) fetchAll(ctx context.Context, fetches []*fetch) {
	for len(fetches) > 0 && ctx.Err() == nil {
		flights := g.takeOff(ctx, fetches)
		if len(flights) == 0 {
			return
		}
		fetches = fetches[len(flights):]
		g.round(ctx, flights)
	}
}

// takeOff takes buffers for as many of the first fetches as there is room
// for. It waits for the first one only: who waited while holding buffers that
// are not in use could wait for others who do the same.
func (g *getBatch) takeOff(ctx context.Context, fetches []*fetch) []*flight {
	var flights []*flight
	held := int64(0)
	for _, f := range fetches {
		n := f.bufferBytes()
		if len(flights) > 0 && (held+n > roundBytesMax || len(flights) == roundFetchesMax) {
			break
		}
		take := g.s.tryBuffer
		if len(flights) == 0 {
			take = g.s.pool.Get
		}
		buf, loan, err := g.takeMemory(ctx, take, n)
		if err != nil {
			if len(flights) == 0 {
				for _, w := range f.wants {
					g.failed(w, err, false)
				}
			}
			break
		}
		held += n
		flights = append(flights, &flight{fetch: f, g: g, buf: buf, loan: loan})
	}
	return flights
}

// takeMemory takes a buffer for a read; what is to be lent, from the account
// of that.
func (g *getBatch) takeMemory(ctx context.Context, take takeBuffer, sizeBytes int64) (*aligned.Buffer, *loan, error) {
	if g.lend == nil {
		buf, err := take(ctx, int(sizeBytes))
		return buf, nil, err
	}
	loan, err := g.lend.newLoan(ctx, g.s, take, sizeBytes)
	if err != nil {
		return nil, nil, err
	}
	return loan.buf, loan, nil
}

// free gives the memory of a fetch back, or the read's share of what is lent.
func (f *flight) free() {
	if f.loan != nil {
		f.loan.release()
		return
	}
	f.buf.Free()
}

// bufferBytes is the memory of the store that a fetch takes: all of it, or
// the headers and broken last pages of what goes straight to the caller.
func (f *fetch) bufferBytes() int64 {
	switch {
	case f.pieces != nil:
		return f.piecesBytes()
	case f.lentBytes > 0:
		return f.lentBytes
	case !f.straight:
		return int64(f.to-f.from) * disk.PageBytes
	}
	n := int64(0)
	for _, w := range f.wants {
		n += int64(w.found.entry.HeaderPages) * disk.PageBytes
		for _, size := range w.planeBytes {
			if size%disk.PageBytes != 0 {
				n += disk.PageBytes
			}
		}
	}
	return n
}

// round reads some fetches at once and returns when all are answered. With
// WaitForDevice it is inside the caller's memory all the time: a caller that
// leaves waits for it.
func (g *getBatch) round(ctx context.Context, flights []*flight) {
	inside := g.o.WaitForDevice
	if inside {
		if !g.op.enter() {
			for _, f := range flights {
				f.free()
			}
			return
		}
		defer g.op.exit()
	}
	var items []tiers.Item
	var reading []*flight
	for _, f := range flights {
		h, err := g.s.vol.Acquire(f.segment())
		if err != nil { // gone, or no file may be opened: looked into block by block
			f.free()
			continue
		}
		f.handle, f.first, f.inside = h, len(items), inside
		items = f.appendItems(items, len(flights) <= splitFetchesMax)
		f.items = len(items) - f.first
		f.pending.Store(int32(f.items))
		reading = append(reading, f)
	}
	if len(items) == 0 {
		return
	}
	owner := make([]*flight, len(items))
	for _, f := range reading {
		for i := f.first; i < f.first+f.items; i++ {
			owner[i] = f
		}
	}
	done := func(it *tiers.Item) { owner[it.Tag].itemDone(it) }
	for i := range items {
		g.s.count.fetchedBytes.Add(int64(items[i].Length))
		items[i].Tag, items[i].Done, items[i].WaitForDevice, items[i].OffHeap = i, done, true, true
	}
	path := g.s.paths.useFor(len(reading))
	for _, f := range reading {
		f.path = path
	}
	g.s.count.fetches.Add(int64(len(reading)))
	// The memory belongs to the reader until it answers, so the call does not
	// end with the caller's context; see readInto.
	_ = g.s.readBatch(context.WithoutCancel(ctx), path, items)
}

// itemDone takes the answer for one item. The last one of a fetch verifies
// it, on the goroutine of the reader, while the bytes are in cache and other
// reads are under way.
func (f *flight) itemDone(it *tiers.Item) {
	if it.Err != nil {
		f.failed.CompareAndSwap(nil, &it.Err)
	} else if f.parts != nil {
		if err := f.takeSums(&f.parts[it.Tag-f.first]); err != nil {
			f.failed.CompareAndSwap(nil, &err)
		}
	}
	if f.pending.Add(-1) > 0 {
		return
	}
	if err := f.failed.Load(); err != nil {
		if f.straight { // of a split fetch the other parts may be there, unverified
			for i := range f.wants {
				f.clearSpans(i)
			}
		}
		f.answerFailure(f.ofTheCaller(*err))
	} else {
		for i := range f.wants {
			f.verify(i)
		}
	}
	f.handle.Release() // first: what is lent holds no segment
	f.free()
}

// answerFailure settles a block that was read alone. Of several nobody knows
// whose failure it was; each is read again for itself.
func (f *flight) answerFailure(err error) {
	if len(f.wants) == 1 && !errors.Is(err, io.ErrUnexpectedEOF) {
		f.g.failed(f.wants[0], err, f.inside)
	}
}
