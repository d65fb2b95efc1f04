package bench

import (
	"encoding/binary"

	"github.com/sealstone/sealstone/tools/internal/blockgen"
)

// stampBytes is the smallest block: room for one stamp.
const stampBytes = 16

// stampEvery is the distance of two stamps. Stamping a base of random bytes
// makes a block's bytes its own at a fraction of the cost of new ones, which
// would otherwise be most of what is measured.
const stampEvery = 4096

func ref(round, block int) blockgen.Ref {
	return blockgen.Ref{Scope: "bench", ID: uint64(round)<<32 | uint64(block)}
}

// stamp writes the block's identity and its offset into each page.
func stamp(p []byte, r blockgen.Ref) {
	for off := 0; off+stampBytes <= len(p); off += stampEvery {
		binary.LittleEndian.PutUint64(p[off:], r.ID)
		binary.LittleEndian.PutUint64(p[off+8:], uint64(off)^0x9e3779b97f4a7c15)
	}
}

// stamped reports whether every page has the stamp of the block.
func stamped(p []byte, r blockgen.Ref) bool {
	for off := 0; off+stampBytes <= len(p); off += stampEvery {
		if binary.LittleEndian.Uint64(p[off:]) != r.ID ||
			binary.LittleEndian.Uint64(p[off+8:]) != uint64(off)^0x9e3779b97f4a7c15 {
			return false
		}
	}
	return true
}
