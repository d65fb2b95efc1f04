// Package stamp makes every page of every block unlike any other at a fraction
// of the cost of new bytes: it writes the block's identity and the offset over
// a base of random bytes. So neither a store that shares equal content nor a
// device that removes duplicates finds any, as long as it compares pages or
// more; and stamps tell whose bytes were read.
package stamp

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/sealstone/sealstone/tools/internal/blockgen"
)

// Bytes is the smallest block: room for one stamp.
const Bytes = 16

// Every is the distance of two stamps in bytes.
const Every = 4096

// offsetMask keeps the stamps' offsets from being mostly zero bytes.
const offsetMask = 0x9e3779b97f4a7c15

// Ref names a block: the set that it was put in, and its number there.
func Ref(set, block int) blockgen.Ref {
	return blockgen.Ref{Scope: "bench", ID: uint64(set)<<32 | uint64(block)}
}

// Base fills p with random bytes, the same ones each time.
func Base(p []byte) { blockgen.New(1).Fill(p, blockgen.Ref{Scope: "bench base"}) }

// Write writes the block's identity and its offset into each page.
func Write(p []byte, r blockgen.Ref) {
	for off := 0; off+Bytes <= len(p); off += Every {
		writeAt(p, off, off, r)
	}
}

// writeAt writes the stamp of offset at of the block to p[off:].
func writeAt(p []byte, off, at int, r blockgen.Ref) {
	binary.LittleEndian.PutUint64(p[off:], r.ID)
	binary.LittleEndian.PutUint64(p[off+8:], uint64(at)^offsetMask)
}

// At reports whether p[off:] has the stamp of offset at of the block.
func At(p []byte, off, at int, r blockgen.Ref) bool {
	return binary.LittleEndian.Uint64(p[off:]) == r.ID &&
		binary.LittleEndian.Uint64(p[off+8:]) == uint64(at)^offsetMask
}

// All reports whether every page of p, the block's bytes from offset from
// on, has the stamp of the block.
func All(p []byte, from int, r blockgen.Ref) bool {
	for off := first(from); off+Bytes <= len(p); off += Every {
		if !At(p, off, from+off, r) {
			return false
		}
	}
	return true
}

// first is where the first stamp lies in a range of a block that begins
// at offset from.
func first(from int) int { return (Every - from%Every) % Every }

// Probe is a page whose stamp is looked at while time is taken: looking at
// all of them would cost as much as the sums of a fast device's bytes. All
// pages are looked at when no time is taken.
func Probe(size, from int, random *rand.Rand) (off int, ok bool) {
	begin := first(from)
	n := (size - begin - Bytes + Every) / Every
	if n < 1 {
		return 0, false
	}
	return begin + random.IntN(n)*Every, true
}
