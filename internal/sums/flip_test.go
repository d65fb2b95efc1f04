package sums

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

func randomBytes(n int, seed uint64) []byte {
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), byte(seed >> 24), byte(n), byte(n >> 8)})
	p := make([]byte, n)
	_, _ = r.Read(p) // never fails
	return p
}

// TestFlippedBit: a flip of any bit of any length is found, at its place.
func TestFlippedBit(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := randomBytes(rapid.IntRange(1, 3000).Draw(r, "bytes"), rapid.Uint64().Draw(r, "seed"))
		bit := rapid.IntRange(0, 8*len(p)-1).Draw(r, "bit")
		want := Chunk(p)
		p[bit/8] ^= 1 << (bit % 8)
		bad := bytes.Clone(p)
		if got, ok := FlippedBit(p, want); !ok || got != bit {
			r.Errorf("bit %d of %d bytes: found %d, %v", bit, len(p), got, ok)
		}
		if !bytes.Equal(p, bad) {
			r.Error("the bytes were left changed")
		}
	})
}

// TestFlippedBitOfChunk: in a whole chunk, the first bit, the last, and one of
// each lane.
func TestFlippedBitOfChunk(t *testing.T) {
	p := randomBytes(ChunkBytes, 1)
	want := Chunk(p)
	bits := []int{0, 8*ChunkBytes - 1, 8*(20000*1+8) + 3}
	if !testing.Short() {
		bits = append(bits, 8*(32*1000+17)+5, 8*(32*2000+31)+7)
	}
	for _, bit := range bits {
		p[bit/8] ^= 1 << (bit % 8)
		if got, ok := FlippedBit(p, want); !ok || got != bit {
			t.Errorf("bit %d: found %d, %v", bit, got, ok)
		}
		p[bit/8] ^= 1 << (bit % 8)
	}
}

// TestFlippedBitNone: what differs by more than a bit is not explained by one.
func TestFlippedBitNone(t *testing.T) {
	for _, n := range []int{0, 1, 7, 31, 32, 33, 63, 64, 1000, 4096} {
		p := randomBytes(n, 2)
		want := Chunk(p) + 1
		if n > 1 {
			want = Chunk(p)
			p[0] ^= 1
			p[n-1] ^= 0x80
		}
		if bit, ok := FlippedBit(p, want); ok {
			t.Errorf("%d bytes: bit %d", n, bit)
		}
	}
}

func BenchmarkFlippedBit(b *testing.B) {
	p := randomBytes(ChunkBytes, 3)
	for b.Loop() {
		if _, ok := FlippedBit(p, 12345); ok {
			b.Fatal("found")
		}
	}
}
