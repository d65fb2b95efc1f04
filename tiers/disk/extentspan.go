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
// length too, else Chunks[i].StoredBytes is. An index out of range gives
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

// PayloadSpanPages returns the pages that the planes take in a payload: for a
// full extent its own, for an alias its target's.
func (e *Extent) PayloadSpanPages() int {
	if len(e.Planes) == 0 {
		return 0
	}
	last := &e.Planes[len(e.Planes)-1]
	return int(pages(last.OffsetBytes + last.StoredBytes))
}
