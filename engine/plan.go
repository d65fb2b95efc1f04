package engine

import (
	"cmp"
	"slices"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/tiers/disk"
)

// Bounds of the plan. One large read costs the device and the kernel little
// more than a small one; beyond fetchBytesMax nothing is gained any more, and
// the first block would wait for the last.
const (
	fetchBytesMax = 1 << 20  // of neighbours read together
	gapBytesMax   = 64 << 10 // read and thrown away to join two reads
	fetchSpansMax = 512      // half of what one system call takes
)

// want is a block of a batch on its way to the caller.
type want struct {
	i     int
	parts []Part
	found lookupResult
	// planeBytes are the raw sizes of the planes where the request tells them
	// and they are stored as they are; else nil.
	planeBytes []int64
	// corruptBy is the path whose planned read did not verify.
	corruptBy *ioPath
	settled   bool
	// guarded: some of the caller's memory may go away, see Memory.
	guarded bool
	// changed: other bytes were found in guarded memory than verify.
	changed bool
	// decodedBytes is the memory for the raw bytes of a block that turned out to
	// be compressed when it was to be lent.
	decodedBytes int64
	// whole is, of an alias whose own page is read for a Stat, what the index
	// holds; found has the page in place of it.
	whole *index.Entry
}

// take enters what a lookup found. A Stat reads the header that was written for
// the key, which of an alias is a page of its own.
func (w *want) take(g *getBatch, found lookupResult) {
	w.found, w.whole = found, nil
	if g.heads != nil && found.ok && found.entry.IsAlias() {
		w.whole = &found.entry
		w.found.entry.Extent, w.found.entry.Own = found.entry.Own, index.Extent{}
	}
}

// leaveOwnPage turns from an alias's own page, which does not verify, to the
// header of its bytes: a get needs no more. It reports false for other blocks.
func (w *want) leaveOwnPage() bool {
	if w.whole == nil {
		return false
	}
	w.found.entry, w.whole, w.corruptBy = *w.whole, nil, nil
	return true
}

// fetch is one read of the plan: an extent, neighbours in a segment, or the
// header and some chunks of one extent.
type fetch struct {
	wants []*want // by page
	// from and to are the pages to read of the wants' segment.
	from, to uint32
	// straight: the payload goes into the caller's spans, and is verified
	// there; else it goes through a buffer of the store.
	straight bool
	spans    int // of the caller, with straight
	// pieces, of a fetch of chunks, are what is read of the extent.
	pieces []piece
	runs   []chunkSpan
	// lentBytes, of what is to be lent, is the memory for it. apart: it is more
	// than is read, as the block is decoded where it lies.
	lentBytes int64
	apart     bool
}

// plan turns the blocks into few large reads in the order of the disk. Ranges
// of blocks whose header must be read first to find them are left out.
func (g *getBatch) plan(wants []*want) []*fetch {
	slices.SortStableFunc(wants, func(a, b *want) int { return compareAddress(a.found, b.found) })
	var fetches []*fetch
	for _, w := range wants {
		w.planeBytes = g.n.expectPlanes(w.parts, w.found.entry.RawBytes)
		if payloadBytes(w.planeBytes) != w.payloadBytes() {
			w.planeBytes = nil // compressed, or other planes than expected
		}
		f := g.fetchOf(w)
		if f == nil {
			continue
		}
		if n := len(fetches); n > 0 && fetches[n-1].join(f) {
			continue
		}
		fetches = append(fetches, f)
	}
	return fetches
}

// compareAddress gives the order of the disk.
func compareAddress(a, b lookupResult) int {
	x, y := a.entry.Address, b.entry.Address
	return cmp.Or(cmp.Compare(x.Segment, y.Segment), cmp.Compare(x.Page, y.Page))
}

// payloadBytes is the size of the payload that planes of these sizes have
// where they are stored as they are.
func payloadBytes(planeBytes []int64) (sum int64) {
	for _, n := range planeBytes {
		sum += alignUp(n)
	}
	return sum
}

func (w *want) payloadBytes() int64 {
	e := &w.found.entry
	return int64(e.Pages-uint32(e.HeaderPages)) * disk.PageBytes
}

// expectPlanes is the size of each plane as the request and the layout tell
// it: from a part that is a whole plane, from the layout where it fixes the
// size, or what is left of the block for the only plane. The header has the
// last word.
func (n *Namespace) expectPlanes(parts []Part, rawBytes int64) []int64 {
	sizes := make([]int64, len(n.layout.Planes))
	sum := int64(0)
	for i, p := range n.layout.Planes {
		sizes[i] = p.SizeBytes
		for j := range parts {
			if k, err := n.planeOf(parts[j].Plane); err == nil && k == i && parts[j].whole() && sizes[i] == 0 {
				sizes[i] = spanBytes(parts[j].Spans)
			}
		}
		if sizes[i] == 0 && len(sizes) == 1 {
			sizes[i] = rawBytes
		}
		sum += sizes[i]
	}
	if sum != rawBytes {
		return nil
	}
	return sizes
}

// whole: the part asks for a plane from its beginning to its end.
func (p *Part) whole() bool { return p.OffsetBytes == 0 && p.LengthBytes == 0 }

// fetchOf is the read for one block by itself.
func (g *getBatch) fetchOf(w *want) *fetch {
	e := &w.found.entry
	f := &fetch{wants: []*want{w}, from: e.Address.Page, to: e.Address.Page + e.Pages}
	switch {
	case g.heads != nil:
		f.pieces = []piece{{len: int64(e.HeaderPages) * disk.PageBytes}}
		return f
	case g.lend != nil:
		f.lentBytes, f.apart = w.lentBytes(g.n), w.shrunk()
		return f
	case !g.wantsWhole(w.parts, *e):
		return g.fetchChunks(f, w)
	}
	if g.o.WaitForDevice && w.planeBytes != nil {
		f.spans, f.straight = g.straightSpans(w)
	}
	return f
}

// straightSpans reports whether a device may write the block's planes right
// where the caller wants them, and how many spans that takes: each plane
// wanted once and whole, in memory outside the Go heap, cut at pages only.
func (g *getBatch) straightSpans(w *want) (spans int, ok bool) {
	if len(w.parts) != len(w.planeBytes) {
		return 0, false
	}
	seen := make([]bool, len(w.planeBytes))
	for j := range w.parts {
		p := &w.parts[j]
		i, err := g.n.planeOf(p.Plane)
		if err != nil || seen[i] || p.OffsetBytes != 0 || spanBytes(p.Spans) != w.planeBytes[i] {
			return 0, false
		}
		seen[i] = true
		for at, s := range p.Spans {
			last := at == len(p.Spans)-1
			if len(s) == 0 || !last && len(s)%disk.PageBytes != 0 ||
				!aligned.IsAligned(s, disk.PageBytes) || !g.s.memory.holds(s) {
				return 0, false
			}
		}
		spans += len(p.Spans) + 1
	}
	return spans + 1, true
}

// join takes the next block in the order of the disk into the read, if the
// two are neighbours.
func (f *fetch) join(next *fetch) bool {
	if f.pieces != nil || next.pieces != nil || f.straight != next.straight ||
		f.segment() != next.segment() || next.from < f.to {
		return false
	}
	gap := int64(next.from-f.to) * disk.PageBytes
	total := int64(next.to-f.from) * disk.PageBytes
	if total > fetchBytesMax || gap > gapBytesMax || gap > total/4 || f.spans+next.spans > fetchSpansMax {
		return false
	}
	if gap > 0 && (f.straight || f.lentBytes > 0) {
		return false // there is no place for the bytes between, or it would be lent too
	}
	if f.apart || next.apart {
		return false
	}
	f.to, f.spans = next.to, f.spans+next.spans
	f.lentBytes += next.lentBytes
	f.wants = append(f.wants, next.wants...)
	return true
}

func (f *fetch) segment() uint64 { return f.wants[0].found.entry.Address.Segment }
