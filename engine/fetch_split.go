package engine

import (
	"fmt"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/sums"
	"github.com/sealstone/sealstone/tiers"
	"github.com/sealstone/sealstone/tiers/disk"
)

// A large block that is read by itself leaves the processors waiting for the
// device and then the device waiting for the sums. It is read in parts at
// once, and the sums of each part are taken while the others are under way.
const (
	// splitFetchesMax: more fetches in a round keep everybody busy as it is.
	splitFetchesMax = 2
	// splitBytesMin is the least that a part reads; below it the cost of one
	// more request is more than the time that is won.
	splitBytesMin = 256 << 10
	splitPartsMax = 4
)

// splitPart is one of the reads of a split fetch: the bytes of the extent from
// byte from on, and the chunks that lie in them.
type splitPart struct {
	from        int64
	spans       [][]byte
	first, last int
}

// split cuts the read of one raw extent, whose bytes go to spans, into parts
// at borders of chunks. It reports false where that is not worth it.
func (f *flight) split(spans [][]byte) bool {
	w := f.wants[0]
	total := w.found.entry.Bytes()
	if len(f.wants) > 1 || w.planeBytes == nil || total < 2*splitBytesMin {
		return false
	}
	f.expect = f.g.n.expectExtent(w.planeBytes)
	f.got = make([]uint64, len(f.expect.Chunks))
	head := int64(w.found.entry.HeaderPages) * disk.PageBytes
	least := max(splitBytesMin, total/splitPartsMax)
	parts := []splitPart{{}}
	f.expect.EachChunk(0, len(f.expect.Chunks), func(c disk.StoredChunk) bool {
		now := &parts[len(parts)-1]
		if at := head + c.PayloadOff; at-now.from >= least && total-at >= splitBytesMin {
			now.last = c.Index
			parts = append(parts, splitPart{from: at, first: c.Index})
		}
		return true
	})
	parts[len(parts)-1].last = len(f.expect.Chunks)
	for i := range parts {
		to := total
		if i+1 < len(parts) {
			to = parts[i+1].from
		}
		parts[i].spans = cutSpans(spans, parts[i].from, to)
	}
	f.parts = parts
	return true
}

// appendParts adds the reads of a split fetch.
func (f *flight) appendParts(items []tiers.Item) []tiers.Item {
	base := int64(f.from) * disk.PageBytes
	for _, p := range f.parts {
		items = append(items, tiers.Item{
			File: f.handle, Offset: base + p.from, Length: int(spanBytes(p.spans)), Spans: p.spans,
		})
	}
	return items
}

// takeSums is sumPart, in memory that may be the caller's.
func (f *flight) takeSums(p *splitPart) error {
	if !f.straight {
		f.sumPart(p)
		return nil
	}
	return f.g.touch(f.wants[0], func() error { f.sumPart(p); return nil })
}

// sumPart takes the sums of the chunks of a part that has been read. What they
// ought to be is known when the header, in the first part, is verified.
func (f *flight) sumPart(p *splitPart) {
	head := int64(f.wants[0].found.entry.HeaderPages) * disk.PageBytes
	cursor, at := spanCursor{spans: p.spans}, p.from
	f.expect.EachChunk(p.first, p.last, func(c disk.StoredChunk) bool {
		cursor.next(int(head + c.PayloadOff - at)) // the header, or zeros behind a plane
		f.got[c.Index] = sums.ChunkOver(cursor.next(c.RawLen))
		at = head + c.PayloadOff + int64(c.RawLen)
		return true
	})
}

// compareSums holds the sums of all chunks, taken before, to the header's.
func (s *Store) compareSums(ext *disk.Extent, e index.Extent, got []uint64) error {
	if len(got) != len(ext.Chunks) {
		return s.corruptAt(e, 0, fmt.Sprintf("%d chunks, %d were expected", len(ext.Chunks), len(got)), nil)
	}
	for i, sum := range got {
		if sum != ext.Chunks[i].RawSum && !canaryLaw1 {
			_, off, _ := ext.ChunkSpan(i)
			return s.chunkCorrupt(ext, e, i, off, fmt.Errorf("sum %016x, the header says %016x", sum, ext.Chunks[i].RawSum))
		}
	}
	s.count.verifiedBytes.Add(ext.RawBytes())
	return nil
}

// expectExtent is the header of a block that is stored raw with planes of
// these sizes, as far as it tells where the chunks lie.
func (n *Namespace) expectExtent(planeBytes []int64) *disk.Extent {
	e := &disk.Extent{Kind: disk.KindFull}
	for i, size := range planeBytes {
		e.Planes = append(e.Planes, disk.Plane{Name: n.layout.Planes[i].Name, RawBytes: size})
	}
	e.Layout()
	return e
}

// cutSpans returns the bytes [from, to) of spans taken as one.
func cutSpans(spans [][]byte, from, to int64) (out [][]byte) {
	at := int64(0)
	for _, s := range spans {
		lo, hi := max(from-at, 0), min(to-at, int64(len(s)))
		if lo < hi {
			out = append(out, s[lo:hi:hi])
		}
		at += int64(len(s))
	}
	return out
}
