package disk

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sealstone/sealstone/internal/sums"
)

// The spans of all chunks, in order, tile the planes: nothing is left out or
// covered twice, no chunk crosses a plane, and each plane begins on a page.
func TestChunkSpansTileThePlanes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := genExtent(t)
		next := 0
		for p := range e.Planes {
			pl := &e.Planes[p]
			off, raw := pl.OffsetBytes, int64(0)
			if off%PageBytes != 0 {
				t.Fatalf("plane %d at %d", p, off)
			}
			for ; raw < pl.RawBytes; next++ {
				plane, gotOff, rawLen := e.ChunkSpan(next)
				if plane != p || gotOff != off || int64(rawLen) != min(sums.ChunkBytes, pl.RawBytes-raw) {
					t.Fatalf("chunk %d: plane %d offset %d length %d, want plane %d offset %d", next, plane, gotOff, rawLen, p, off)
				}
				raw += int64(rawLen)
				storedOff, storedLen := e.StoredSpan(next)
				if want := e.storedLen(next, rawLen); storedOff != off || storedLen != want {
					t.Fatalf("chunk %d: %d stored bytes at %d, want %d at %d", next, storedLen, storedOff, want, off)
				}
				off += int64(storedLen)
			}
			if off != pl.OffsetBytes+pl.StoredBytes {
				t.Fatalf("plane %d ends at %d, its chunks at %d", p, pl.OffsetBytes+pl.StoredBytes, off)
			}
		}
		if next != len(e.Chunks) {
			t.Fatalf("%d chunks have a span, %d exist", next, len(e.Chunks))
		}
		if e.Kind == KindFull && e.PayloadSpanPages() != int(e.PayloadPages) {
			t.Fatalf("%d pages of planes, %d of payload", e.PayloadSpanPages(), e.PayloadPages)
		}
	})
}

// EachChunk and StoredRange say of any run of chunks what ChunkSpan and
// StoredSpan say of each.
func TestEachChunkAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := genExtent(t)
		first := rapid.IntRange(-1, len(e.Chunks)).Draw(t, "first")
		last := rapid.IntRange(-1, len(e.Chunks)+1).Draw(t, "last")
		stop := rapid.IntRange(1, len(e.Chunks)+1).Draw(t, "stop")
		want := max(first, 0)
		e.EachChunk(first, last, func(c StoredChunk) bool {
			plane, off, rawLen := e.ChunkSpan(want)
			_, storedLen := e.StoredSpan(want)
			nextPlane, _, _ := e.ChunkSpan(want + 1)
			if c.Index != want || c.Plane != plane || c.PayloadOff != off || c.RawLen != rawLen || c.StoredLen != storedLen || c.EndsPlane != (nextPlane != plane) {
				t.Fatalf("chunk %d: %+v, want plane %d, %d stored bytes at %d, %d raw", want, c, plane, storedLen, off, rawLen)
			}
			if a, b := e.ChunkRange(plane, c.PlaneOff, int64(c.RawLen)); a != want || b != want+1 {
				t.Fatalf("chunk %d: at %d of its plane, which is chunks %d to %d", want, c.PlaneOff, a, b)
			}
			want++
			return want < stop
		})
		if end := max(first, 0); want != max(end, min(last, len(e.Chunks), max(stop, end+1))) {
			t.Fatalf("chunks %d to %d of %d, stop at %d: ended at %d", first, last, len(e.Chunks), stop, want)
		}
		off, n := e.StoredRange(first, last)
		if first < 0 || first >= last || last > len(e.Chunks) {
			if n != 0 {
				t.Fatalf("chunks %d to %d of %d have %d stored bytes", first, last, len(e.Chunks), n)
			}
			return
		}
		begin, _ := e.StoredSpan(first)
		end, endLen := e.StoredSpan(last - 1)
		if off != begin || n != end+int64(endLen)-begin {
			t.Fatalf("chunks %d to %d: %d bytes at %d, want from %d to %d", first, last, n, off, begin, end+int64(endLen))
		}
	})
}

// ChunkRange names exactly the chunks that share a byte with the range.
func TestChunkRangeIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := genExtent(t)
		plane := rapid.IntRange(0, len(e.Planes)-1).Draw(t, "plane")
		off := rapid.Int64Range(0, e.Planes[plane].RawBytes).Draw(t, "off")
		n := rapid.Int64Range(0, e.Planes[plane].RawBytes-off).Draw(t, "n")
		first, last := e.ChunkRange(plane, off, n)
		inPlane := int64(0) // raw offset in the plane of chunk i
		for i := range e.Chunks {
			p, _, rawLen := e.ChunkSpan(i)
			if p != plane {
				if i >= first && i < last {
					t.Fatalf("range %d..%d has chunk %d of plane %d", first, last, i, p)
				}
				continue
			}
			touches := n > 0 && inPlane < off+n && off < inPlane+int64(rawLen)
			if touches != (i >= first && i < last) {
				t.Fatalf("plane %d, %d bytes from %d: range %d..%d, chunk %d touches: %v", plane, n, off, first, last, i, touches)
			}
			inPlane += int64(rawLen)
		}
	})
}

func TestChunkRangeAndSpan(t *testing.T) {
	e := testExtent() // planes of 3, 0 and 1 chunks
	for _, tc := range []struct {
		plane       int
		off, n      int64
		first, last int
	}{
		{0, 0, 1, 0, 1},
		{0, 0, 2*sums.ChunkBytes + 5, 0, 3},
		{0, sums.ChunkBytes - 1, 2, 0, 2},
		{0, sums.ChunkBytes, sums.ChunkBytes, 1, 2},
		{2, 0, 1, 3, 4},
		{0, 0, 0, 0, 0},
		{1, 0, 0, 0, 0},
		{1, 0, 1, 0, 0},
		{0, 0, 2*sums.ChunkBytes + 6, 0, 0},
		{0, 1, 1<<63 - 1, 0, 0},
		{0, 1<<63 - 1, 1, 0, 0},
		{0, -1, 1, 0, 0},
		{-1, 0, 1, 0, 0},
		{3, 0, 1, 0, 0},
	} {
		if first, last := e.ChunkRange(tc.plane, tc.off, tc.n); first != tc.first || last != tc.last {
			t.Errorf("ChunkRange(%d, %d, %d) = %d, %d, want %d, %d", tc.plane, tc.off, tc.n, first, last, tc.first, tc.last)
		}
	}
	for _, i := range []int{-1, 4} {
		if plane, _, _ := e.ChunkSpan(i); plane != -1 {
			t.Errorf("ChunkSpan(%d) is in plane %d", i, plane)
		}
	}
	if plane, off, n := e.ChunkSpan(3); plane != 2 || off != 33*PageBytes || n != 1 {
		t.Errorf("ChunkSpan(3) = %d, %d, %d", plane, off, n)
	}
	if n := (&Extent{}).PayloadSpanPages(); n != 0 {
		t.Errorf("no planes take %d pages", n)
	}
}
