package engine

import (
	"cmp"
	"slices"

	"github.com/sealstone/sealstone/tiers/disk"
)

// piece is a run of pages of one extent, and where it lies in the buffer that
// it is read into. All in bytes, from the beginning of the extent.
type piece struct{ off, len, at int64 }

// fetchChunks makes f the read of a header and of the chunks that hold the
// parts, or nil if the parts do not fit the planes: then the header is read
// first and has its say.
func (g *getBatch) fetchChunks(f *fetch, w *want) *fetch {
	if w.planeBytes == nil {
		return nil
	}
	e := &w.found.entry
	runs, err := locateParts(g.n, w.parts, g.n.expectExtent(w.planeBytes))
	if err != nil {
		return nil
	}
	head := int64(e.HeaderPages) * disk.PageBytes
	pieces := []piece{{off: 0, len: head}}
	for _, r := range runs {
		pieces = append(pieces, piece{off: head + r.off, len: alignUp(r.len)})
	}
	f.pieces, f.runs = joinPieces(pieces), runs
	return f
}

// joinPieces sorts pieces, joins neighbours, and places them in one buffer.
func joinPieces(pieces []piece) []piece {
	slices.SortFunc(pieces, func(a, b piece) int { return cmp.Compare(a.off, b.off) })
	out := pieces[:1]
	for _, p := range pieces[1:] {
		last := &out[len(out)-1]
		if p.off-(last.off+last.len) <= gapBytesMax {
			last.len = max(last.len, p.off+p.len-last.off)
			continue
		}
		out = append(out, p)
	}
	at := int64(0)
	for i := range out {
		out[i].at = at
		at += out[i].len
	}
	return out
}

// piecesBytes is the buffer that all pieces take.
func (f *fetch) piecesBytes() int64 {
	last := f.pieces[len(f.pieces)-1]
	return last.at + last.len
}

// within returns the bytes [off, off+n) of the extent from the buffer.
func (f *fetch) within(buf []byte, off, n int64) []byte {
	for _, p := range f.pieces {
		if off >= p.off && off+n <= p.off+p.len {
			return buf[p.at+off-p.off:][:n:n]
		}
	}
	return nil // the plan has a piece for each run
}
