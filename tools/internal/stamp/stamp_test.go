package stamp

import (
	"math/rand/v2"
	"testing"

	"github.com/sealstone/sealstone/tools/internal/blockgen"
	"pgregory.net/rapid"
)

func TestStamp(t *testing.T) {
	p := make([]byte, 9000)
	Write(p, Ref(1, 2))
	if !All(p, 0, Ref(1, 2)) || All(p, 0, Ref(1, 3)) || All(p, 0, Ref(2, 2)) {
		t.Error("a stamp does not name its block")
	}
	copy(p[4096:], p[:16]) // a page of the same block in another place
	if All(p, 0, Ref(1, 2)) {
		t.Error("a stamp does not name its offset")
	}
	if (blockgen.Ref{}) == Ref(0, 0) {
		t.Error("bench blocks share the scope of traces")
	}
}

// TestStampedRange: any range of a block verifies from its own place and from
// no other, and what is looked at is a stamp.
func TestStampedRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		block := make([]byte, rapid.IntRange(Bytes, 20000).Draw(t, "block"))
		r := Ref(rapid.IntRange(0, 9).Draw(t, "set"), rapid.IntRange(0, 9).Draw(t, "number"))
		Write(block, r)
		from := rapid.IntRange(0, len(block)-1).Draw(t, "from")
		part := block[from : from+rapid.IntRange(1, len(block)-from).Draw(t, "length")]
		if !All(part, from, r) {
			t.Error("a part of the block does not verify")
		}
		off, ok := Probe(len(part), from, rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)))
		if begin := first(from); ok != (begin+Bytes <= len(part)) {
			t.Errorf("probe says %v for a stamp at %d of %d bytes", ok, begin, len(part))
		}
		if !ok {
			return
		}
		if !At(part, off, from+off, r) {
			t.Error("the probe is no stamp of the block")
		}
		if All(part, from+Every, r) {
			t.Error("the part verifies in another place")
		}
		part[off] ^= 1
		if All(part, from, r) {
			t.Error("a changed stamp verifies")
		}
	})
}
