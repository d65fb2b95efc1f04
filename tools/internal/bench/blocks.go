package bench

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/sealstone/sealstone/tools/internal/blockgen"
)

// stampBytes is the smallest block: room for one stamp.
const stampBytes = 16

// stampEvery is the distance of two stamps. Stamping a base of random bytes
// makes a block's bytes its own at a fraction of the cost of new ones, which
// would otherwise be most of what is measured.
const stampEvery = 4096

// offsetMask keeps the stamps' offsets from being mostly zero bytes.
const offsetMask = 0x9e3779b97f4a7c15

// ref names a block: the set that it was put in, and its number there.
func ref(set, block int) blockgen.Ref {
	return blockgen.Ref{Scope: "bench", ID: uint64(set)<<32 | uint64(block)}
}

// stamp writes the block's identity and its offset into each page.
func stamp(p []byte, r blockgen.Ref) {
	for off := 0; off+stampBytes <= len(p); off += stampEvery {
		stampAt(p, off, off, r)
	}
}

// stampAt writes the stamp of offset at of the block to p[off:].
func stampAt(p []byte, off, at int, r blockgen.Ref) {
	binary.LittleEndian.PutUint64(p[off:], r.ID)
	binary.LittleEndian.PutUint64(p[off+8:], uint64(at)^offsetMask)
}

// stampedAt reports whether p[off:] has the stamp of offset at of the block.
func stampedAt(p []byte, off, at int, r blockgen.Ref) bool {
	return binary.LittleEndian.Uint64(p[off:]) == r.ID &&
		binary.LittleEndian.Uint64(p[off+8:]) == uint64(at)^offsetMask
}

// stamped reports whether every page of p, the block's bytes from offset from
// on, has the stamp of the block.
func stamped(p []byte, from int, r blockgen.Ref) bool {
	for off := firstStamp(from); off+stampBytes <= len(p); off += stampEvery {
		if !stampedAt(p, off, from+off, r) {
			return false
		}
	}
	return true
}

// firstStamp is where the first stamp lies in a range of a block that begins
// at offset from.
func firstStamp(from int) int { return (stampEvery - from%stampEvery) % stampEvery }

// probe is a page whose stamp is looked at while time is taken: looking at
// all of them would cost as much as the sums of a fast device's bytes. All
// pages are looked at when no time is taken.
func probe(size, from int, random *rand.Rand) (off int, ok bool) {
	first := firstStamp(from)
	n := (size - first - stampBytes + stampEvery) / stampEvery
	if n < 1 {
		return 0, false
	}
	return first + random.IntN(n)*stampEvery, true
}
