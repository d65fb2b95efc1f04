package sums

import "github.com/cespare/xxhash/v2"

// ChunkBytes is the unit of verification: a plane is cut into chunks of this
// many bytes, the last one shorter. It is fixed by the format.
const ChunkBytes = 64 << 10

// Chunk returns the chunk sum of p, which is XXH64 with seed 0 of the bytes
// as they are. A chunk has 1 to [ChunkBytes] bytes; other lengths are hashed
// all the same.
func Chunk(p []byte) uint64 { return xxhash.Sum64(p) }

// Chunks appends the chunk sums of plane, in order, to dst. An empty plane
// has no chunks.
func Chunks(dst []uint64, plane []byte) []uint64 {
	for len(plane) > ChunkBytes {
		dst = append(dst, Chunk(plane[:ChunkBytes]))
		plane = plane[ChunkBytes:]
	}
	if len(plane) > 0 {
		dst = append(dst, Chunk(plane))
	}
	return dst
}

// ChunkCount returns how many chunks a plane of rawLen bytes has; 0 for an
// empty plane and for a negative length.
func ChunkCount(rawLen int64) int {
	if rawLen <= 0 {
		return 0
	}
	return int((rawLen-1)/ChunkBytes + 1)
}

// ChunkOver is Chunk of the bytes of spans taken as one. It does not allocate.
func ChunkOver(spans [][]byte) uint64 {
	if len(spans) == 1 {
		return Chunk(spans[0])
	}
	var d xxhash.Digest
	d.Reset()
	for _, s := range spans {
		_, _ = d.Write(s) // never fails
	}
	return d.Sum64()
}
