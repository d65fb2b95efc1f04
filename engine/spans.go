package engine

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/sums"
	"github.com/sealstone/sealstone/tiers/disk"
)

// chunkSpan is the run of chunks that hold a byte range of a plane.
type chunkSpan struct {
	plane       int
	first, last int   // chunks, last not included
	off, len    int64 // stored bytes in the payload
	skip        int64 // raw bytes from the first chunk's beginning on that are not asked for
	want        int64 // raw bytes asked for
}

// checkGet tests what can be told without the block.
func (n *Namespace) checkGet(k index.Key, parts []Part) error {
	if err := checkHash([]byte(k.Hash)); err != nil {
		return err
	}
	fail := func(format string, args ...any) error {
		return &BlockError{Status: StatusInvalid, Hash: []byte(k.Hash), Offset: -1, Reason: fmt.Sprintf(format, args...)}
	}
	if len(parts) == 0 {
		return fail("no parts: say which planes are wanted, and where to")
	}
	for _, p := range parts {
		if p.OffsetBytes < 0 || p.LengthBytes < 0 {
			return fail("negative range: offset %d, length %d", p.OffsetBytes, p.LengthBytes)
		}
		if _, err := n.planeOf(p.Plane); err != nil {
			return fail("%v", err)
		}
		if p.LengthBytes > 0 && spanBytes(p.Spans) != p.LengthBytes {
			return &BlockError{Status: StatusLengthMismatch, Hash: []byte(k.Hash), Offset: -1,
				Reason: fmt.Sprintf("spans hold %d bytes, the range has %d", spanBytes(p.Spans), p.LengthBytes)}
		}
	}
	return nil
}

func (n *Namespace) planeOf(name string) (int, error) {
	if i, ok := n.planes[name]; ok {
		return i, nil
	}
	if name == "" && len(n.layout.Planes) == 1 {
		return 0, nil
	}
	return 0, fmt.Errorf("plane %q is not in the layout", name)
}

// checkOverlaps refuses blocks whose spans share bytes with one another, or
// with those of another block of the batch: of two blocks read to one place
// each could be called OK and neither be there.
func (g *getBatch) checkOverlaps() {
	type place struct {
		memoryRange
		w *want
	}
	var all []place
	for i := range g.wants {
		w := &g.wants[i]
		for j := range w.parts {
			for _, s := range w.parts[j].Spans {
				if len(s) > 0 {
					all = append(all, place{rangeOf(s), w})
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b place) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.w.i, b.w.i)) })
	for i := 1; i < len(all); i++ {
		far, p := &all[i-1], &all[i] // far reaches furthest of all before
		if p.from < far.to {
			later, reason := p.w, "spans overlap one another"
			if far.w != p.w {
				reason = fmt.Sprintf("spans overlap those of another block of the batch (blocks %d and %d)", far.w.i, p.w.i)
				if far.w.i > p.w.i {
					later = far.w
				}
			}
			if !later.settled {
				g.fail(later, StatusInvalid, reason, nil, false)
			}
		}
		if far.to > p.to {
			*p = *far
		}
	}
}

// locate turns parts into runs of chunks, and checks that the spans add up
// to what is stored.
func (n *Namespace) locate(parts []Part, ext *disk.Extent) ([]chunkSpan, error) {
	out := make([]chunkSpan, len(parts))
	for j, p := range parts {
		i, err := n.planeOf(p.Plane)
		if err != nil || i >= len(ext.Planes) {
			return nil, &BlockError{Status: StatusLayoutMismatch, Offset: -1, Reason: fmt.Sprintf("the stored block has no plane %q", p.Plane)}
		}
		pl := &ext.Planes[i]
		want := p.LengthBytes
		if want == 0 {
			want = pl.RawBytes - p.OffsetBytes
		}
		if have := spanBytes(p.Spans); want <= 0 || p.OffsetBytes > pl.RawBytes-want || have != want {
			return nil, &BlockError{Status: StatusLengthMismatch, Offset: -1,
				Reason: fmt.Sprintf("plane %q holds %d bytes; %d bytes from %d are asked for, the spans hold %d", pl.Name, pl.RawBytes, want, p.OffsetBytes, have)}
		}
		first, last := ext.ChunkRange(i, p.OffsetBytes, want)
		off, length := ext.StoredRange(first, last)
		out[j] = chunkSpan{
			plane: i, first: first, last: last, off: off, len: length,
			skip: p.OffsetBytes % sums.ChunkBytes, want: want,
		}
	}
	return out, nil
}
