package engine

import (
	"sync"

	"github.com/sealstone/sealstone/internal/sums"
	"github.com/sealstone/sealstone/tiers/disk"
)

// chunkScratch lends memory for the raw bytes of one chunk.
var chunkScratch = sync.Pool{New: func() any { return new([sums.ChunkBytes]byte) }}

// deliverWhole verifies all of an extent's payload and delivers what is asked
// for of it.
func (g *getBatch) deliverWhole(w *want, ext *disk.Extent, spans []chunkSpan, payload []byte, inside bool) error {
	if err := g.s.verifyChunks(ext, w.found.entry.Extent, payload, 0, 0, len(ext.Chunks)); err != nil {
		return err
	}
	return g.deliverVerified(w, ext, spans, payload, inside)
}

// deliverVerified is deliverWhole for a payload that is verified as stored.
func (g *getBatch) deliverVerified(w *want, ext *disk.Extent, spans []chunkSpan, payload []byte, inside bool) error {
	run := func(j int) []byte { return payload[spans[j].off:] }
	if err := g.deliver(w, ext, spans, run, ext.RawBytes(), inside); err != nil {
		return err
	}
	g.keepPayload(w, ext, payload)
	return nil
}

// deliver brings bytes whose stored form is verified to the caller, and with
// that settles the block. run gives the stored bytes of a run of chunks.
//
// Chunks that are compressed are decoded and verified one at a time. Should
// one fail there, the destinations are cleared: what came before it is sound,
// but the block is not.
func (g *getBatch) deliver(w *want, ext *disk.Extent, spans []chunkSpan, run func(j int) []byte, verified int64, inside bool) error {
	g.s.o.private.points("get:verified")
	if !inside {
		if !g.op.enter() {
			w.settled = true
			return nil // the caller has its answer: Timeout
		}
		defer g.op.exit()
	}
	if err := g.touch(w, func() error { return g.copyOut(w, ext, spans, run) }); err != nil {
		w.clear(w.allSpans())
		return err
	}
	served := int64(0)
	for _, sp := range spans {
		served += sp.want
	}
	g.arrived(w, ext, served, verified)
	return nil
}

// copyOut brings the raw bytes of all ranges to their spans.
func (g *getBatch) copyOut(w *want, ext *disk.Extent, spans []chunkSpan, run func(j int) []byte) error {
	for j, sp := range spans {
		if ext.Codec == disk.CodecRaw {
			scatter(w.parts[j].Spans, run(j)[sp.skip:sp.skip+sp.want])
		} else if err := g.decode(w, ext, sp, run(j), w.parts[j].Spans); err != nil {
			return err
		}
	}
	return nil
}

// decode brings the raw bytes of a range to its spans.
func (g *getBatch) decode(w *want, ext *disk.Extent, sp chunkSpan, stored []byte, spans [][]byte) (err error) {
	scratch := chunkScratch.Get().(*[sums.ChunkBytes]byte)
	defer chunkScratch.Put(scratch)
	dst := spanWriter{spans: spans}
	skip, left := sp.skip, sp.want
	ext.EachChunk(sp.first, sp.last, func(c disk.StoredChunk) bool {
		raw := scratch[:c.RawLen]
		err = disk.DecodeChunk(raw, stored[c.PayloadOff-sp.off:][:c.StoredLen], ext.Codec, ext.Chunks[c.Index], c.RawLen)
		if err != nil && !canaryLaw1 {
			err = g.s.chunkCorrupt(ext, w.found.entry.Extent, c.Index, c.PayloadOff, err)
			return false
		}
		n := min(left, int64(len(raw))-skip)
		dst.write(raw[skip : skip+n])
		skip, left = 0, left-n
		return true
	})
	return err
}

// scatter copies src over spans of the same length together.
func scatter(spans [][]byte, src []byte) {
	for _, s := range spans {
		src = src[copy(s, src):]
	}
}

// spanWriter fills spans one after the other.
type spanWriter struct {
	spans [][]byte // the list is the caller's and stays as it is
	at    int      // bytes of spans[0] that are written
}

func (d *spanWriter) write(p []byte) {
	for len(p) > 0 && len(d.spans) > 0 {
		n := copy(d.spans[0][d.at:], p)
		p = p[n:]
		if d.at += n; d.at == len(d.spans[0]) {
			d.spans, d.at = d.spans[1:], 0
		}
	}
}
