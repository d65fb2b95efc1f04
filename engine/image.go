package engine

import (
	"fmt"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/tiers/disk"
)

// image is a block on its way to a segment: header pages and payload in an
// aligned buffer off the Go heap, which the images of a group share.
type image struct {
	ext   disk.Extent
	buf   *aligned.Buffer
	begin int // where the header begins in buf
	// decided: it was seen to whether the payload is compressed.
	decided bool
}

func (m *image) bytes() []byte {
	return m.buf.Bytes()[m.begin:][:m.ext.Pages()*disk.PageBytes]
}

func (m *image) payload() []byte {
	return m.bytes()[int(m.ext.HeaderPages)*disk.PageBytes:]
}

// free gives the buffer back, of an image that has it alone.
func (m *image) free() { m.buf.Free() }

// aliasOf makes the image an alias of an extent with the same content; with
// nil it is a whole block, again if need be.
func (m *image) aliasOf(target *index.Extent) {
	m.ext.Kind, m.ext.Target = disk.KindFull, disk.Address{}
	if target != nil {
		m.ext.Kind, m.ext.Target = disk.KindAlias, target.Address
	}
	m.ext.Repage()
}

// planesInOrder sorts a block's planes by the layout's order.
func (n *Namespace) planesInOrder(b *PutBlock) ([]PlaneData, error) {
	given := make([]givenPlane, len(b.Planes))
	for i, p := range b.Planes {
		given[i] = givenPlane{p.Name, spanBytes(p.Spans)}
	}
	at, err := n.planeOrder(b.Hash, given)
	if err != nil {
		return nil, err
	}
	out := make([]PlaneData, len(at))
	for i, j := range at {
		out[i] = b.Planes[j]
	}
	return out, nil
}

// givenPlane is a plane of a put: its name and how many bytes it has.
type givenPlane struct {
	name  string
	bytes int64
}

// planeOrder tells for each plane of the layout which of the given ones it is.
func (n *Namespace) planeOrder(hash []byte, given []givenPlane) ([]int, error) {
	fail := func(st Status, format string, args ...any) ([]int, error) {
		return nil, &BlockError{Status: st, Hash: hash, Offset: -1, Reason: fmt.Sprintf(format, args...)}
	}
	if len(given) != len(n.layout.Planes) {
		return fail(StatusLayoutMismatch, "%d planes given, the layout has %d", len(given), len(n.layout.Planes))
	}
	out := make([]int, len(given))
	seen := make([]bool, len(given))
	for j, p := range given {
		i, ok := n.planes[p.name]
		if !ok && p.name == "" && len(given) == 1 {
			i, ok = 0, true
		}
		if !ok || seen[i] {
			return fail(StatusLayoutMismatch, "plane %q is not in the layout, or given twice", p.name)
		}
		seen[i], out[i] = true, j
		if want := n.layout.Planes[i].SizeBytes; want != 0 && want != p.bytes {
			return fail(StatusLengthMismatch, "plane %q has %d bytes, the layout says %d", n.layout.Planes[i].Name, p.bytes, want)
		}
	}
	return out, nil
}

func spanBytes(spans [][]byte) (n int64) {
	for _, s := range spans {
		n += int64(len(s))
	}
	return n
}

// extentOf is the header of a block as far as it is known before its bytes.
func (n *Namespace) extentOf(b *PutBlock, planes []PlaneData, seq uint64, depth uint32) disk.Extent {
	ext := disk.Extent{
		Kind: disk.KindFull, Codec: disk.CodecRaw, StoreUUID: n.s.uuid, Seq: seq,
		Namespace: n.info.Number, Depth: depth, Hash: b.Hash, Parent: b.Parent, PlainKey: b.PlainKey,
	}
	for i, p := range planes {
		ext.Planes = append(ext.Planes, disk.Plane{Name: n.layout.Planes[i].Name, RawBytes: spanBytes(p.Spans)})
	}
	ext.Layout()
	return ext
}

// spanReader copies from a list of spans.
type spanReader struct {
	spans [][]byte // a copy of the list: read consumes it
}

// skip passes over n bytes.
func (r *spanReader) skip(n int64) {
	for n > 0 && len(r.spans) > 0 {
		if k := int64(len(r.spans[0])); n >= k {
			r.spans, n = r.spans[1:], n-k
			continue
		}
		r.spans[0], n = r.spans[0][n:], 0
	}
}

func (r *spanReader) read(dst []byte) {
	for len(dst) > 0 && len(r.spans) > 0 {
		n := copy(dst, r.spans[0])
		dst = dst[n:]
		if n == len(r.spans[0]) {
			r.spans = r.spans[1:]
		} else {
			r.spans[0] = r.spans[0][n:]
		}
	}
}

// checkSeal compares with the seal that the source took.
func (m *image) checkSeal(b *PutBlock) error {
	if b.Seal == nil {
		return nil
	}
	fail := func(st Status, format string, args ...any) error {
		return &BlockError{Status: st, Hash: b.Hash, Offset: -1, Reason: fmt.Sprintf(format, args...)}
	}
	if len(b.Seal.PlaneBytes) != len(m.ext.Planes) || len(b.Seal.ChunkSums) != len(m.ext.Chunks) {
		return fail(StatusLengthMismatch, "seal of %d planes and %d chunks, the block has %d and %d",
			len(b.Seal.PlaneBytes), len(b.Seal.ChunkSums), len(m.ext.Planes), len(m.ext.Chunks))
	}
	for i, n := range b.Seal.PlaneBytes {
		if n != m.ext.Planes[i].RawBytes {
			return fail(StatusLengthMismatch, "seal says %d bytes of plane %q, the block has %d", n, m.ext.Planes[i].Name, m.ext.Planes[i].RawBytes)
		}
	}
	for i, sum := range b.Seal.ChunkSums {
		if sum != m.ext.Chunks[i].RawSum {
			return fail(StatusCorrupt, "chunk %d does not match the source's seal: the bytes changed on their way", i)
		}
	}
	if b.Seal.ContentID != m.ext.ContentID {
		return fail(StatusCorrupt, "content id does not match the source's seal")
	}
	return nil
}

// sealOfExtent is the seal as the header has it.
func sealOfExtent(e *disk.Extent) *Seal {
	s := &Seal{ContentID: e.ContentID}
	for i := range e.Planes {
		s.PlaneBytes = append(s.PlaneBytes, e.Planes[i].RawBytes)
	}
	for i := range e.Chunks {
		s.ChunkSums = append(s.ChunkSums, e.Chunks[i].RawSum)
	}
	return s
}
