package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/tiers/disk"
)

// A put goes group by group: blocks that follow one another in the batch are
// built in one buffer, take neighbouring pages and go to the device as one
// write. While a group is written the next is built.
const (
	// putGroupBytes is the most that a group of several blocks takes; a
	// larger block is a group by itself.
	putGroupBytes = 4 << 20
	// putGroupsWriting is how many groups of a batch may be on their way to
	// the device: with the one that is built it bounds a batch's memory.
	putGroupsWriting = 2
)

// putGroup is a run of blocks of a batch in one buffer. The buffer goes back
// to the pool when the group was placed and all its writes ended.
type putGroup struct {
	items []*putItem
	buf   *aligned.Buffer
	refs  atomic.Int32
	last  bool // of its batch
}

func (g *putGroup) release() {
	if g.refs.Add(-1) == 0 {
		g.buf.Free()
	}
}

// nextGroup takes the next blocks that fit together and gives them memory. It
// decides those that can not be put now; without any left, g is nil.
func (p *putBatch) nextGroup(ctx context.Context, todo []*putItem) (g *putGroup, rest []*putItem) {
	if err := ctx.Err(); err != nil {
		p.failAll(todo, StatusTimeout, "the context ended before this block's turn", err)
		return nil, nil
	}
	codec := p.n.roomCodec()
	n, sizeBytes := p.fitting(todo, codec)
	err := p.mayWrite()
	for err == nil {
		var buf *aligned.Buffer
		if buf, err = p.buffer(sizeBytes); err == nil {
			return p.newGroup(todo[:n], buf, codec), todo[n:]
		}
		switch {
		case !errors.Is(err, aligned.ErrExhausted):
		case n > 1: // a block alone may still find room
			n, sizeBytes, err = 1, todo[0].img.roomBytes(codec), nil
		case len(p.writing) > 0: // what is missing may be our own
			p.reap(len(p.writing) - 1)
			err = nil
		}
	}
	p.failAll(todo[:n], putStatus(err), "", err)
	return nil, todo[n:]
}

func (p *putBatch) newGroup(items []*putItem, buf *aligned.Buffer, codec uint8) *putGroup {
	g := &putGroup{items: items, buf: buf}
	g.refs.Store(1)
	end := 0
	for _, it := range items {
		end += it.img.roomBytes(codec)
		it.img.buf, it.img.begin = buf, end-it.img.ext.Pages()*disk.PageBytes
	}
	return g
}

// roomBytes is what an image may take with a codec: the raw payload, and the
// header that has an entry more for each stored chunk.
func (m *image) roomBytes(codec uint8) int {
	ext := m.ext
	ext.Codec = codec
	return (disk.HeaderPages(&ext) + int(m.ext.PayloadPages)) * disk.PageBytes
}

// fitting lays out the blocks at the head of todo that make a group. Blocks
// are put together only while less than half of the memory for puts and gets
// is in use: where it is scarce each batch takes what one block needs.
func (p *putBatch) fitting(todo []*putItem, codec uint8) (n, sizeBytes int) {
	inUse, _, limit := p.s.pool.Stats()
	for n < min(len(todo), groupRecordsMax) {
		it := todo[n]
		if it.img == nil {
			it.img = &image{ext: p.n.extentOf(&p.blocks[it.i], it.planes, 0, it.depth)}
		}
		size := it.img.roomBytes(codec)
		if n > 0 && (sizeBytes+size > putGroupBytes || inUse+int64(sizeBytes+size) > limit/2) {
			break
		}
		n, sizeBytes = n+1, sizeBytes+size
	}
	return n, sizeBytes
}

// mayWrite sheds where too much waits for the sync or the applier already.
func (p *putBatch) mayWrite() error {
	s := p.s
	s.mu.Lock()
	full := s.pendingBytes > s.o.MaxPendingBytes
	s.mu.Unlock()
	if full {
		kick(s.kickSync)
		return fmt.Errorf("%w: more than %d bytes are not applied to the index yet (MaxPendingBytes)", ErrShed, s.o.MaxPendingBytes)
	}
	if s.logFull() {
		kick(s.kickSync)
		return fmt.Errorf("%w: the log is at its limit of %d bytes until the index is flushed", ErrShed, s.room.logBytes)
	}
	return nil
}

// number gives the blocks of a group their put sequences.
func (p *putBatch) number(items []*putItem) error {
	first, err := p.s.nextSequences(len(items))
	for i, it := range items {
		it.img.ext.Seq = first + uint64(i)
	}
	return err
}

// prepareGroup fills a group's buffer and returns the blocks that are to be
// written: built, and as the source's seal says.
func (p *putBatch) prepareGroup(g *putGroup) []*putItem {
	err := p.number(g.items)
	if err == nil {
		err = p.build(g.items)
	}
	if err != nil {
		p.failAll(g.items, putStatus(err), "", err)
		return nil
	}
	kept := make([]*putItem, 0, len(g.items))
	for _, it := range g.items {
		if gone := it.gone.Load(); gone != nil {
			p.fail(it, StatusInvalid, "", *gone)
			continue
		}
		if err := it.img.checkSeal(&p.blocks[it.i]); err != nil {
			p.fail(it, putStatus(err), "", err)
			continue
		}
		kept = append(kept, it)
	}
	p.draftAll(kept)
	return kept
}

// errFull: the active segment is full, and a new one is to be made first.
var errFull = errors.New("engine: active segment is full")

// place finds room for the blocks of a group, or shares what is stored, and
// sends them to the device. To make a new segment it may have to wait for an
// eviction, which in turn waits for guests of its victim and for extents there
// that are not logged: so the batch shares nothing and has nothing unlogged
// while it waits.
func (p *putBatch) place(ctx context.Context, g *putGroup, items []*putItem) {
	for len(items) > 0 {
		if items = p.shareAll(ctx, items); len(items) == 0 {
			return
		}
		p.compressAll(items)
		if items = p.withinQuota(items); len(items) == 0 {
			return
		}
		p.s.o.private.points("put:before-write")
		p.reap(putGroupsWriting - 1)
		held, err := p.s.gate.enter(ctx, imageBytes(items))
		if err != nil {
			p.notPlaced(items, fmt.Errorf("engine: waiting for the device: %w", err))
			return
		}
		seg, n, err := p.s.reserveAll(classFresh, items)
		if n > 0 {
			for _, it := range items[:n] {
				it.sent = true
			}
			p.startWrite(g, seg, items[:n], held, g.last && n == len(items))
		} else {
			p.s.gate.leave(held)
		}
		items = items[n:]
		if err == nil {
			continue
		}
		for _, it := range items {
			p.s.endGuest(&it.shared)
		}
		if errors.Is(err, errFull) {
			p.reap(0)
			p.commitWritten()
			err = p.s.roll(ctx, classFresh)
		}
		if err != nil {
			p.notPlaced(items, err)
			return
		}
	}
}

// notPlaced decides blocks that got no room.
func (p *putBatch) notPlaced(items []*putItem, err error) {
	for _, it := range items {
		p.s.endGuest(&it.shared)
		p.fail(it, putStatus(err), "", err)
	}
}

// shareAll decides for each block whether an extent that is stored serves it,
// and drops those for which that could not be asked.
func (p *putBatch) shareAll(ctx context.Context, items []*putItem) []*putItem {
	kept := items[:0:0]
	for _, it := range items {
		if it.img.decided { // compressed, before the segment turned out full
			kept = append(kept, it)
			continue
		}
		it.img.aliasOf(nil) // a whole block again, after a roll
		target, err := p.s.shareable(ctx, it, it.img)
		if err != nil {
			p.fail(it, putStatus(err), "", err)
			continue
		}
		it.img.aliasOf(target)
		it.target = target
		kept = append(kept, it)
	}
	return kept
}

func imageBytes(items []*putItem) (n int64) {
	for _, it := range items {
		n += int64(it.img.ext.Pages()) * disk.PageBytes
	}
	return n
}
