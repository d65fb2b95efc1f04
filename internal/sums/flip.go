package sums

import (
	"encoding/binary"
	"math/bits"

	"github.com/cespare/xxhash/v2"
)

// The primes of XXH64; see https://github.com/Cyan4973/xxHash, doc/xxhash_spec.md.
const (
	prime1 uint64 = 0x9E3779B185EBCA87
	prime2 uint64 = 0xC2B2AE3D27D4EB4F
	prime3 uint64 = 0x165667B19E3779F9
	prime4 uint64 = 0x85EBCA77C2B2AE63
	prime5 uint64 = 0x27D4EB2F165667C5
)

// XXH64 takes its input in stripes of four words, each for a lane of its own.
const (
	lanes       = 4
	stripeBytes = 8 * lanes
)

// FlippedBit looks for the one bit of p whose flip gives p the chunk sum want,
// and returns its number: bit n%8 of byte n/8. ok is false if there is none.
//
// A word of the input goes through one lane of the sum only. So a flip is
// followed through the rest of its lane alone, from the state that the bytes
// before it leave. That takes less than a second of processor time for 64 KiB,
// where summing anew for each bit would take a dozen. p is changed meanwhile and restored.
func FlippedBit(p []byte, want uint64) (n int, ok bool) {
	body := len(p) / stripeBytes * stripeBytes
	if n, ok := flippedInBytes(p, body, want); ok {
		return n, true
	}
	if body == 0 {
		return 0, false
	}
	start := [lanes]uint64{0: prime1, 1: prime2, 3: 0}
	start[0] += prime2 // the sum of the two does not fit a constant
	start[3] -= prime1
	end := start
	for off := 0; off < body; off += stripeBytes {
		for l := range end {
			end[l] = round(end[l], binary.LittleEndian.Uint64(p[off+8*l:]))
		}
	}
	for l := range lanes {
		if n, ok := flippedInLane(p, body, l, start[l], end, want); ok {
			return n, true
		}
	}
	return 0, false
}

// flippedInBytes tries the bits from byte from on by summing anew; they are
// few: the tail behind the stripes.
func flippedInBytes(p []byte, from int, want uint64) (int, bool) {
	for i := from; i < len(p); i++ {
		for b := range 8 {
			p[i] ^= 1 << b
			got := xxhash.Sum64(p)
			p[i] ^= 1 << b
			if got == want {
				return 8*i + b, true
			}
		}
	}
	return 0, false
}

// flippedInLane tries the bits of all words of a lane, the bits of a byte at a
// time: eight states are what fits into registers.
func flippedInLane(p []byte, body, lane int, state uint64, end [lanes]uint64, want uint64) (int, bool) {
	for off := 8 * lane; off < body; off += stripeBytes {
		word := binary.LittleEndian.Uint64(p[off:])
		for at := range 8 {
			var s [8]uint64
			for b := range s {
				s[b] = round(state, word^1<<(8*at+b))
			}
			follow(&s, p[off:body])
			for b := range s {
				end[lane] = s[b]
				if finish(end, p[body:], len(p)) == want {
					return 8*(off+at) + b, true
				}
			}
		}
		state = round(state, word)
	}
	return 0, false
}

// follow takes eight states of a lane through the words of the lane in p, from
// the second on.
func follow(s *[8]uint64, p []byte) {
	a, b, c, d, e, f, g, h := s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7]
	for len(p) >= stripeBytes+8 {
		p = p[stripeBytes:]
		in := binary.LittleEndian.Uint64(p) * prime2
		a = bits.RotateLeft64(a+in, 31) * prime1
		b = bits.RotateLeft64(b+in, 31) * prime1
		c = bits.RotateLeft64(c+in, 31) * prime1
		d = bits.RotateLeft64(d+in, 31) * prime1
		e = bits.RotateLeft64(e+in, 31) * prime1
		f = bits.RotateLeft64(f+in, 31) * prime1
		g = bits.RotateLeft64(g+in, 31) * prime1
		h = bits.RotateLeft64(h+in, 31) * prime1
	}
	*s = [8]uint64{a, b, c, d, e, f, g, h}
}

func round(acc, in uint64) uint64 { return bits.RotateLeft64(acc+in*prime2, 31) * prime1 }

// finish is the end of XXH64 for an input of at least one stripe: the lanes
// are merged, then the tail and the length mixed in.
func finish(v [lanes]uint64, tail []byte, length int) uint64 {
	h := bits.RotateLeft64(v[0], 1) + bits.RotateLeft64(v[1], 7) + bits.RotateLeft64(v[2], 12) + bits.RotateLeft64(v[3], 18)
	for _, x := range v {
		h = (h^round(0, x))*prime1 + prime4
	}
	h += uint64(length)
	for ; len(tail) >= 8; tail = tail[8:] {
		h ^= round(0, binary.LittleEndian.Uint64(tail))
		h = bits.RotateLeft64(h, 27)*prime1 + prime4
	}
	if len(tail) >= 4 {
		h ^= uint64(binary.LittleEndian.Uint32(tail)) * prime1
		h = bits.RotateLeft64(h, 23)*prime2 + prime3
		tail = tail[4:]
	}
	for _, b := range tail {
		h ^= uint64(b) * prime5
		h = bits.RotateLeft64(h, 11) * prime1
	}
	h ^= h >> 33
	h *= prime2
	h ^= h >> 29
	h *= prime3
	return h ^ h>>32
}
