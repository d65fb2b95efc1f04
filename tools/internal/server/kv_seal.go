package server

import (
	"encoding/binary"
	"errors"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/engine/layout"
)

const (
	sealVersion     = 1
	sealHeaderBytes = 1 + 16 + 4
	// sealChunksMax: a block of the largest size, each plane with a chunk of
	// its own that is not full.
	sealChunksMax = engine.MaxBlockBytes/engine.ChunkBytes + layout.MaxPlanes
)

var errSeal = errors.New("server: no seal of version 1")

// encodeSeal writes a seal: u8 version, 16 bytes content id, u32 planes, u64
// each, u32 chunks, u64 each; little endian.
func encodeSeal(s *engine.Seal) []byte {
	out := make([]byte, 0, sealHeaderBytes+8*len(s.PlaneBytes)+4+8*len(s.ChunkSums))
	out = append(out, sealVersion)
	out = append(out, s.ContentID[:]...)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(s.PlaneBytes)))
	for _, n := range s.PlaneBytes {
		out = binary.LittleEndian.AppendUint64(out, uint64(n))
	}
	out = binary.LittleEndian.AppendUint32(out, uint32(len(s.ChunkSums)))
	for _, n := range s.ChunkSums {
		out = binary.LittleEndian.AppendUint64(out, n)
	}
	return out
}

// decodeSeal reads exactly what encodeSeal writes.
func decodeSeal(p []byte) (*engine.Seal, error) {
	if len(p) < sealHeaderBytes || p[0] != sealVersion {
		return nil, errSeal
	}
	s := &engine.Seal{ContentID: [16]byte(p[1:17])}
	planes, rest, ok := sealWords(p[17:], layout.MaxPlanes)
	if !ok {
		return nil, errSeal
	}
	for _, n := range planes {
		if n > engine.MaxBlockBytes {
			return nil, errSeal
		}
		s.PlaneBytes = append(s.PlaneBytes, int64(n))
	}
	s.ChunkSums, rest, ok = sealWords(rest, sealChunksMax)
	if !ok || len(rest) > 0 {
		return nil, errSeal
	}
	return s, nil
}

// sealWords reads a count and as many words.
func sealWords(p []byte, most uint32) (words []uint64, rest []byte, ok bool) {
	if len(p) < 4 {
		return nil, nil, false
	}
	n := binary.LittleEndian.Uint32(p)
	if p = p[4:]; n > most || uint64(len(p)) < 8*uint64(n) {
		return nil, nil, false
	}
	for range n {
		words = append(words, binary.LittleEndian.Uint64(p))
		p = p[8:]
	}
	return words, p, true
}
