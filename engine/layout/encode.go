package layout

import (
	"crypto/sha256"
	"encoding/binary"
)

// The encoding (docs/format/layout.md):
//
//	+----------------+-----------+
//	| magic 8 bytes  | count u16 |
//	+---------+------+----+------+------------+
//	| tag u16 | length u32 | value            |  count times, tags ascending
//	+---------+------------+------------------+
//
// An optional field that says none is not written. So the bytes are a function
// of the layout alone, two layouts never share them, and a field added later
// leaves the fingerprints of layouts without it as they are.
const magic = "SLLAYOU" + string(rune('0'+FormatVersion))

// FormatVersion is the version of the encoding, its magic's last digit.
// Another one would give every layout another fingerprint.
const FormatVersion = 1

const prefixBytes = len(magic) + 2

// Encode is the canonical encoding: equal layouts give equal bytes, different
// layouts different ones. It is defined for layouts that do not validate too
// (Decode refuses those).
func (l Layout) Encode() []byte {
	dst := append(make([]byte, 0, 512), magic...)
	dst = append(dst, 0, 0)
	count := 0
	for i := range fields {
		f := &fields[i]
		if f.optional && f.zero(&l) {
			continue
		}
		count++
		dst = binary.LittleEndian.AppendUint16(dst, f.tag)
		at := len(dst)
		dst = append(dst, 0, 0, 0, 0)
		dst = f.put(dst, &l)
		binary.LittleEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	}
	binary.LittleEndian.PutUint16(dst[len(magic):], uint16(count))
	return dst
}

// Fingerprint is the first 16 bytes of the SHA-256 of the encoding.
func (l Layout) Fingerprint() (fp [16]byte) {
	sum := sha256.Sum256(l.Encode())
	copy(fp[:], sum[:])
	return fp
}

func appendBytes16(dst []byte, s string) []byte {
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(s)))
	return append(dst, s...)
}
