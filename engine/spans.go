package engine

import (
	"fmt"
	"unsafe"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/tiers/disk"
)

// chunkSpan is the run of chunks that hold a byte range of a plane.
type chunkSpan struct {
	first, last int   // chunks, last not included
	off, len    int64 // bytes in the payload
	skip        int64 // from off to the first byte asked for
	want        int64 // bytes asked for
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
	var all [][]byte
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
		all = append(all, p.Spans...)
	}
	if overlap(all) {
		return fail("spans overlap one another")
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

// overlap reports whether two spans share a byte. The lists are short.
func overlap(spans [][]byte) bool {
	for i, a := range spans {
		for _, b := range spans[:i] {
			if len(a) == 0 || len(b) == 0 {
				continue
			}
			pa, pb := uintptr(unsafe.Pointer(&a[0])), uintptr(unsafe.Pointer(&b[0]))
			if pa < pb+uintptr(len(b)) && pb < pa+uintptr(len(a)) {
				return true
			}
		}
	}
	return false
}

// locate turns parts into runs of chunks, and checks that the spans add up
// to what is stored.
func (n *Namespace) locate(k index.Key, parts []Part, ext *disk.Extent) ([]chunkSpan, error) {
	out := make([]chunkSpan, len(parts))
	for j, p := range parts {
		i, err := n.planeOf(p.Plane)
		if err != nil || i >= len(ext.Planes) {
			return nil, &BlockError{Status: StatusLayoutMismatch, Hash: []byte(k.Hash), Offset: -1, Reason: fmt.Sprintf("the stored block has no plane %q", p.Plane)}
		}
		pl := &ext.Planes[i]
		want := p.LengthBytes
		if want == 0 {
			want = pl.RawBytes - p.OffsetBytes
		}
		if have := spanBytes(p.Spans); want <= 0 || p.OffsetBytes > pl.RawBytes-want || have != want {
			return nil, &BlockError{Status: StatusLengthMismatch, Hash: []byte(k.Hash), Offset: -1,
				Reason: fmt.Sprintf("plane %q holds %d bytes; %d bytes from %d are asked for, the spans hold %d", pl.Name, pl.RawBytes, want, p.OffsetBytes, have)}
		}
		first, last := ext.ChunkRange(i, p.OffsetBytes, want)
		_, begin, _ := ext.ChunkSpan(first)
		_, lastOff, lastLen := ext.ChunkSpan(last - 1)
		out[j] = chunkSpan{
			first: first, last: last, off: begin, len: lastOff + int64(lastLen) - begin,
			skip: pl.OffsetBytes + p.OffsetBytes - begin, want: want,
		}
	}
	return out, nil
}

// deliver copies verified bytes to the caller, and with that settles the
// block. payload is the whole payload, or bufs hold a part's chunks each.
func (g *getBatch) deliver(i int, k index.Key, parts []Part, e index.Entry, ext *disk.Extent, payload []byte, bufs [][]byte, verified int64) error {
	spans, err := g.n.locate(k, parts, ext)
	if err != nil {
		return err
	}
	r := GetResult{Status: StatusOK, VerifiedBytes: verified}
	if g.o.WantSeal {
		r.Seal = sealOfExtent(ext)
	}
	g.s.used.mark(e.Address)
	g.s.o.private.points("get:verified")
	if !g.op.enter() {
		return nil // the caller has its answer: Timeout
	}
	defer g.op.exit()
	for j, sp := range spans {
		src := payload
		if bufs != nil {
			src = bufs[j][sp.skip : sp.skip+sp.want]
		} else {
			src = src[sp.off+sp.skip : sp.off+sp.skip+sp.want]
		}
		for _, dst := range parts[j].Spans {
			src = src[copy(dst, src):]
		}
		r.Bytes += sp.want
	}
	g.out[i] = r
	return nil
}
