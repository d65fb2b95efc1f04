package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/sealstone/sealstone/engine"
)

const (
	sealVersion = 1
	// sealPlanesMax and sealChunksMax bound what a seal may claim: a block has
	// at most engine.MaxBlockBytes in chunks, of which each plane has one that
	// is not full.
	sealPlanesMax = 4096
	sealChunksMax = engine.MaxBlockBytes/engine.ChunkBytes + sealPlanesMax
	// SealBytesMax is the longest seal.
	SealBytesMax = 1 + 16 + 4 + 8*sealPlanesMax + 4 + 8*sealChunksMax
)

// AppendSeal appends a seal: a byte of version, the content id, the planes'
// lengths and the chunks' sums, each list behind its u32 length, little endian.
func AppendSeal(dst []byte, s *engine.Seal) []byte {
	dst = append(dst, sealVersion)
	dst = append(dst, s.ContentID[:]...)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(s.PlaneBytes)))
	for _, n := range s.PlaneBytes {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(n))
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(s.ChunkSums)))
	for _, sum := range s.ChunkSums {
		dst = binary.LittleEndian.AppendUint64(dst, sum)
	}
	return dst
}

// ParseSeal reads what AppendSeal writes; no bytes are no seal.
func ParseSeal(p []byte) (*engine.Seal, error) {
	if len(p) == 0 {
		return nil, nil
	}
	if p[0] != sealVersion {
		return nil, fmt.Errorf("seal of version %d: %d is known", p[0], sealVersion)
	}
	s := &engine.Seal{}
	rest := p[1:]
	if len(rest) < len(s.ContentID) {
		return nil, fmt.Errorf("seal of %d bytes: cut off in the content id", len(p))
	}
	rest = rest[copy(s.ContentID[:], rest):]
	planes, rest, ok := words(rest, sealPlanesMax)
	sums, rest, ok2 := words(rest, sealChunksMax)
	if !ok || !ok2 || len(rest) > 0 {
		return nil, fmt.Errorf("seal of %d bytes: its lists have other lengths", len(p))
	}
	for _, n := range planes {
		if int64(n) < 0 || n > engine.MaxBlockBytes {
			return nil, fmt.Errorf("seal: a plane of %d bytes, a block has at most %d", n, int64(engine.MaxBlockBytes))
		}
		s.PlaneBytes = append(s.PlaneBytes, int64(n))
	}
	s.ChunkSums = sums
	return s, nil
}

// words reads a list of u64 behind its length.
func words(p []byte, most uint32) (list []uint64, rest []byte, ok bool) {
	if len(p) < 4 {
		return nil, nil, false
	}
	n := binary.LittleEndian.Uint32(p)
	if p = p[4:]; n > most || uint64(len(p)) < 8*uint64(n) {
		return nil, nil, false
	}
	for i := range n {
		list = append(list, binary.LittleEndian.Uint64(p[8*i:]))
	}
	return list, p[8*n:], true
}
