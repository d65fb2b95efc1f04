package engine

import (
	"context"
	"sync"

	"github.com/sealstone/sealstone/gpu"
	"github.com/sealstone/sealstone/tiers/disk"
)

// directWasteMax is how many times the bytes that are asked for a direct read
// may take: it is one run of pages, from the first chunk that is wanted to the
// last one.
const directWasteMax = 2

// readDirect brings blocks by the direct path, if the directory has one, and
// returns those that are left for the host. It settles what arrived and
// nothing else: bytes that do not match may be the path's fault, so that the
// host has the last word about the block.
func (d *deviceGet) readDirect(ctx context.Context, wants []*deviceWant) (rest []*deviceWant) {
	if d.o.HostOnly || len(wants) == 0 || d.dev.route(d.s.dir) == nil {
		return wants
	}
	var able []*deviceWant
	for _, w := range wants {
		if w.mayBeRaw() {
			able = append(able, w)
		}
	}
	eachTray(ctx, cutTrays(able, (*deviceWant).pinnedBytes), d.directTray)
	for _, w := range wants {
		if !w.settled {
			rest = append(rest, w)
		}
	}
	return rest
}

// mayBeRaw reports whether the block takes enough pages not to be compressed;
// the header has the last word.
func (w *deviceWant) mayBeRaw() bool {
	e := &w.found.entry
	return int64(e.Pages-uint32(e.HeaderPages))*disk.PageBytes >= e.RawBytes
}

// directRead is one block on the direct path.
type directRead struct {
	w        *deviceWant
	ext      *disk.Extent
	spans    []chunkSpan
	from, to int64 // of the payload, whole pages
	handle   *disk.Handle
	item     gpu.DirectRead
}

func (d *deviceGet) directTray(ctx context.Context, tray []*deviceWant) {
	route := d.dev.route(d.s.dir)
	if route == nil || ctx.Err() != nil { // demoted meanwhile; or nobody waits
		return
	}
	reads := d.planDirect(ctx, tray)
	defer func() {
		for _, r := range reads {
			d.s.deviceFiles.note(d.s, r.handle.ID(), route, r.item.File)
			r.handle.Release()
		}
	}()
	if len(reads) == 0 || !d.op.enter() {
		return
	}
	defer d.op.exit()
	items := make([]gpu.DirectRead, len(reads))
	for i, r := range reads {
		d.s.count.direct.attempt(r.w.bytes)
		items[i] = r.item
	}
	d.s.o.private.points("gpu:direct")
	route.read(ctx, items)
	for i, r := range reads {
		if err := items[i].Err; err != nil && !canaryLaw2GPU {
			r.w.fellBack = true
			d.s.count.direct.refuseCopy(err)
			continue
		}
		d.arrived(r)
	}
}

// arrived settles a block whose verified bytes are on the GPU.
func (d *deviceGet) arrived(r *directRead) {
	out := DeviceGetResult{Status: StatusOK, Bytes: r.w.bytes, Path: PathCuFile}
	for _, sp := range r.spans {
		out.VerifiedBytes += chunkBytes(r.ext, sp.first, sp.last)
	}
	if d.o.WantSeal {
		out.Seal = sealOfExtent(r.ext)
	}
	d.s.used.mark(r.w.found.entry.Address)
	d.s.count.verifiedBytes.Add(out.VerifiedBytes)
	d.s.count.direct.verify(out.Bytes)
	d.settle(r.w, out, true)
}

// planDirect reads the headers of a tray and returns the blocks that can come
// directly, each with its segment held.
func (d *deviceGet) planDirect(ctx context.Context, tray []*deviceWant) (reads []*directRead) {
	g := &getBatch{n: d.n, s: d.s}
	planned := make([]*directRead, len(tray))
	for _, w := range tray {
		g.keys = append(g.keys, w.key)
	}
	var wg sync.WaitGroup
	turns := make(chan struct{}, getParallel)
	for i, w := range tray {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			ext, err := g.readHeader(ctx, &want{i: i, found: w.found})
			if err == nil {
				planned[i] = d.planOne(w, ext)
			}
		})
	}
	wg.Wait()
	for _, r := range planned {
		if r != nil && d.holdFile(r) {
			reads = append(reads, r)
		}
	}
	return reads
}

// planOne finds the pages of a block that are to be read, with what is to be
// compared in them and where they go to. It returns nil for what the direct
// path is not for: compressed blocks, ranges that lie far apart, and requests
// that do not fit the block.
func (d *deviceGet) planOne(w *deviceWant, ext *disk.Extent) *directRead {
	spans, err := locateParts(d.n, w.parts, ext)
	if err != nil || ext.Codec != disk.CodecRaw {
		return nil
	}
	r := &directRead{w: w, ext: ext, spans: spans, from: spans[0].off}
	for _, sp := range spans {
		r.from, r.to = min(r.from, sp.off), max(r.to, alignUp(sp.off+sp.len))
	}
	if r.to-r.from > directWasteMax*max(w.bytes, ChunkBytes) {
		return nil
	}
	e := &w.found.entry
	r.item.FileOffsetBytes = e.Address.Offset() + int64(e.HeaderPages)*disk.PageBytes + r.from
	r.item.LengthBytes = r.to - r.from
	r.checkChunks()
	for j, sp := range spans {
		off := sp.off - r.from + sp.skip
		for _, dst := range w.parts[j].Spans {
			if dst.LengthBytes > 0 {
				r.item.Moves = append(r.item.Moves, gpu.Move{OffsetBytes: off, Dst: dst})
			}
			off += dst.LengthBytes
		}
	}
	return r
}

// checkChunks adds the sum of every chunk that a part lies in, once.
func (r *directRead) checkChunks() {
	seen := make([]bool, len(r.ext.Chunks))
	for _, sp := range r.spans {
		r.ext.EachChunk(sp.first, sp.last, func(c disk.StoredChunk) bool {
			if !seen[c.Index] {
				seen[c.Index] = true
				r.item.Checks = append(r.item.Checks, gpu.Check{
					OffsetBytes: c.PayloadOff - r.from, LengthBytes: int64(c.RawLen), Sum: r.ext.Chunks[c.Index].RawSum,
				})
			}
			return true
		})
	}
}

// holdFile opens the segment of a read. Where that can not be done the host
// finds out why.
func (d *deviceGet) holdFile(r *directRead) bool {
	h, err := d.s.vol.Acquire(r.w.found.entry.Address.Segment)
	if err != nil {
		return false
	}
	var ok bool
	if r.item.FD, r.item.File, ok = deviceFileOf(h.File(true)); !ok {
		h.Release()
		return false
	}
	r.handle = h
	return true
}
