package index

import (
	"bytes"
	"encoding/binary"
)

// positionRest is what a hash made by Behind has after its position: no hash
// with the same position comes after it.
var positionRest = bytes.Repeat([]byte{0xff}, 64-spreadBytes)

// Position is where a hash stands in the order of keys, as far as 64 bits tell.
// A hash of less than 8 bytes stands at 0.
func Position(hash []byte) uint64 {
	if len(hash) < spreadBytes {
		return 0
	}
	p := bytes.Clone(hash)
	spread(p)
	return binary.BigEndian.Uint64(p)
}

// Behind is a hash that comes after all others of a position.
func Behind(position uint64) []byte {
	p := append(binary.BigEndian.AppendUint64(nil, position), positionRest...)
	spread(p) // which it takes back
	return p
}
