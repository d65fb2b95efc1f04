package core

import (
	"encoding/binary"

	"github.com/sealstone/sealstone/engine"
)

// sealVersion is the first byte of an encoded seal.
const sealVersion = 1

// encodeSeal is a seal as it crosses the C ABI and the wire: version, content
// id, then the counted lists of plane lengths and chunk sums, little endian.
func encodeSeal(s *engine.Seal) []byte {
	p := append(make([]byte, 0, 25+8*(len(s.PlaneBytes)+len(s.ChunkSums))), sealVersion)
	p = append(p, s.ContentID[:]...)
	p = binary.LittleEndian.AppendUint32(p, uint32(len(s.PlaneBytes)))
	for _, n := range s.PlaneBytes {
		p = binary.LittleEndian.AppendUint64(p, uint64(n))
	}
	p = binary.LittleEndian.AppendUint32(p, uint32(len(s.ChunkSums)))
	for _, sum := range s.ChunkSums {
		p = binary.LittleEndian.AppendUint64(p, sum)
	}
	return p
}

// decodeSeal reads what encodeSeal wrote, all of it. It allocates nothing for
// counts that the bytes do not back.
func decodeSeal(p []byte) (*engine.Seal, bool) {
	s := &engine.Seal{}
	if len(p) < 17 || p[0] != sealVersion {
		return nil, false
	}
	p = p[1+copy(s.ContentID[:], p[1:17]):]
	planes, p, ok := decodeList(p)
	if !ok {
		return nil, false
	}
	for _, v := range planes {
		s.PlaneBytes = append(s.PlaneBytes, int64(v))
	}
	sums, p, ok := decodeList(p)
	if !ok || len(p) != 0 {
		return nil, false
	}
	s.ChunkSums = sums
	return s, true
}

func decodeList(p []byte) (list []uint64, rest []byte, ok bool) {
	if len(p) < 4 {
		return nil, nil, false
	}
	n := uint64(binary.LittleEndian.Uint32(p))
	p = p[4:]
	if n > uint64(len(p))/8 {
		return nil, nil, false
	}
	for range n {
		list, p = append(list, binary.LittleEndian.Uint64(p)), p[8:]
	}
	return list, p, true
}
