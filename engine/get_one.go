package engine

import (
	"context"
	"fmt"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/tiers/disk"
)

// read reads one block by itself, verifies and copies it. With its parts
// covering most of the block it takes header and payload in one read, else the
// header and then the chunks that are asked for.
func (g *getBatch) read(ctx context.Context, w *want) error {
	k, e := g.keys[w.i], w.found.entry
	switch {
	case g.lend != nil:
		return g.readLent(ctx, w)
	case g.heads != nil:
		return g.readHead(ctx, w)
	case !g.wantsWhole(w.parts, e):
		return g.readRanges(ctx, w)
	}
	img, err := g.s.readExtentAgain(ctx, g.s.pool.Get, e.Extent, w.corruptBy)
	if err != nil {
		return err
	}
	defer img.free()
	if err := g.s.checkOwner(&img.ext, k, e); err != nil {
		return err
	}
	spans, err := locateParts(g.n, w.parts, &img.ext)
	if err != nil {
		return err
	}
	return g.deliverWhole(w, &img.ext, spans, img.payload(), false)
}

func (g *getBatch) wantsWhole(parts []Part, e index.Entry) bool {
	want := int64(0)
	for _, p := range parts {
		want += spanBytes(p.Spans)
	}
	return 4*want >= 3*e.RawBytes || e.RawBytes <= 2*ChunkBytes
}

// checkOwner closes the chain: the header that verified is the one that the
// index means, for this key.
func (s *Store) checkOwner(ext *disk.Extent, k index.Key, e index.Entry) error {
	if canaryLaw1 {
		return nil
	}
	if index.TagOf(ext.ContentID) != e.Content {
		return s.corruptAt(e.Extent, 0, fmt.Sprintf("content id %s, the index says %x…", ext.ContentID, e.Content), nil)
	}
	if !e.IsAlias() && (ext.Namespace != k.Namespace || string(ext.Hash) != k.Hash || ext.Seq != e.Seq) {
		return s.corruptAt(e.Extent, 0, fmt.Sprintf("header of another block: namespace %d hash %x", ext.Namespace, ext.Hash), nil)
	}
	if ext.RawBytes() != e.RawBytes {
		return s.corruptAt(e.Extent, 0, "header and index differ in length", nil)
	}
	return nil
}

// readRanges reads the header, then for each part its chunks.
func (g *getBatch) readRanges(ctx context.Context, w *want) error {
	ext, err := g.readHeader(ctx, w)
	if err != nil {
		return err
	}
	spans, err := locateParts(g.n, w.parts, ext)
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
		err := g.s.retryCorrupt(w.corruptBy, func(path *ioPath) error {
			return g.readChunks(ctx, path, bufs[j], ext, w.found.entry.Extent, sp)
		})
		if err != nil {
			return err
		}
		verified += chunkBytes(ext, sp.first, sp.last)
	}
	return g.deliver(w, ext, spans, func(j int) []byte { return bufs[j] }, verified, false)
}

func alignUp(n int64) int64 { return (n + disk.PageBytes - 1) &^ (disk.PageBytes - 1) }

func (g *getBatch) readHeader(ctx context.Context, w *want) (ext *disk.Extent, err error) {
	k, e := g.keys[w.i], w.found.entry
	err = g.s.retryCorrupt(w.corruptBy, func(path *ioPath) error {
		buf, err := g.s.rawRead(ctx, path, g.s.pool.Get, e.Extent, 0, int64(e.HeaderPages)*disk.PageBytes)
		if err != nil {
			return err
		}
		defer buf.Free()
		if ext, err = g.s.decodeHeader(buf.Bytes(), e.Extent); err != nil {
			return err
		}
		return g.s.checkOwner(ext, k, e)
	})
	return ext, err
}

func (g *getBatch) readChunks(ctx context.Context, path *ioPath, p []byte, ext *disk.Extent, e index.Extent, sp chunkSpan) error {
	if err := g.s.readInto(ctx, path, p, e, int64(e.HeaderPages)*disk.PageBytes+sp.off); err != nil {
		return err
	}
	return g.s.verifyChunks(ext, e, p, sp.off, sp.first, sp.last)
}

// arrived settles a block whose verified bytes are with the caller. The
// caller's memory is held.
func (g *getBatch) arrived(w *want, ext *disk.Extent, served, verified int64) {
	r := GetResult{Status: StatusOK, Bytes: served, VerifiedBytes: verified}
	if g.o.WantSeal {
		r.Seal = sealOfExtent(ext)
	}
	g.s.used.mark(w.found.entry.Address)
	if w.corruptBy != nil {
		g.s.count.rereadsSaved.Add(1)
	}
	if w.changed {
		g.s.count.memoryChanged.Add(1)
	}
	g.settle(w, r, true)
}
