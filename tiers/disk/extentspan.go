package disk

import (
	"github.com/sealstone/sealstone/internal/sums"
)

// ChunkRange returns the chunks that hold n raw bytes from offset off of a
// plane, as indices into Chunks: first up to, not including, last. An empty
// or impossible range, or a plane that does not exist, has none: first = last.
func (e *Extent) ChunkRange(plane int, off, n int64) (first, last int) {
	if plane < 0 || plane >= len(e.Planes) || off < 0 || n <= 0 || n > e.Planes[plane].RawBytes-off {
		return 0, 0
	}
	base := 0
	for i := range e.Planes[:plane] {
		base += sums.ChunkCount(e.Planes[i].RawBytes)
	}
	return base + int(off/sums.ChunkBytes), base + sums.ChunkCount(off+n)
}

// ChunkSpan returns where chunk i is: its plane, the offset of its stored
// bytes in the payload, and its raw length. With CodecRaw that is its stored
// length too; StoredSpan gives it with any codec. An index out of range gives
// plane -1.
func (e *Extent) ChunkSpan(i int) (plane int, payloadOff int64, rawLen int) {
	if i < 0 {
		return -1, 0, 0
	}
	first := 0
	for p := range e.Planes {
		pl := &e.Planes[p]
		n := sums.ChunkCount(pl.RawBytes)
		if i >= first+n {
			first += n
			continue
		}
		begin := int64(i-first) * sums.ChunkBytes
		rawLen = int(min(sums.ChunkBytes, pl.RawBytes-begin))
		if e.Codec == CodecRaw {
			return p, pl.OffsetBytes + begin, rawLen
		}
		off := pl.OffsetBytes
		for _, c := range e.Chunks[first:i] {
			off += int64(c.StoredBytes)
		}
		return p, off, rawLen
	}
	return -1, 0, 0
}

// StoredSpan returns where the stored bytes of chunk i are in the payload, and
// how many; length 0 for an index out of range.
func (e *Extent) StoredSpan(i int) (payloadOff int64, storedLen int) {
	plane, payloadOff, rawLen := e.ChunkSpan(i)
	if plane < 0 || i >= len(e.Chunks) {
		return 0, 0
	}
	return payloadOff, e.storedLen(i, rawLen)
}

func (e *Extent) storedLen(i, rawLen int) int {
	if e.Codec == CodecRaw {
		return rawLen
	}
	return int(e.Chunks[i].StoredBytes)
}

// StoredRange returns the part of the payload that holds the stored bytes of
// the chunks from first up to, not including, last, with the zeros between
// planes where it has several. An empty range, or one that has a chunk that
// does not exist, has length 0.
func (e *Extent) StoredRange(first, last int) (payloadOff, n int64) {
	if first < 0 || first >= last {
		return 0, 0
	}
	begin, firstLen := e.StoredSpan(first)
	end, lastLen := e.StoredSpan(last - 1)
	if firstLen == 0 || lastLen == 0 {
		return 0, 0
	}
	return begin, end + int64(lastLen) - begin
}

// StoredChunk is a chunk with its place, as EachChunk gives it.
type StoredChunk struct {
	Index, Plane int
	PayloadOff   int64 // of the stored bytes in the payload
	StoredLen    int
	PlaneOff     int64 // of the raw bytes in the plane
	RawLen       int
	EndsPlane    bool // the last one of its plane: zeros to the page follow
}

// EachChunk calls fn with the chunks from first up to, not including, last,
// in order, until fn returns false. Chunks that do not exist are left out. It
// takes one walk over the table, where StoredSpan takes one for each chunk.
func (e *Extent) EachChunk(first, last int, fn func(c StoredChunk) bool) {
	i := 0
	for p := range e.Planes {
		pl := &e.Planes[p]
		off := pl.OffsetBytes
		for raw := int64(0); raw < pl.RawBytes && i < min(last, len(e.Chunks)); i++ {
			c := StoredChunk{Index: i, Plane: p, PayloadOff: off, PlaneOff: raw, RawLen: int(min(sums.ChunkBytes, pl.RawBytes-raw))}
			c.StoredLen = e.storedLen(i, c.RawLen)
			raw += int64(c.RawLen)
			off += int64(c.StoredLen)
			c.EndsPlane = raw == pl.RawBytes
			if i >= first && !fn(c) {
				return
			}
		}
	}
}

// PayloadSpanPages returns the pages that the planes take in a payload: for a
// full extent its own, for an alias its target's.
func (e *Extent) PayloadSpanPages() int {
	if len(e.Planes) == 0 {
		return 0
	}
	last := &e.Planes[len(e.Planes)-1]
	return int(pages(last.OffsetBytes + last.StoredBytes))
}
