package blockgen

import (
	"bytes"
	"encoding/hex"
	"testing"

	"pgregory.net/rapid"
)

// TestVectors pins hashes and bytes: a store filled by one release is checked
// by the next.
func TestVectors(t *testing.T) {
	for _, c := range []struct {
		ref         Ref
		seed        uint64
		hash, bytes string
	}{
		{Ref{"", 0}, 0, "38805776e5fbc833", "64ee6d3fba9f50ee"},
		{Ref{"", 1}, 0, "35492c42473b060b", "7ca676496c523962"},
		{Ref{"trace_0081", 1}, 7, "34a32a713d695b17", "8ca5021bbc9bf2da"},
	} {
		h := c.ref.Hash()
		if got := hex.EncodeToString(h[:8]); got != c.hash {
			t.Errorf("Hash(%v) begins with %s, want %s", c.ref, got, c.hash)
		}
		p := make([]byte, 8)
		New(c.seed).Fill(p, c.ref)
		if got := hex.EncodeToString(p); got != c.bytes {
			t.Errorf("bytes of %v, seed %d, begin with %s, want %s", c.ref, c.seed, got, c.bytes)
		}
	}
}

func genRef(t *rapid.T, label string) Ref {
	return Ref{rapid.StringN(0, 8, -1).Draw(t, label+"Scope"), rapid.Uint64().Draw(t, label+"ID")}
}

func TestFillThenCheck(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := New(rapid.Uint64().Draw(t, "seed"))
		r := genRef(t, "ref")
		p := bytes.Repeat([]byte{0xa5}, rapid.IntRange(0, 3*4096+1).Draw(t, "len"))
		g.Fill(p, r)
		if off, n := g.Compare(p, r); off != -1 || n != 0 {
			t.Fatalf("a filled block differs at %d in %d bytes", off, n)
		}
		if len(p) == 0 {
			return
		}
		at := rapid.IntRange(0, len(p)-1).Draw(t, "at")
		p[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if off, n := g.Compare(p, r); off != at || n != 1 {
			t.Fatalf("flipped byte %d: found %d, %d bytes", at, off, n)
		}
	})
}

func TestPrefixIsStable(t *testing.T) {
	long, short := make([]byte, 10000), make([]byte, 4097)
	New(1).Fill(long, Ref{"x", 5})
	New(1).Fill(short, Ref{"x", 5})
	if !bytes.Equal(long[:len(short)], short) {
		t.Error("the bytes of a block depend on its length")
	}
}

func TestBlocksDiffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := genRef(t, "a"), genRef(t, "b")
		if a == b {
			return
		}
		if a.Hash() == b.Hash() {
			t.Fatalf("%v and %v share a hash", a, b)
		}
		p := make([]byte, 64)
		New(0).Fill(p, a)
		if New(0).Check(p, b) < 0 {
			t.Fatalf("%v and %v share their bytes", a, b)
		}
		if New(1).Check(p, a) < 0 {
			t.Fatal("the seed does not matter")
		}
	})
}

func BenchmarkFill(b *testing.B) {
	p := make([]byte, 64<<10)
	b.SetBytes(int64(len(p)))
	for i := range b.N {
		New(0).Fill(p, Ref{"", uint64(i)})
	}
}

func BenchmarkCheck(b *testing.B) {
	p := make([]byte, 64<<10)
	New(0).Fill(p, Ref{"", 1})
	b.SetBytes(int64(len(p)))
	for b.Loop() {
		if New(0).Check(p, Ref{"", 1}) >= 0 {
			b.Fatal("differs")
		}
	}
}
