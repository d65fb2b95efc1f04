package engine

import (
	"context"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/gpu"
	"github.com/sealstone/sealstone/internal/sums"
)

// bounce brings blocks through pinned memory of the host: the get of the store
// reads and verifies them there, with all that it knows about reading again,
// and only what came out OK is copied on.
func (d *deviceGet) bounce(ctx context.Context, wants []*deviceWant) {
	eachTray(ctx, cutTrays(wants, (*deviceWant).pinnedBytes), d.bounceTray)
}

// pinnedBytes is the pinned memory of a block: each part begins at a page, so
// that the disk can write there.
func (w *deviceWant) pinnedBytes() (n int64) {
	for i := range w.parts {
		n += alignUp(deviceBytes(w.parts[i].Spans))
	}
	return n
}

func (d *deviceGet) bounceTray(ctx context.Context, tray []*deviceWant) {
	c := &d.s.count.bounce
	total := int64(0)
	for _, w := range tray {
		c.attempt(w.bytes)
		total += w.pinnedBytes()
	}
	mem, err := d.takePinned(ctx, total)
	if err != nil {
		for _, w := range tray {
			c.failed.Add(1)
			d.settle(w, d.deviceFailure(w, err), false)
		}
		return
	}
	defer mem.Free() // nothing reads into it, or copies from it, any more
	g := d.hostGet(tray, mem.Bytes())
	d.s.memory.add(mem.Bytes())
	g.readFound(ctx, foundOf(tray))
	d.s.memory.remove(mem.Bytes())
	d.copyTray(ctx, tray, g, mem.Bytes())
}

// takePinned waits for pinned memory no longer than ctx lasts. A block without
// bytes takes a page all the same: what is wrong with it the get tells.
func (d *deviceGet) takePinned(ctx context.Context, sizeBytes int64) (pinnedMemory, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return d.dev.takePinned(ctx, int(max(sizeBytes, 1)))
}

func foundOf(tray []*deviceWant) []lookupResult {
	found := make([]lookupResult, len(tray))
	for i, w := range tray {
		found[i] = w.found
	}
	return found
}

// hostGet is the get of a tray's blocks into pinned memory. Its memory is the
// store's, so it has an operation of its own, which nobody leaves: the caller
// of the batch does not wait for it.
func (d *deviceGet) hostGet(tray []*deviceWant, mem []byte) *getBatch {
	g := &getBatch{
		n: d.n, s: d.s, op: &operation{}, o: GetOptions{WantSeal: true, WaitForDevice: true},
		out: make([]GetResult, len(tray)), keys: make([]index.Key, len(tray)), wants: make([]want, len(tray)),
	}
	for i, w := range tray {
		parts := make([]Part, len(w.parts))
		for j, p := range w.parts {
			n := deviceBytes(p.Spans)
			parts[j] = Part{Plane: p.Plane, OffsetBytes: p.OffsetBytes, LengthBytes: p.LengthBytes, Spans: [][]byte{mem[:n:n]}}
			mem = mem[alignUp(n):]
		}
		g.keys[i], g.wants[i] = w.key, want{i: i, parts: parts}
	}
	return g
}

// copyTray copies what was verified to the device. It is inside the caller's
// memory meanwhile: a caller that leaves waits for it.
func (d *deviceGet) copyTray(ctx context.Context, tray []*deviceWant, g *getBatch, mem []byte) {
	if !d.op.enter() {
		return // the caller has its answer: Timeout
	}
	defer d.op.exit()
	c := &d.s.count.bounce
	var items []gpu.CopyIn
	var of []int // the block of each item
	for i, w := range tray {
		size := w.pinnedBytes()
		if r := &g.out[i]; r.Status == StatusOK {
			checks := d.copyChecks(g.wants[i].parts, r.Seal)
			items, of = append(items, gpu.CopyIn{Src: mem[:size:size], Moves: w.moves(), Checks: checks}), append(of, i)
		} else {
			c.refuse(r.Status)
			d.settle(w, d.failure(w, r.Status, "", r.Err), true)
		}
		mem = mem[size:]
	}
	if len(items) > 0 {
		d.dev.copyIn(ctx, items)
	}
	for j := range items {
		w, r := tray[of[j]], &g.out[of[j]]
		if err := items[j].Err; err != nil && !canaryLaw2GPU {
			c.refuseCopy(err)
			d.settle(w, d.deviceFailure(w, err), true)
			continue
		}
		c.verify(r.Bytes)
		if w.fellBack {
			d.s.count.direct.fellBack(r.Bytes)
			d.dev.countFellBack(r.Bytes)
		}
		out := DeviceGetResult{Status: StatusOK, Bytes: r.Bytes, VerifiedBytes: r.VerifiedBytes, Path: PathHostBounce}
		if d.o.WantSeal {
			out.Seal = r.Seal
		}
		d.settle(w, out, true)
	}
}

// moves are the ways from the parts in pinned memory to the caller's spans.
func (w *deviceWant) moves() (moves []gpu.Move) {
	at := int64(0)
	for _, p := range w.parts {
		off := at
		for _, s := range p.Spans {
			if s.LengthBytes > 0 {
				moves = append(moves, gpu.Move{OffsetBytes: off, Dst: s})
			}
			off += s.LengthBytes
		}
		at += alignUp(off - at)
	}
	return moves
}

// copyChecks are sums over the parts in pinned memory, for a device that
// compares them once more. Of a chunk that is there as a whole it is the sum
// that was stored, of the others what the verified bytes come to.
func (d *deviceGet) copyChecks(parts []Part, seal *Seal) (checks []gpu.Check) {
	if seal == nil || !d.dev.comparesCopies() {
		return nil
	}
	at := int64(0)
	for _, p := range parts {
		src, off := p.Spans[0], p.OffsetBytes
		plane, _ := d.n.planeOf(p.Plane)
		for done := int64(0); done < int64(len(src)); {
			k := min(int64(len(src))-done, sums.ChunkBytes-off%sums.ChunkBytes)
			sum, whole := seal.chunkAt(plane, off, k)
			if !whole {
				sum = sums.Chunk(src[done:][:k])
			}
			checks = append(checks, gpu.Check{OffsetBytes: at + done, LengthBytes: k, Sum: sum})
			done, off = done+k, off+k
		}
		at += alignUp(int64(len(src)))
	}
	return checks
}

// chunkAt is the sum of the chunk that begins off bytes into a plane and has n
// bytes, if there is one.
func (s *Seal) chunkAt(plane int, off, n int64) (sum uint64, ok bool) {
	if plane >= len(s.PlaneBytes) || off%sums.ChunkBytes != 0 || n != min(sums.ChunkBytes, s.PlaneBytes[plane]-off) {
		return 0, false
	}
	chunk := int(off / sums.ChunkBytes)
	for _, b := range s.PlaneBytes[:plane] {
		chunk += sums.ChunkCount(b)
	}
	return s.ChunkSums[chunk], true
}
