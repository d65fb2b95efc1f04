package disk

import (
	"math/rand/v2"
	"testing"

	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/internal/sums"
)

var testCodecs = map[string]uint8{"raw": CodecRaw, "zstd": CodecZstd, "s2": CodecS2}

// mixedBytes returns n bytes of which the given share, from 0 to 1, is noise:
// with 1 no codec makes them shorter.
func mixedBytes(seed uint64, n int, noise float64) []byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	p := make([]byte, n)
	for i := range p {
		if rng.Float64() < noise {
			p[i] = byte(rng.Uint32())
		} else {
			p[i] = byte(i >> 5)
		}
	}
	return p
}

// encodeChunk stores one chunk as a writer does.
func encodeChunk(raw []byte, codec uint8) (stored []byte, c Chunk) {
	c.RawSum = sums.Chunk(raw)
	if codec == CodecRaw {
		return raw, c
	}
	stored = EncodeChunk(make([]byte, 0, EncodeRoomBytes), raw, codec)
	if stored == nil {
		stored = raw
	}
	c.StoredBytes, c.StoredSum = uint32(len(stored)), sums.Chunk(stored)
	return stored, c
}

// compressedImage lays out and fills the extent of planes with a codec. The
// address must stand before the header is encoded: see sealImage.
func compressedImage(t testing.TB, e *Extent, planes [][]byte, codec uint8) *aligned.Buffer {
	t.Helper()
	var stored [][]byte
	e.Chunks = e.Chunks[:0]
	for _, p := range planes {
		var all []byte
		for ; len(p) > 0; p = p[min(len(p), sums.ChunkBytes):] {
			s, c := encodeChunk(p[:min(len(p), sums.ChunkBytes)], codec)
			all = append(all, s...)
			e.Chunks = append(e.Chunks, c)
		}
		stored = append(stored, all)
	}
	if codec == CodecRaw {
		e.Layout()
	} else {
		e.LayoutStored(codec)
	}
	buf, err := aligned.Alloc(e.Pages() * PageBytes)
	must(t, err)
	payload := buf.Bytes()[int(e.HeaderPages)*PageBytes:]
	for i := range stored {
		copy(payload[e.Planes[i].OffsetBytes:], stored[i])
	}
	return buf
}

// mustPutCompressed appends a block that half compresses.
func mustPutCompressed(t testing.TB, w *Writer, seqNo uint64, codec uint8, planeLens ...int) (FooterEntry, *Extent) {
	t.Helper()
	planes := make([][]byte, len(planeLens))
	for i, n := range planeLens {
		planes[i] = mixedBytes(seqNo+uint64(i), n, 0.3)
	}
	e := extentOf(seqNo, planes)
	buf := compressedImage(t, e, planes, codec)
	defer buf.Free()
	page, ok := w.Reserve(e.Pages(), FooterEntryBytes(len(e.Hash), len(e.Parent)))
	if !ok {
		t.Fatal("the segment is full")
	}
	e.Address = Address{w.ID(), page}
	sum, err := EncodeExtent(buf.Bytes()[:int(e.HeaderPages)*PageBytes], e, testKey)
	must(t, err)
	must(t, w.WriteAt(page, buf.Bytes()))
	entry := EntryOf(e, sum)
	must(t, w.Done(page, &entry))
	return entry, e
}
