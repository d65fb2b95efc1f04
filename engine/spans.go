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

// askedPart is a [Part] or a [DevicePart] without its spans: room is what they
// hold.
type askedPart struct {
	plane                string
	offset, length, room int64
}

func (p *Part) asked() askedPart {
	return askedPart{p.Plane, p.OffsetBytes, p.LengthBytes, spanBytes(p.Spans)}
}

// askedFor is implemented by what asks for a part of a plane.
type askedFor[T any] interface {
	*T
	asked() askedPart
}

// checkGet tests what can be told without the block.
func checkGet[T any, P askedFor[T]](n *Namespace, k index.Key, parts []T) error {
	if err := checkHash([]byte(k.Hash)); err != nil {
		return err
	}
	fail := func(format string, args ...any) error {
		return &BlockError{Status: StatusInvalid, Hash: []byte(k.Hash), Offset: -1, Reason: fmt.Sprintf(format, args...)}
	}
	if len(parts) == 0 {
		return fail("no parts: say which planes are wanted, and where to")
	}
	for i := range parts {
		p := P(&parts[i]).asked()
		if p.offset < 0 || p.length < 0 {
			return fail("negative range: offset %d, length %d", p.offset, p.length)
		}
		if _, err := n.planeOf(p.plane); err != nil {
			return fail("%v", err)
		}
		if p.length > 0 && p.room != p.length {
			return &BlockError{Status: StatusLengthMismatch, Hash: []byte(k.Hash), Offset: -1,
				Reason: fmt.Sprintf("spans hold %d bytes, the range has %d", p.room, p.length)}
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

// destination is a run of bytes that block i of a batch is read to, in memory
// of one kind.
type destination struct {
	from, to uint64
	i        int
}

// checkOverlaps refuses blocks whose spans share bytes with one another, or
// with those of another block of the batch: of two blocks read to one place
// each could be called OK and neither be there.
func (g *getBatch) checkOverlaps() {
	var all []destination
	for i := range g.wants {
		for _, p := range g.wants[i].parts {
			for _, s := range p.Spans {
				if r := rangeOf(s); len(s) > 0 {
					all = append(all, destination{uint64(r.from), uint64(r.to), i})
				}
			}
		}
	}
	eachOverlap(all, func(i int, reason string) {
		if w := &g.wants[i]; !w.settled {
			g.fail(w, StatusInvalid, reason, nil, false)
		}
	})
}

// eachOverlap sorts destinations and calls refuse for each that shares bytes
// with one before it: of two blocks for the later one.
func eachOverlap(all []destination, refuse func(i int, reason string)) {
	slices.SortFunc(all, func(a, b destination) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.i, b.i)) })
	for i := 1; i < len(all); i++ {
		far, d := &all[i-1], &all[i] // far reaches furthest of all before
		if d.from < far.to {
			reason := "spans overlap one another"
			if far.i != d.i {
				reason = fmt.Sprintf("spans overlap those of another block of the batch (blocks %d and %d)", far.i, d.i)
			}
			refuse(max(far.i, d.i), reason)
		}
		if far.to > d.to {
			*d = *far
		}
	}
}

// locateParts turns parts into runs of chunks, and checks that the spans add
// up to what is stored.
func locateParts[T any, P askedFor[T]](n *Namespace, parts []T, ext *disk.Extent) ([]chunkSpan, error) {
	out := make([]chunkSpan, len(parts))
	for j := range parts {
		p := P(&parts[j]).asked()
		i, err := n.planeOf(p.plane)
		if err != nil || i >= len(ext.Planes) {
			return nil, &BlockError{Status: StatusLayoutMismatch, Offset: -1, Reason: fmt.Sprintf("the stored block has no plane %q", p.plane)}
		}
		pl := &ext.Planes[i]
		want := p.length
		if want == 0 {
			want = pl.RawBytes - p.offset
		}
		if want <= 0 || p.offset > pl.RawBytes-want || p.room != want {
			return nil, &BlockError{Status: StatusLengthMismatch, Offset: -1,
				Reason: fmt.Sprintf("plane %q holds %d bytes; %d bytes from %d are asked for, the spans hold %d", pl.Name, pl.RawBytes, want, p.offset, p.room)}
		}
		first, last := ext.ChunkRange(i, p.offset, want)
		off, length := ext.StoredRange(first, last)
		out[j] = chunkSpan{
			plane: i, first: first, last: last, off: off, len: length,
			skip: p.offset % sums.ChunkBytes, want: want,
		}
	}
	return out, nil
}
