package engine

import (
	"github.com/sealstone/sealstone/tiers/disk"
	"github.com/sealstone/sealstone/tiers/host"
)

// keep offers a block that was read and verified whole to the cache in memory;
// fill brings its raw bytes into the planes, or says that it can not.
func (g *getBatch) keep(w *want, ext *disk.Extent, fill func(b *host.Block) bool) {
	b := g.s.hostBlock(ext)
	if b == nil {
		return
	}
	defer b.Release()
	if fill(b) {
		g.s.host.Insert(hostKey(g.keys[w.i]), hostVersion(w.found.entry), b)
	}
}

// keepPayload is keep for a block whose stored bytes are in memory of the store.
func (g *getBatch) keepPayload(w *want, ext *disk.Extent, payload []byte) {
	g.keep(w, ext, func(b *host.Block) bool {
		if ext.Codec == disk.CodecRaw {
			copyPlanes(b, ext, payload)
			return true
		}
		return decodePlanes(b, ext, payload)
	})
}

func copyPlanes(b *host.Block, ext *disk.Extent, payload []byte) {
	for i, dst := range b.Planes() {
		copy(dst, payload[ext.Planes[i].OffsetBytes:])
	}
}

// decodePlanes decodes all chunks, each of which is verified by that.
func decodePlanes(b *host.Block, ext *disk.Extent, payload []byte) bool {
	ok := true
	ext.EachChunk(0, len(ext.Chunks), func(c disk.StoredChunk) bool {
		dst := b.Planes()[c.Plane][c.PlaneOff:][:c.RawLen]
		ok = disk.DecodeChunk(dst, payload[c.PayloadOff:][:c.StoredLen], ext.Codec, ext.Chunks[c.Index], c.RawLen) == nil
		return ok
	})
	return ok
}

// keepStraight is keep for a block that was read into the caller's memory. What
// was copied from there is verified for itself: somebody else may write to it.
func (f *flight) keepStraight(i int, w *want, ext *disk.Extent) {
	f.g.keep(w, ext, func(b *host.Block) bool {
		err := f.g.touch(w, func() error {
			for p, dst := range b.Planes() {
				pl := &f.planes[i][p]
				for _, span := range pl.spans {
					dst = dst[copy(dst, span):]
				}
				copy(dst, pl.tail)
			}
			return nil
		})
		return err == nil && b.Verify() == nil
	})
}

// keepViewed is keep for a block whose planes are lent to a view.
func (g *getBatch) keepViewed(w *want, ext *disk.Extent, planes [][]byte) {
	g.keep(w, ext, func(b *host.Block) bool {
		for i, dst := range b.Planes() {
			copy(dst, planes[i])
		}
		return true
	})
}

// draftAll copies blocks that are about to be put into memory of the cache,
// while they are raw. They enter it when they are visible.
func (p *putBatch) draftAll(items []*putItem) {
	if p.s.host == nil || p.o.bypassHost {
		return
	}
	p.s.parallel(len(items), func(i int) bool {
		it := items[i]
		if it.draft = p.s.hostBlock(&it.img.ext); it.draft != nil {
			copyPlanes(it.draft, &it.img.ext, it.img.payload())
		}
		return true
	})
}

// publish lets blocks that are logged, and so visible, enter the cache.
func (p *putBatch) publish(logged []*putItem) {
	for _, it := range logged {
		if it.draft == nil {
			continue
		}
		p.s.host.Insert(hostKey(it.key), hostVersion(it.rec.Entry), it.draft)
		it.dropDraft()
	}
}

// dropDraft gives up what was to enter the cache.
func (it *putItem) dropDraft() {
	if it.draft != nil {
		it.draft.Release()
		it.draft = nil
	}
}

// hostWithdraw takes blocks out of the cache whose put a failed sync took back.
func (s *Store) hostWithdraw(recs []*record) {
	if s.host == nil {
		return
	}
	for _, r := range recs {
		if r.Kind == recordPut {
			s.host.Remove(hostKey(r.Key), r.Entry.Seq)
		}
	}
}
