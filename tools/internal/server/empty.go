package server

import "bytes"

// emptyMark is stored for an empty value, as a block has at least one byte: the
// first half of the SHA-256 of "sealstone: the empty value". A value that
// begins with it is stored with one byte more, so every value has exactly one
// stored form, which is the value itself but in these two cases.
var emptyMark = []byte{0xd2, 0x76, 0xa1, 0xfa, 0x74, 0x0d, 0x86, 0x8c, 0xfd, 0x0c, 0x65, 0x59, 0x9b, 0x2e, 0xe4, 0xea}

var oneMore = []byte{0}

// storedForm gives the spans that a value is stored as.
func storedForm(value []byte) [][]byte {
	switch {
	case len(value) == 0:
		return [][]byte{emptyMark}
	case bytes.HasPrefix(value, emptyMark):
		return [][]byte{value, oneMore}
	}
	return [][]byte{value}
}

// valueOf is the value of a stored form. It is a part of it, not a copy.
func valueOf(stored []byte) []byte {
	switch {
	case !bytes.HasPrefix(stored, emptyMark):
		return stored
	case len(stored) == len(emptyMark):
		return stored[:0]
	}
	return stored[:len(stored)-1]
}
