package disk

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/sealstone/sealstone/internal/sums"
)

// Every artifact begins with the same 32 bytes, in this and in every later
// version of the format (offset, field, size, as in all boxes here):
//
//	┌──────────────────────────────────────────────────────┐
//	│  0  magic                                          8 │
//	│  8  version                                        2 │
//	│ 10  the artifact's own field                       2 │
//	│ 12  feature bits: incompatible                     4 │
//	│ 16                read-only compatible             4 │
//	│ 20                compatible                       4 │
//	│ 24  sum                                            8 │
//	└──────────────────────────────────────────────────────┘
//
// The sum is keyed and covers the whole artifact but itself. It is checked
// first: a version or a feature bit is believed, and the artifact called
// unsupported instead of damaged, only under a valid sum.
const (
	magicBytes    = 8
	versionOffset = 8
	ownOffset     = 10
	featureOffset = 12
	sumOffset     = 24
	sumEnd        = sumOffset + 8
)

// FormatVersion is the version of every artifact of this package, segments and
// tombstone files, as this release writes it and the only one that it reads.
const FormatVersion = 1

// Features are the feature bits of an artifact. A reader refuses an artifact
// with an unknown bit in Incompat. One with an unknown bit in ROCompat may be
// read, and its store must not be written. Compat bits may be ignored.
type Features struct {
	Incompat, ROCompat, Compat uint32
}

// The bits that this release knows: none so far.
const (
	knownIncompat uint32 = 0
	knownROCompat uint32 = 0
	knownCompat   uint32 = 0
)

// MayWrite reports whether this release knows every bit that it must know to
// write beside such an artifact.
func (f Features) MayWrite() bool {
	return f.Incompat&^knownIncompat == 0 && f.ROCompat&^knownROCompat == 0
}

// extended reports whether an unknown compatible feature may have put
// something into bytes that are reserved here.
func (f Features) extended() bool {
	return f.ROCompat&^knownROCompat != 0 || f.Compat&^knownCompat != 0
}

// artifact is one kind of thing on disk.
type artifact struct {
	what   string // for errors
	magic  string // magicBytes long
	domain sums.Domain
}

// begin writes the preamble but for the sum, which seal writes at the end.
func (a artifact) begin(dst []byte, f Features) error {
	if f.Incompat&^knownIncompat != 0 || f.extended() {
		return invalidf("encode %s: feature bits %+v are not all known", a.what, f)
	}
	copy(dst, a.magic)
	binary.LittleEndian.PutUint16(dst[versionOffset:], FormatVersion)
	binary.LittleEndian.PutUint32(dst[featureOffset:], f.Incompat)
	binary.LittleEndian.PutUint32(dst[featureOffset+4:], f.ROCompat)
	binary.LittleEndian.PutUint32(dst[featureOffset+8:], f.Compat)
	return nil
}

// sum computes the keyed sum of a whole artifact p: two parts, the bytes
// before the sum field and the bytes behind it.
func (a artifact) sum(p []byte, k sums.Key) uint64 {
	return k.Sum(a.domain, p[:sumOffset], p[sumEnd:])
}

// seal computes the sum of p, writes it into its field and returns it.
func (a artifact) seal(p []byte, k sums.Key) uint64 {
	s := a.sum(p, k)
	binary.LittleEndian.PutUint64(p[sumOffset:], s)
	return s
}

// storedSum returns what stands in the sum field.
func storedSum(p []byte) uint64 { return binary.LittleEndian.Uint64(p[sumOffset:]) }

// hasMagic reports whether p begins with the artifact's magic.
func (a artifact) hasMagic(p []byte) bool {
	return len(p) >= magicBytes && string(p[:magicBytes]) == a.magic
}

// open checks magic, sum, version and features of p, which is the whole
// artifact.
func (a artifact) open(p []byte, k sums.Key) (Features, uint64, error) {
	if len(p) < sumEnd {
		return Features{}, 0, a.corrupt(ReasonShort, nil)
	}
	if !a.hasMagic(p) {
		return Features{}, 0, a.corrupt(ReasonMagic, fmt.Errorf("found %q, want %q", p[:magicBytes], a.magic))
	}
	sum := a.sum(p, k)
	if stored := storedSum(p); stored != sum {
		return Features{}, 0, a.corrupt(ReasonSum, fmt.Errorf("stored %016x, computed %016x", stored, sum))
	}
	f, err := a.features(p)
	return f, sum, err
}

// features reads version and feature bits of p, whose sum is known to match.
func (a artifact) features(p []byte) (Features, error) {
	version := binary.LittleEndian.Uint16(p[versionOffset:])
	if version != FormatVersion {
		return Features{}, &UnsupportedError{What: a.what, Version: version}
	}
	f := Features{
		Incompat: binary.LittleEndian.Uint32(p[featureOffset:]),
		ROCompat: binary.LittleEndian.Uint32(p[featureOffset+4:]),
		Compat:   binary.LittleEndian.Uint32(p[featureOffset+8:]),
	}
	if bits := f.Incompat &^ knownIncompat; bits != 0 {
		return f, &UnsupportedError{What: a.what, Version: version, Bits: bits}
	}
	return f, nil
}

// reserved checks that bytes without a meaning in this version are zero. An
// unknown compatible feature may use them; the sum covers them either way.
func (a artifact) reserved(p []byte, f Features, offset int) error {
	if f.extended() || allZero(p) {
		return nil
	}
	return a.field(offset, "reserved bytes are not zero")
}

// corrupt returns the error for the artifact as a whole.
func (a artifact) corrupt(reason string, err error) error {
	return &CorruptError{What: a.what, Reason: reason, Err: err}
}

// field returns the error for a field at an offset in the artifact.
func (a artifact) field(offset int, format string, args ...any) error {
	return &CorruptError{What: a.what, Offset: int64(offset), Reason: ReasonField, Err: fmt.Errorf(format, args...)}
}

var zeroPage [PageBytes]byte

// allZero reports whether p has zero bytes only.
func allZero(p []byte) bool {
	for len(p) > PageBytes {
		if !bytes.Equal(p[:PageBytes], zeroPage[:]) {
			return false
		}
		p = p[PageBytes:]
	}
	return bytes.Equal(p, zeroPage[:len(p)])
}
