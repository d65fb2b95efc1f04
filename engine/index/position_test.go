package index

import (
	"crypto/sha256"
	"testing"

	"pgregory.net/rapid"
)

// TestPosition: positions are in the order of keys, and what is Behind a hash's
// position comes after it and before all of higher ones.
func TestPosition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) []byte {
			h := sha256.Sum256(rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(t, name))
			return h[:rapid.IntRange(16, 32).Draw(t, name+" length")]
		}
		a, b := draw("a"), draw("b")
		order := Key{1, string(a)}.Compare(Key{1, string(b)})
		pa, pb := Position(a), Position(b)
		if pa < pb && order >= 0 || pa > pb && order <= 0 {
			t.Fatalf("positions %x and %x, order %d", pa, pb, order)
		}
		behind := Behind(pa)
		if Position(behind) != pa || len(behind) != 64 {
			t.Fatalf("Behind(%x) stands at %x", pa, Position(behind))
		}
		if (Key{1, string(behind)}).Compare(Key{1, string(a)}) <= 0 {
			t.Fatal("not behind the hash itself")
		}
		if pb > pa && (Key{1, string(behind)}).Compare(Key{1, string(b)}) >= 0 {
			t.Fatal("behind a hash of a higher position")
		}
	})
	if Position([]byte("short")) != 0 {
		t.Error("a hash of 5 bytes has a position")
	}
}
