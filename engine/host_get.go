package engine

import (
	"bytes"
	"context"

	"github.com/sealstone/sealstone/tiers/disk"
	"github.com/sealstone/sealstone/tiers/host"
)

// hostAloneBytes: hits of no more than this together are served on the batch's
// own goroutine, or its caller's.
const hostAloneBytes = 256 << 10

// hostAloneBlocks: a batch of more blocks has a goroutine of its own anyhow.
const hostAloneBlocks = 64

// hostHit is a block of a batch that is in memory.
type hostHit struct {
	w *want
	b *host.Block
}

// first is what a batch does on its caller's goroutine: with a cache in memory
// most are at their end with that. Nothing in it waits for the device: the
// index is asked with the caller's deadline, and hits are few enough to be
// verified while the caller waits. nil: there is no such part.
func (g *getBatch) first() func(context.Context, *operation) (more bool) {
	if g.s.host == nil || g.heads != nil || len(g.blocks) > hostAloneBlocks {
		return nil
	}
	return func(ctx context.Context, op *operation) (more bool) {
		g.op, g.begun = op, true
		found, ok := g.begin(ctx)
		if !ok {
			return false
		}
		wants, total := g.sift(found), int64(0)
		for _, w := range wants {
			total += w.found.entry.RawBytes
		}
		if g.rest = wants; total <= hostAloneBytes {
			g.atHost, g.rest = true, g.fromHost(wants)
		}
		return len(g.rest) > 0
	}
}

// fromHost serves the blocks that are in memory and returns the others.
func (g *getBatch) fromHost(wants []*want) []*want {
	s := g.s
	if s.host == nil || g.heads != nil {
		return wants
	}
	var hits []hostHit
	rest, total := wants[:0:0], int64(0)
	for _, w := range wants {
		if b := s.host.Get(hostKey(g.keys[w.i]), hostVersion(w.found.entry)); b != nil {
			hits = append(hits, hostHit{w, b})
			total += w.found.entry.RawBytes
		} else {
			rest = append(rest, w)
		}
	}
	serve := func(i int) bool {
		g.serveHit(hits[i])
		return true
	}
	if total <= hostAloneBytes {
		for i := range hits {
			serve(i)
		}
	} else {
		s.parallel(len(hits), serve)
	}
	for _, h := range hits {
		if !h.w.settled {
			rest = append(rest, h.w)
		}
	}
	return rest
}

// serveHit settles a block from memory, or leaves it to the disk where what is
// in memory does not verify.
func (g *getBatch) serveHit(h hostHit) {
	lent := false
	defer func() {
		if !lent {
			h.b.Release()
		}
	}()
	ext, err := g.hostExtent(h)
	if err == nil {
		if err = h.b.VerifySums(); canaryLaw1 {
			err = nil
		}
	}
	if err != nil {
		g.s.hostCorrupt(g.keys[h.w.i], h.b, err)
		return
	}
	if g.lend != nil {
		lent = g.lendHit(h, ext)
		return
	}
	g.copyHit(h, ext)
}

// hostExtent is a block in memory as a header tells of one that is stored raw.
// The index has the last word of its size and content.
func (g *getBatch) hostExtent(h hostHit) (*disk.Extent, error) {
	e := &h.w.found.entry
	planeBytes := make([]int64, len(h.b.Planes()))
	for i, p := range h.b.Planes() {
		planeBytes[i] = int64(len(p))
	}
	id := h.b.Content()
	if len(planeBytes) != len(g.n.layout.Planes) || h.b.RawBytes() != e.RawBytes || !bytes.HasPrefix(id[:], e.Content[:]) && !canaryLaw1 {
		return nil, host.ErrCorrupt
	}
	ext := g.n.expectExtent(planeBytes)
	if len(ext.Chunks) != len(h.b.ChunkSums()) {
		return nil, host.ErrCorrupt
	}
	ext.ContentID = id
	for i, sum := range h.b.ChunkSums() {
		ext.Chunks[i].RawSum = sum
	}
	return ext, nil
}

// verifyHit verifies the chunks that hold some bytes of a plane.
func (g *getBatch) verifyHit(h hostHit, plane int, off, n int64) (verified int64, ok bool) {
	verified, err := h.b.VerifyRange(plane, off, n)
	if err != nil && !canaryLaw1 {
		g.s.hostCorrupt(g.keys[h.w.i], h.b, err)
		return 0, false
	}
	return verified, true
}

// copyHit verifies what is asked for of a block in memory, and copies it.
func (g *getBatch) copyHit(h hostHit, ext *disk.Extent) {
	w, s := h.w, g.s
	spans, err := locateParts(g.n, w.parts, ext)
	if err != nil {
		g.failed(w, err, false)
		return
	}
	served, verified := int64(0), int64(0)
	for j, sp := range spans {
		n, ok := g.verifyHit(h, sp.plane, w.parts[j].OffsetBytes, sp.want)
		if !ok {
			return
		}
		served, verified = served+sp.want, verified+n
	}
	s.o.private.points("get:verified")
	if !g.op.enter() {
		w.settled = true
		return // the caller has its answer: Timeout
	}
	defer g.op.exit()
	err = g.touch(w, func() error {
		for j, sp := range spans {
			scatter(w.parts[j].Spans, h.b.Planes()[sp.plane][w.parts[j].OffsetBytes:][:sp.want])
		}
		return nil
	})
	if err != nil {
		w.clear(w.allSpans())
		g.failed(w, err, true)
		return
	}
	s.count.hostServed.Add(served)
	s.count.hostVerified.Add(verified)
	g.arrived(w, ext, served, verified)
}

// hostLoan is a block in memory that a view shows.
type hostLoan struct {
	s *Store
	b *host.Block
}

func (l hostLoan) release() {
	l.b.Release()
	l.s.ops.done()
}

// lendHit verifies a block in memory and lends it. It reports whether a view
// has it now.
func (g *getBatch) lendHit(h hostHit, ext *disk.Extent) (lent bool) {
	w, s := h.w, g.s
	verified := int64(0)
	for i, p := range h.b.Planes() {
		n, ok := g.verifyHit(h, i, 0, int64(len(p)))
		if !ok {
			return false
		}
		verified += n
	}
	s.o.private.points("get:verified")
	if !g.op.enter() {
		w.settled = true
		return false
	}
	defer g.op.exit()
	s.ops.add()
	v := &g.lend.views[w.i]
	v.Planes = append([][]byte(nil), h.b.Planes()...)
	v.held = &held{from: hostLoan{s, h.b}}
	s.count.hostServed.Add(verified)
	s.count.hostVerified.Add(verified)
	g.arrived(w, ext, verified, verified)
	return true
}
