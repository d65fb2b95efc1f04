package engine

import (
	"bytes"
	"errors"
	"testing"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/engine/layout"
	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
	"pgregory.net/rapid"
)

// decodeCase is a compressed extent in memory, and the bytes it was made of.
type decodeCase struct {
	ext    disk.Extent
	stored []byte
	planes [][]byte
}

// drawCase compresses planes of any sizes, as a put does; without a chunk that
// gets shorter it stays raw.
func drawCase(t *rapid.T) (c decodeCase, compressed bool) {
	img := &image{ext: disk.Extent{Kind: disk.KindFull, Hash: hashOf(1)}}
	for i := range rapid.IntRange(1, 4).Draw(t, "planes") {
		size := rapid.SampledFrom([]int{1, 4095, 4096, 4097, 5000, 65535, 65536, 65537, 70000, 131072, 200000}).Draw(t, "size")
		p := viewContent(rapid.IntRange(0, 3).Draw(t, "kind")+4*i, i, size)
		c.planes = append(c.planes, p)
		img.ext.Planes = append(img.ext.Planes, disk.Plane{Name: string(rune('a' + i)), RawBytes: int64(size)})
	}
	img.ext.Layout()
	buf, err := aligned.Alloc((img.ext.Pages() + 1) * disk.PageBytes)
	if err != nil {
		t.Fatal(err)
	}
	defer buf.Free()
	img.buf, img.begin = buf, disk.PageBytes
	it := &putItem{img: img}
	for _, p := range c.planes {
		it.planes = append(it.planes, PlaneData{Spans: [][]byte{p}})
	}
	for _, piece := range it.pieces() {
		piece.fill()
	}
	img.finish()
	codec := rapid.SampledFrom([]uint8{disk.CodecS2, disk.CodecZstd}).Draw(t, "codec")
	img.compress(codec, make([]byte, 0, disk.EncodeRoomBytes))
	c.ext, c.stored = img.ext, bytes.Clone(img.payload())
	return c, img.ext.Codec != disk.CodecRaw
}

// room is memory of a size with the stored bytes at its beginning.
func (c *decodeCase) room(size int64) []byte {
	out := bytes.Repeat([]byte{0xa5}, int(max(size, int64(len(c.stored)))))
	copy(out, c.stored)
	return out[:size]
}

// TestDecodeInPlace: stored bytes become raw ones where they lie, whatever the
// planes, and nothing behind them is touched; one damaged byte of any chunk, or
// a wrong sum of its raw bytes, is noticed.
func TestDecodeInPlace(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	defer mustClose(t, s)
	g := &getBatch{s: s}
	rapid.Check(t, func(rt *rapid.T) {
		c, compressed := drawCase(rt)
		if !compressed {
			return
		}
		need := rawPlaces(&c.ext).bytes
		w := &want{found: lookupResult{entry: index.Entry{RawBytes: c.ext.RawBytes()}}}
		more := int64(rapid.IntRange(0, 2).Draw(rt, "more")) * disk.PageBytes
		p := c.room(need + more)
		if err := g.decodeInPlace(w, &c.ext, p); err != nil {
			rt.Fatal(err)
		}
		at := int64(0)
		for i, plane := range c.planes {
			if !bytes.Equal(p[at:][:len(plane)], plane) {
				rt.Fatalf("plane %d: WRONG BYTES", i)
			}
			at += alignUp(int64(len(plane)))
		}
		if !untouched(p[max(need, int64(len(c.stored))):]) {
			rt.Fatal("memory behind the block was written")
		}
		c.refuses(rt, g, w, need)
	})
}

// refuses damages what was decoded well.
func (c *decodeCase) refuses(t *rapid.T, g *getBatch, w *want, need int64) {
	i := rapid.IntRange(0, len(c.ext.Chunks)-1).Draw(t, "chunk")
	off, n := c.ext.StoredSpan(i)
	p := c.room(need)
	p[off+int64(rapid.IntRange(0, n-1).Draw(t, "byte"))] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
	if err := g.decodeInPlace(w, &c.ext, p); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("a damaged byte of chunk %d: %v", i, err)
	}
	c.ext.Chunks[i].RawSum ^= 1
	if err := g.decodeInPlace(w, &c.ext, c.room(need)); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("a wrong raw sum of chunk %d: %v", i, err)
	}
	c.ext.Chunks[i].RawSum ^= 1
	if short := need - disk.PageBytes; short >= int64(len(c.stored)) {
		if err := g.decodeInPlace(w, &c.ext, c.room(short)); !errors.Is(err, errNeedsRoom) || w.decodedBytes != need {
			t.Fatalf("a page too little: %v, %d bytes wanted of %d", err, w.decodedBytes, need)
		}
	}
}

// TestLentBytesSuffice: what is taken for a block that is certain to be
// compressed holds its raw bytes, whatever its planes.
func TestLentBytesSuffice(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c, _ := drawCase(rt)
		n := &Namespace{}
		n.layout.Planes = make([]layout.Plane, len(c.planes))
		w := &want{found: lookupResult{entry: index.Entry{RawBytes: c.ext.RawBytes(), Extent: index.Extent{
			HeaderPages: c.ext.HeaderPages, Pages: uint32(c.ext.Pages()),
		}}}}
		got, head := w.lentBytes(n), int64(c.ext.HeaderPages)*disk.PageBytes
		if got < int64(c.ext.Pages())*disk.PageBytes {
			rt.Fatalf("%d bytes for an extent of %d pages", got, c.ext.Pages())
		}
		if need := head + rawPlaces(&c.ext).bytes; w.shrunk() && got < need {
			rt.Fatalf("%d bytes, %d are needed", got, need)
		}
		w.decodedBytes = rawPlaces(&c.ext).bytes
		if need := max(head+w.decodedBytes, int64(c.ext.Pages())*disk.PageBytes); w.lentBytes(n) != need {
			rt.Fatalf("%d bytes once the size is known, want %d", w.lentBytes(n), need)
		}
	})
}
