package sums

import (
	"encoding/binary"
	"encoding/hex"

	"github.com/cespare/xxhash/v2"
)

// The two halves of a content id hash the same bytes with two seeds: the
// ASCII words "SLSTCID0" and "SLSTCID1" read as little-endian numbers.
const (
	ContentSeedLow  uint64 = 0x3044494354534c53
	ContentSeedHigh uint64 = 0x3144494354534c53
)

// contentDomain begins the hashed bytes, so that no other canonical encoding
// hashed with the same seeds is mistaken for a content.
const contentDomain = "sealstone content v1\n"

// ContentID is the address of a block's content: 128 bits over its shape and
// its chunk sums. Equal contents have equal ids. Equal ids are a strong hint
// of equal contents and no proof: whoever shares storage compares the bytes.
type ContentID [16]byte

// IsZero reports whether the id was never set.
func (c ContentID) IsZero() bool { return c == ContentID{} }

// String returns the id as 32 hexadecimal digits.
func (c ContentID) String() string { return hex.EncodeToString(c[:]) }

// Content returns the content id of a block of len(planeLens) planes with
// these raw lengths in bytes, whose raw chunk sums are chunkSums: those of
// the first plane in order, then those of the second, and so on. Plane names
// are not part of a content.
func Content(planeLens []int64, chunkSums []uint64) ContentID {
	var low, high xxhash.Digest
	low.ResetWithSeed(ContentSeedLow)
	high.ResetWithSeed(ContentSeedHigh)

	// The bytes go through a small buffer on the stack: the two digests then
	// take them in runs instead of eight at a time.
	var buf [512]byte
	n := copy(buf[:], contentDomain)
	binary.LittleEndian.PutUint32(buf[n:], uint32(len(planeLens)))
	n += 4
	put := func(v uint64) {
		if n+8 > len(buf) {
			low.Write(buf[:n])
			high.Write(buf[:n])
			n = 0
		}
		binary.LittleEndian.PutUint64(buf[n:], v)
		n += 8
	}
	for _, l := range planeLens {
		put(uint64(l))
	}
	for _, s := range chunkSums {
		put(s)
	}
	low.Write(buf[:n])
	high.Write(buf[:n])

	var id ContentID
	binary.LittleEndian.PutUint64(id[:8], low.Sum64())
	binary.LittleEndian.PutUint64(id[8:], high.Sum64())
	return id
}
