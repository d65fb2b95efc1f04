package kernel

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/sealstone/sealstone/internal/sums"
)

// vector is a piece whose outcome is known.
type vector struct {
	offset int // in the arena
	length int
	want   uint64
	sum    uint64 // what the kernel must compute
}

// match says whether the kernel must find the wanted sum.
func (v vector) match() bool { return v.want == v.sum }

// vectorGap lies between two vectors: no word and no stripe of one reaches into
// the next.
const vectorGap = 64

// vectorLengths are those where the code takes another way: up to two stripes
// every one, then around a stripe, around as many stripes as are loaded ahead
// (512 bytes), around a page and a chunk.
func vectorLengths() []int {
	var lengths []int
	for n := 1; n <= 64; n++ {
		lengths = append(lengths, n)
	}
	return append(lengths, 95, 96, 97, 511, 512, 513, 543, 544, 1023, 1024, 1025,
		4<<10-1, 4<<10, 4<<10+1, sums.ChunkBytes-512, sums.ChunkBytes-1, sums.ChunkBytes)
}

// vectorAlignments are the places of a vector within a word of 8 bytes: all of
// them for the short ones, some for the long ones.
func vectorAlignments(length int) []int {
	if length <= 64 {
		return []int{0, 1, 2, 3, 4, 5, 6, 7}
	}
	return []int{0, 1, 4}
}

// vectorArena lays out all vectors and returns how many bytes they take.
func vectorArena() (vectors []vector, arenaBytes int) {
	for _, n := range vectorLengths() {
		for _, align := range vectorAlignments(n) {
			vectors = append(vectors, vector{offset: arenaBytes + align, length: n})
			arenaBytes = (arenaBytes + align + n + 2*vectorGap - 1) / vectorGap * vectorGap
		}
	}
	return vectors, arenaBytes
}

// fillVectors fills the arena with new bytes and decides the outcome of each
// vector: wrong says of which ones the wanted sum must not come out. Half of
// these want another sum, half got another byte after the sum was taken. The
// bytes are new every time so that what an earlier proof left in device memory
// has other sums.
func fillVectors(r *rand.Rand, arena []byte, vectors []vector, wrong func(i int) bool) {
	for i := 0; i+8 <= len(arena); i += 8 {
		binary.LittleEndian.PutUint64(arena[i:], r.Uint64())
	}
	for i := range vectors {
		v := &vectors[i]
		p := arena[v.offset:][:v.length]
		v.want = sums.Chunk(p)
		switch {
		case wrong(i) && r.IntN(2) == 0:
			v.want ^= 1 << r.IntN(64)
		case wrong(i):
			p[r.IntN(len(p))] ^= 1 << r.IntN(8)
		}
		v.sum = sums.Chunk(p)
	}
}
