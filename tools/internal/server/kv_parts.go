package server

import (
	"context"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/tools/internal/server/resp"
)

// freed lets a buffer be held by a writer.
type freed struct{ resp.Buffer }

func (f freed) Release() { f.Free() }

// getParts answers ranges of blocks, and blocks that go into regions: all of
// them together but for what is inline, which is read mgetBytes at a time.
func (c *conn) getParts(ctx context.Context, n *engine.Namespace, blocks []kvWanted, f kvFlags) {
	c.fillLengths(ctx, n, blocks)
	for len(blocks) > 0 {
		count, size := 0, int64(0)
		for count < len(blocks) && (count == 0 || size+inlineBytes(&blocks[count]) <= mgetBytes) {
			size += inlineBytes(&blocks[count])
			count++
		}
		if size > 0 && c.out.Lends() {
			_ = c.out.Flush()
		}
		c.getSome(ctx, n, blocks[:count], f)
		blocks = blocks[count:]
	}
}

func inlineBytes(w *kvWanted) (n int64) {
	for i := range w.parts {
		if w.parts[i].inline {
			n += w.parts[i].length
		}
	}
	return n
}

// fillLengths finds out how long inline parts are that go to the end of their
// plane: from the layout, or where that allows any size from the blocks.
func (c *conn) fillLengths(ctx context.Context, n *engine.Namespace, blocks []kvWanted) {
	var ask [][]byte
	var places []int
	for i := range blocks {
		if c.fillFromLayout(n, &blocks[i]) {
			ask = append(ask, blocks[i].hash)
			places = append(places, i)
		}
	}
	if len(ask) == 0 {
		return
	}
	for i, st := range n.Stat(ctx, ask) {
		w := &blocks[places[i]]
		if st.Status != engine.StatusOK {
			w.refused = &engine.BlockError{Status: st.Status, Hash: w.hash, Offset: -1, Err: st.Err}
			continue
		}
		for k := range w.parts {
			if p := &w.parts[k]; p.lengthIsUnknown {
				w.fill(p, st.PlaneBytes[planeOf(n, p.plane)])
			}
		}
	}
}

// fillFromLayout reports whether the block itself must be asked.
func (c *conn) fillFromLayout(n *engine.Namespace, w *kvWanted) (ask bool) {
	for k := range w.parts {
		p := &w.parts[k]
		if !p.lengthIsUnknown {
			continue
		}
		at := planeOf(n, p.plane)
		switch {
		case at < 0:
			w.refuse(engine.StatusInvalid, "the layout has no plane "+p.plane)
			return false
		case n.Layout().Planes[at].SizeBytes > 0:
			w.fill(p, n.Layout().Planes[at].SizeBytes)
		default:
			ask = true
		}
	}
	return ask && w.refused == nil
}

func (w *kvWanted) fill(p *kvPart, planeBytes int64) {
	if p.length = planeBytes - p.offset; p.length <= 0 {
		p.length = 0
		w.refuse(engine.StatusLengthMismatch, "the range begins past the end of the plane")
	}
	p.lengthIsUnknown = false
}

func (w *kvWanted) refuse(st engine.Status, reason string) {
	w.refused = &engine.BlockError{Status: st, Hash: w.hash, Offset: -1, Reason: reason}
}

// planeOf is the place of a plane in the layout, or -1. An only plane needs no
// name.
func planeOf(n *engine.Namespace, name string) int {
	planes := n.Layout().Planes
	if name == "" && len(planes) == 1 {
		return 0
	}
	for i := range planes {
		if planes[i].Name == name {
			return i
		}
	}
	return -1
}

// getSome reads blocks into regions and into memory for inline parts, and
// answers them.
func (c *conn) getSome(ctx context.Context, n *engine.Namespace, blocks []kvWanted, f kvFlags) {
	asked := make([]engine.GetBlock, 0, len(blocks))
	shared := false
	for i := range blocks {
		w := &blocks[i]
		if w.refused == nil && c.takeBuffers(w) {
			asked = append(asked, engine.GetBlock{Hash: w.hash, Parts: w.engineParts()})
			shared = shared || !w.parts[0].inline
		}
	}
	var results []engine.GetResult
	if len(asked) > 0 {
		// Into a region a device may write: the answer says that it is done.
		results = n.Get(ctx, asked, engine.GetOptions{WantSeal: f.seal, WaitForDevice: shared})
	}
	for i := range blocks {
		w := &blocks[i]
		if w.refused != nil {
			c.answerParts(w, &engine.GetResult{Status: w.refused.Status, Err: w.refused})
			continue
		}
		c.answerParts(w, &results[0])
		results = results[1:]
	}
}

// takeBuffers takes memory for the inline parts of a block, or refuses it.
func (c *conn) takeBuffers(w *kvWanted) bool {
	for k := range w.parts {
		p := &w.parts[k]
		if !p.inline {
			continue
		}
		// Others may be held for this very command: no waiting.
		if p.buffer = c.s.memory.Take(int(p.length), true); p.buffer == nil {
			c.s.count.limit(limitMemory)
			w.refuse(engine.StatusShed, "the server has no room for the bytes: "+limitNames[limitMemory])
			w.free()
			return false
		}
		p.spans = [][]byte{p.buffer.Bytes()}
	}
	return true
}

func (w *kvWanted) free() {
	for k := range w.parts {
		if p := &w.parts[k]; p.buffer != nil {
			p.buffer.Free()
			p.buffer = nil
		}
	}
}

func (w *kvWanted) engineParts() []engine.Part {
	parts := make([]engine.Part, len(w.parts))
	for i, p := range w.parts {
		parts[i] = engine.Part{Plane: p.plane, OffsetBytes: p.offset, LengthBytes: p.length, Spans: p.spans}
	}
	return parts
}

func (c *conn) answerParts(w *kvWanted, r *engine.GetResult) {
	c.s.count.kinds[kindBlock].got(r.Status, r.VerifiedBytes)
	c.answerGet(r.Status, r.Err, r.Bytes, r.VerifiedBytes, r.Seal)
	if r.Status != engine.StatusOK {
		w.free()
		c.out.Array(0)
		return
	}
	inline := 0
	for i := range w.parts {
		if w.parts[i].inline {
			inline++
		}
	}
	c.out.Array(inline)
	for i := range w.parts {
		if p := &w.parts[i]; p.inline {
			c.part(p.buffer.Bytes())
			c.out.Hold(freed{p.buffer})
		}
	}
}
