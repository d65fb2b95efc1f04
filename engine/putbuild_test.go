package engine

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sealstone/sealstone/engine/layout"
	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/internal/sums"
	"github.com/sealstone/sealstone/tiers/disk"
)

// TestBuildIsTheSeal: however a block's planes are cut into spans, and whatever
// lay in the buffer before, the image has its bytes, its sums and zeros.
func TestBuildIsTheSeal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := &Namespace{s: &Store{builders: make(chan struct{}, rapid.IntRange(1, 4).Draw(t, "workers"))}}
		p := &putBatch{n: n, s: n.s, op: &operation{}}
		items := make([]*putItem, rapid.IntRange(1, 3).Draw(t, "blocks"))
		var planes [][][]byte
		total := 0
		for i := range items {
			items[i] = &putItem{}
			raw := drawPlanes(t)
			planes = append(planes, raw)
			n.layout = layout.Layout{}
			b := &PutBlock{Hash: bytes.Repeat([]byte{1}, 32)}
			for _, r := range raw {
				n.layout.Planes = append(n.layout.Planes, layout.Plane{Name: "p"})
				items[i].planes = append(items[i].planes, PlaneData{Spans: drawSpans(t, r)})
			}
			items[i].img = &image{ext: n.extentOf(b, items[i].planes, 0, 0), begin: total}
			total += items[i].img.ext.Pages() * disk.PageBytes
		}
		buf, err := aligned.Alloc(total)
		if err != nil {
			t.Fatal(err)
		}
		defer buf.Free()
		for i := range buf.Bytes() {
			buf.Bytes()[i] = 0x77
		}
		for _, it := range items {
			it.img.buf = buf
		}
		if err := p.build(items); err != nil {
			t.Fatal(err)
		}
		for i, it := range items {
			checkBuilt(t, it.img, planes[i])
		}
	})
}

func drawPlanes(t *rapid.T) [][]byte {
	out := make([][]byte, rapid.IntRange(1, 3).Draw(t, "planes"))
	for i := range out {
		size := rapid.OneOf(rapid.IntRange(1, 9000), rapid.SampledFrom([]int{
			sums.ChunkBytes, sums.ChunkBytes + 1, buildPieceChunks*sums.ChunkBytes - 1, 2*buildPieceChunks*sums.ChunkBytes + 5,
		})).Draw(t, "size")
		out[i] = contentOf(rapid.IntRange(0, 1000).Draw(t, "content"), i, size+8)[:size]
	}
	return out
}

// drawSpans cuts p into spans, empty ones among them.
func drawSpans(t *rapid.T, p []byte) (spans [][]byte) {
	for len(p) > 0 {
		n := rapid.OneOf(rapid.IntRange(0, min(len(p), 5000)), rapid.Just(len(p))).Draw(t, "span")
		spans, p = append(spans, p[:n]), p[n:]
	}
	return spans
}

func checkBuilt(t *rapid.T, img *image, planes [][]byte) {
	if d := cmp.Diff(SealOf(planes...), *sealOfExtent(&img.ext)); d != "" {
		t.Fatalf("sums (-want +got):\n%s", d)
	}
	want := make([]byte, len(img.payload()))
	for i, p := range planes {
		copy(want[img.ext.Planes[i].OffsetBytes:], p)
	}
	if !bytes.Equal(img.payload(), want) {
		t.Fatal("the payload has other bytes")
	}
}

// TestBuildStopsWhenTheCallerLeaves: nothing of its memory is read any more.
func TestBuildStopsWhenTheCallerLeaves(t *testing.T) {
	n := &Namespace{s: &Store{builders: make(chan struct{}, 2)}, layout: layout.Layout{Planes: []layout.Plane{{Name: "p"}}}}
	p := &putBatch{n: n, s: n.s, op: &operation{}}
	it := &putItem{planes: []PlaneData{{Spans: [][]byte{make([]byte, 10*sums.ChunkBytes)}}}}
	it.img = &image{ext: n.extentOf(&PutBlock{Hash: make([]byte, 32)}, it.planes, 0, 0)}
	p.op.leave(newLane(1, func(bool) {}))
	if err := p.build([]*putItem{it}); err != errAbandonedPut {
		t.Fatalf("built after the caller left: %v", err)
	}
	if len(n.s.builders) != 0 {
		t.Error("a slot is still taken")
	}
}

// builtImage is the image of one block, with room for a header of any codec.
func builtImage(t *rapid.T, planes [][]byte) (*image, *aligned.Buffer) {
	n := &Namespace{s: &Store{builders: make(chan struct{}, 1)}}
	it := &putItem{}
	for _, p := range planes {
		n.layout.Planes = append(n.layout.Planes, layout.Plane{Name: "p"})
		it.planes = append(it.planes, PlaneData{Spans: [][]byte{p}})
	}
	it.img = &image{ext: n.extentOf(&PutBlock{Hash: make([]byte, 32)}, it.planes, 0, 0)}
	buf, err := aligned.Alloc(it.img.roomBytes(disk.CodecS2))
	if err != nil {
		t.Fatal(err)
	}
	p := &putBatch{n: n, s: n.s, op: &operation{}}
	p.newGroup([]*putItem{it}, buf, disk.CodecS2)
	if err := p.build([]*putItem{it}); err != nil {
		t.Fatal(err)
	}
	return it.img, buf
}
