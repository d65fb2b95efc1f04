package bench

import (
	"math/rand/v2"
	"testing"

	"github.com/sealstone/sealstone/tools/internal/blockgen"
	"pgregory.net/rapid"
)

func TestStamp(t *testing.T) {
	p := make([]byte, 9000)
	stamp(p, ref(1, 2))
	if !stamped(p, 0, ref(1, 2)) || stamped(p, 0, ref(1, 3)) || stamped(p, 0, ref(2, 2)) {
		t.Error("a stamp does not name its block")
	}
	copy(p[4096:], p[:16]) // a page of the same block in another place
	if stamped(p, 0, ref(1, 2)) {
		t.Error("a stamp does not name its offset")
	}
	if (blockgen.Ref{}) == ref(0, 0) {
		t.Error("bench blocks share the scope of traces")
	}
}

// TestStampedRange: any range of a block verifies from its own place and from
// no other, and what is looked at is a stamp.
func TestStampedRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		block := make([]byte, rapid.IntRange(stampBytes, 20000).Draw(t, "block"))
		r := ref(rapid.IntRange(0, 9).Draw(t, "set"), rapid.IntRange(0, 9).Draw(t, "number"))
		stamp(block, r)
		from := rapid.IntRange(0, len(block)-1).Draw(t, "from")
		part := block[from : from+rapid.IntRange(1, len(block)-from).Draw(t, "length")]
		if !stamped(part, from, r) {
			t.Error("a part of the block does not verify")
		}
		off, ok := probe(len(part), from, rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)))
		if first := firstStamp(from); ok != (first+stampBytes <= len(part)) {
			t.Errorf("probe says %v for a stamp at %d of %d bytes", ok, first, len(part))
		}
		if !ok {
			return
		}
		if !stampedAt(part, off, from+off, r) {
			t.Error("the probe is no stamp of the block")
		}
		if stamped(part, from+stampEvery, r) {
			t.Error("the part verifies in another place")
		}
		part[off] ^= 1
		if stamped(part, from, r) {
			t.Error("a changed stamp verifies")
		}
	})
}
