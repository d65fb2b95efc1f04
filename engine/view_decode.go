package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/sealstone/sealstone/internal/sums"
	"github.com/sealstone/sealstone/tiers/disk"
)

// errNeedsRoom: a compressed block has no room for its raw bytes where it was
// read to. It is read again by itself.
var errNeedsRoom = errors.New("engine: no room to decode in place")

// lendWhole verifies a block that was read, decodes it where it lies, and lends
// it to the caller. room is the payload with the memory behind it that is the
// block's too.
func (g *getBatch) lendWhole(w *want, ext *disk.Extent, room []byte, from *loan, verified bool) error {
	if len(ext.Planes) != len(g.n.layout.Planes) {
		return &BlockError{Status: StatusLayoutMismatch, Offset: -1,
			Reason: fmt.Sprintf("the stored block has %d planes, the layout %d", len(ext.Planes), len(g.n.layout.Planes))}
	}
	var err error
	switch {
	case ext.Codec != disk.CodecRaw:
		err = g.decodeInPlace(w, ext, room)
	case !verified:
		err = g.s.verifyChunks(ext, w.found.entry.Extent, room, 0, 0, len(ext.Chunks))
	}
	if err != nil {
		return err
	}
	planes, at := make([][]byte, len(ext.Planes)), int64(0)
	for i := range ext.Planes {
		n := ext.Planes[i].RawBytes
		planes[i] = room[at:][:n:n]
		at += alignUp(n)
	}
	g.s.o.private.points("get:verified")
	if !g.op.enter() {
		w.settled = true
		return nil // the caller has its answer: Timeout
	}
	defer g.op.exit()
	from.shares.Add(1)
	g.lend.views[w.i].Planes = planes
	g.lend.views[w.i].held = &held{from: from}
	g.arrived(w, ext, ext.RawBytes(), ext.RawBytes())
	g.keepViewed(w, ext, planes)
	return nil
}

// readLent reads one block by itself, to be lent.
func (g *getBatch) readLent(ctx context.Context, w *want) error {
	k, e := g.keys[w.i], w.found.entry
	loan, err := g.lend.newLoan(ctx, g.s, g.s.pool.Get, w.lentBytes(g.n))
	if err != nil {
		return err
	}
	defer loan.release()
	buf := loan.buf.Bytes()
	return g.s.retryCorrupt(w.corruptBy, func(path *ioPath) error {
		if err := g.s.readInto(ctx, path, buf[:e.Bytes()], e.Extent, 0); err != nil {
			return err
		}
		ext, err := g.s.decodeHeader(buf, e.Extent)
		if err != nil {
			return err
		}
		if err := g.s.checkOwner(ext, k, e); err != nil {
			return err
		}
		return g.lendWhole(w, ext, buf[int(ext.HeaderPages)*disk.PageBytes:], loan, false)
	})
}

// decodeInPlace turns the stored bytes of a payload into raw ones, each plane
// from a page's beginning, and verifies both. It goes from the last chunk to
// the first: no chunk is stored in more bytes than it has, so the raw bytes of
// one never reach the stored bytes of those before it.
func (g *getBatch) decodeInPlace(w *want, ext *disk.Extent, room []byte) error {
	places := rawPlaces(ext)
	if need := places.bytes; need > int64(len(room)) {
		w.decodedBytes = need
		return errNeedsRoom
	}
	scratch := chunkScratch.Get().(*[sums.ChunkBytes]byte)
	defer chunkScratch.Put(scratch)
	for i := len(places.chunks) - 1; i >= 0; i-- {
		c := &places.chunks[i]
		stored := room[c.PayloadOff:][:c.StoredLen]
		dst := room[c.rawOff:][:c.RawLen]
		apart := c.rawOff >= c.PayloadOff+int64(c.StoredLen)
		if !apart {
			dst = scratch[:c.RawLen]
		}
		err := disk.DecodeChunk(dst, stored, ext.Codec, ext.Chunks[c.Index], c.RawLen)
		if err != nil && !canaryLaw1 {
			return g.s.chunkCorrupt(ext, w.found.entry.Extent, c.Index, c.PayloadOff, err)
		}
		if !apart {
			copy(room[c.rawOff:], dst)
		}
	}
	g.s.count.verifiedBytes.Add(ext.RawBytes())
	return nil
}

// rawPlace is where a chunk is stored, and where its raw bytes belong.
type rawPlace struct {
	disk.StoredChunk
	rawOff int64
}

type rawLayout struct {
	chunks []rawPlace
	bytes  int64 // of all planes, each begins a page
}

// rawPlaces lays the raw bytes of an extent out as if it were not compressed.
func rawPlaces(ext *disk.Extent) rawLayout {
	out := rawLayout{chunks: make([]rawPlace, 0, len(ext.Chunks))}
	begin := make([]int64, len(ext.Planes))
	for i := range ext.Planes {
		begin[i] = out.bytes
		out.bytes += alignUp(ext.Planes[i].RawBytes)
	}
	ext.EachChunk(0, len(ext.Chunks), func(c disk.StoredChunk) bool {
		out.chunks = append(out.chunks, rawPlace{c, begin[c.Plane] + c.PlaneOff})
		return true
	})
	return out
}
