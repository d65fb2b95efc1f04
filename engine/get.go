package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/tiers"
	"github.com/sealstone/sealstone/tiers/disk"
)

// Get reads blocks, planes of blocks or byte ranges into the caller's memory
// and returns one result each, in order. Bytes are verified in memory of the
// store and only then copied, so on any status but OK the destination holds
// what it held before.
//
// When the context ends first, blocks not yet decided are Timeout; the
// destination is not touched after Get returned.
func (n *Namespace) Get(ctx context.Context, blocks []GetBlock, o GetOptions) []GetResult {
	out := make([]GetResult, len(blocks))
	g := &getBatch{n: n, s: n.s, o: o, blocks: blocks, out: out}
	err := n.s.run(ctx, g.run)
	for i := range out {
		r := &out[i]
		if r.Status == statusNone {
			st := statusOfRun(err)
			r.Status, r.Err = st, &BlockError{Status: st, Hash: blocks[i].Hash, Offset: -1, Err: err}
		}
		n.s.count.get(r.Status)
		n.s.count.servedBytes.Add(r.Bytes)
	}
	return out
}

// getParallel is how many blocks of one batch are read at a time.
const getParallel = 8

type getBatch struct {
	n      *Namespace
	s      *Store
	op     *operation
	o      GetOptions
	blocks []GetBlock
	out    []GetResult // the caller's: only under op
}

func (g *getBatch) settle(i int, r GetResult) {
	if !g.op.enter() {
		return
	}
	defer g.op.exit()
	if g.out[i].Status == statusNone {
		g.out[i] = r
	}
}

func (g *getBatch) fail(i int, key index.Key, st Status, reason string, err error) {
	var be *BlockError
	if errors.As(err, &be) {
		be.Hash = []byte(key.Hash)
		g.settle(i, GetResult{Status: be.Status, Err: be})
		return
	}
	g.settle(i, GetResult{Status: st, Err: &BlockError{Status: st, Hash: []byte(key.Hash), Offset: -1, Reason: reason, Err: err}})
}

func (g *getBatch) run(ctx context.Context, op *operation) {
	g.op = op
	keys, parts := g.copyArguments()
	if keys == nil {
		return
	}
	if h := g.s.health.get(); h.State == HealthAllMiss {
		g.failAll(keys, StatusMiss, fmt.Sprint("the store answers misses only: ", h.Reasons), nil)
		return
	}
	if g.n.stale() {
		g.failAll(keys, StatusStaleEpoch, "open the namespace again", ErrEpoch)
		return
	}
	found, err := g.s.lookup(ctx, keys, false)
	if err != nil {
		g.failAll(keys, unanswered(ctx, StatusMiss), "the index gives no answer", err)
		return
	}
	var wg sync.WaitGroup
	turns := make(chan struct{}, getParallel)
	for i := range keys {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			g.one(ctx, i, keys[i], parts[i], found[i])
		})
	}
	wg.Wait()
}

// copyArguments takes the lists of the caller while it is there.
func (g *getBatch) copyArguments() ([]index.Key, [][]Part) {
	if !g.op.enter() {
		return nil, nil
	}
	defer g.op.exit()
	keys := make([]index.Key, len(g.blocks))
	parts := make([][]Part, len(g.blocks))
	for i, b := range g.blocks {
		keys[i] = index.Key{Namespace: g.n.info.Number, Hash: string(b.Hash)}
		parts[i] = make([]Part, len(b.Parts))
		for j, p := range b.Parts {
			p.Spans = append([][]byte(nil), p.Spans...)
			parts[i][j] = p
		}
	}
	return keys, parts
}

func (g *getBatch) failAll(keys []index.Key, st Status, reason string, err error) {
	for i, k := range keys {
		g.fail(i, k, st, reason, err)
	}
}

// one answers one block. A block whose segment goes away under it is looked
// up again: it was moved, or evicted.
func (g *getBatch) one(ctx context.Context, i int, k index.Key, parts []Part, found lookupResult) {
	if err := g.n.checkGet(k, parts); err != nil {
		g.fail(i, k, StatusInvalid, "", err)
		return
	}
	const triesMax = 4
	for range triesMax {
		switch {
		case found.bad:
			g.fail(i, k, StatusCorrupt, "found bad before, quarantined", nil)
			return
		case !found.ok:
			g.fail(i, k, StatusMiss, "", nil)
			return
		}
		err := g.read(ctx, i, k, parts, found.entry)
		if err == nil {
			return
		}
		if !errors.Is(err, disk.ErrNoSegment) {
			g.failed(i, k, found.entry, err)
			return
		}
		again, err := g.s.lookup(ctx, []index.Key{k}, false)
		if err != nil {
			g.fail(i, k, unanswered(ctx, StatusMiss), "the index gives no answer", err)
			return
		}
		if again[0].ok && again[0].entry.Address == found.entry.Address && !g.s.isGoing(found.entry.Address.Segment) {
			g.failed(i, k, found.entry, g.s.corruptAt(found.entry.Extent, 0, "the segment file is gone", disk.ErrNoSegment))
			return
		}
		found = again[0]
	}
	g.fail(i, k, StatusMiss, "the block moved on faster than it could be read", nil)
}

// isGoing reports whether a segment is being evicted, or was.
func (s *Store) isGoing(id uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	seg := s.segs[id]
	return seg == nil || seg.victim
}

func (g *getBatch) failed(i int, k index.Key, e index.Entry, err error) {
	switch {
	case errors.Is(err, ErrCorrupt):
		g.s.quarantine(k, e, err.Error())
		g.fail(i, k, StatusCorrupt, "", err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		g.fail(i, k, StatusTimeout, "", err)
	case errors.Is(err, aligned.ErrExhausted), errors.Is(err, tiers.ErrBusy), errors.Is(err, aligned.ErrTooLarge):
		g.fail(i, k, StatusMiss, "a limit of the store was reached", err)
	case errors.Is(err, ErrClosed), errors.Is(err, tiers.ErrClosed):
		g.fail(i, k, StatusClosed, "", err)
	default:
		g.fail(i, k, StatusIOError, "the data are kept; it may be tried again", err)
	}
}

// read reads, verifies and copies. With its parts covering most of the block
// it takes header and payload in one read, else the header and then the
// chunks that are asked for.
func (g *getBatch) read(ctx context.Context, i int, k index.Key, parts []Part, e index.Entry) error {
	if g.wantsWhole(parts, e) {
		img, err := g.s.readExtent(ctx, g.s.pool.Get, e.Extent)
		if err != nil {
			return err
		}
		defer img.free()
		if err := g.n.checkOwner(&img.ext, k, e); err != nil {
			return err
		}
		return g.deliver(i, k, parts, e, &img.ext, img.payload(), nil, img.ext.RawBytes())
	}
	return g.readRanges(ctx, i, k, parts, e)
}

func (g *getBatch) wantsWhole(parts []Part, e index.Entry) bool {
	want := int64(0)
	for _, p := range parts {
		if p.LengthBytes == 0 && p.OffsetBytes == 0 {
			want += spanBytes(p.Spans)
		} else {
			want += p.LengthBytes
		}
	}
	return 4*want >= 3*e.RawBytes || e.RawBytes <= 2*ChunkBytes
}

// checkOwner closes the chain: the header that verified is the one that the
// index means, for this key.
func (n *Namespace) checkOwner(ext *disk.Extent, k index.Key, e index.Entry) error {
	if canaryLaw1 {
		return nil
	}
	if ext.ContentID != e.ContentID {
		return n.s.corruptAt(e.Extent, 0, fmt.Sprintf("content id %s, the index says %s", ext.ContentID, e.ContentID), nil)
	}
	if !e.IsAlias() && (ext.Namespace != k.Namespace || string(ext.Hash) != k.Hash || ext.Seq != e.Seq) {
		return n.s.corruptAt(e.Extent, 0, fmt.Sprintf("header of another block: namespace %d hash %x", ext.Namespace, ext.Hash), nil)
	}
	if ext.RawBytes() != e.RawBytes {
		return n.s.corruptAt(e.Extent, 0, "header and index differ in length", nil)
	}
	return nil
}

// readRanges reads the header, then for each part its chunks.
func (g *getBatch) readRanges(ctx context.Context, i int, k index.Key, parts []Part, e index.Entry) error {
	ext, err := g.readHeader(ctx, k, e)
	if err != nil {
		return err
	}
	spans, err := g.n.locate(k, parts, ext)
	if err != nil {
		return err
	}
	// One buffer for all ranges: who waited for a second one while holding the
	// first could wait for others who do the same.
	total := int64(0)
	for _, sp := range spans {
		total += alignUp(sp.len)
	}
	buf, err := g.s.pool.Get(ctx, int(total))
	if err != nil {
		return err
	}
	defer buf.Free()
	bufs := make([][]byte, len(spans))
	rest, verified := buf.Bytes(), int64(0)
	for j, sp := range spans {
		bufs[j], rest = rest[:sp.len], rest[alignUp(sp.len):]
		err := g.s.retryCorrupt(func() error { return g.readChunks(ctx, bufs[j], ext, e.Extent, sp) })
		if err != nil {
			return err
		}
		verified += chunkBytes(ext, sp.first, sp.last)
	}
	return g.deliver(i, k, parts, e, ext, nil, bufs, verified)
}

func alignUp(n int64) int64 { return (n + disk.PageBytes - 1) &^ (disk.PageBytes - 1) }

func (g *getBatch) readHeader(ctx context.Context, k index.Key, e index.Entry) (ext *disk.Extent, err error) {
	err = g.s.retryCorrupt(func() error {
		buf, err := g.s.rawRead(ctx, g.s.pool.Get, e.Extent, 0, int64(e.HeaderPages)*disk.PageBytes)
		if err != nil {
			return err
		}
		defer buf.Free()
		if ext, err = g.s.decodeHeader(buf.Bytes(), e.Extent); err != nil {
			return err
		}
		return g.n.checkOwner(ext, k, e)
	})
	return ext, err
}

func (g *getBatch) readChunks(ctx context.Context, p []byte, ext *disk.Extent, e index.Extent, sp chunkSpan) error {
	if err := g.s.readInto(ctx, p, e, int64(e.HeaderPages)*disk.PageBytes+sp.off); err != nil {
		return err
	}
	return g.s.verifyChunks(ext, e, p, sp.off, sp.first, sp.last)
}
