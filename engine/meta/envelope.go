package meta

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/sealstone/sealstone/internal/sums"
)

// Both files begin and end alike, in every version, so that a program can tell
// a damaged file from one of a later version: the sum is checked before the
// version is believed.
//
//	 0 +---------------------+-----------------+------------------+
//	   | magic 8             | version u16     | reserved u16, 0  |
//	12 +---------------------+-----------------+------------------+
//	   | incompat u32        | ro-compat u32   | compat u32       |
//	24 +---------------------+-----------------+------------------+
//	   | generation u64      | store uuid 16                      |
//	48 +---------------------+------------------------------------+
//	   | ... what the file is about ...                           |
//	   +---------------------+------------------------------------+
//	   | sum u64 of all bytes before it, keyed by the secret      |
//	   +----------------------------------------------------------+
const (
	envelopeBytes = 48
	sumBytes      = 8
	magicBytes    = 8
)

// FormatVersion is the version of STORE and NAMESPACES as this release writes
// them, and the only one that it reads.
const FormatVersion = 1

// Features are the feature bits of a file. This version knows none; a bit that
// it does not know forbids opening (Incompat), forbids writing (ROCompat), or
// means nothing to it (Compat).
type Features struct {
	Incompat, ROCompat, Compat uint32
}

type envelope struct {
	version    uint16
	features   Features
	generation uint64
	uuid       [16]byte
}

func (e envelope) append(dst []byte, magic string) []byte {
	dst = append(dst, magic...)
	dst = binary.LittleEndian.AppendUint16(dst, e.version)
	dst = append(dst, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, e.features.Incompat)
	dst = binary.LittleEndian.AppendUint32(dst, e.features.ROCompat)
	dst = binary.LittleEndian.AppendUint32(dst, e.features.Compat)
	dst = binary.LittleEndian.AppendUint64(dst, e.generation)
	return append(dst, e.uuid[:]...)
}

// parseEnvelope reads the envelope of p, which has at least envelopeBytes, and
// checks magic and sum.
func parseEnvelope(p []byte, magic string, domain sums.Domain, k sums.Key) (e envelope, err error) {
	if string(p[:magicBytes]) != magic {
		return e, fmt.Errorf("magic %q in place of %q at offset 0", p[:magicBytes], magic)
	}
	body := p[:len(p)-sumBytes]
	want := binary.LittleEndian.Uint64(p[len(body):])
	if got := k.Sum(domain, body); got != want {
		return e, fmt.Errorf("sum %016x in place of %016x at offset %d", want, got, len(body))
	}
	e.version = binary.LittleEndian.Uint16(p[8:])
	e.features = Features{
		Incompat: binary.LittleEndian.Uint32(p[12:]),
		ROCompat: binary.LittleEndian.Uint32(p[16:]),
		Compat:   binary.LittleEndian.Uint32(p[20:]),
	}
	e.generation = binary.LittleEndian.Uint64(p[24:])
	copy(e.uuid[:], p[32:])
	return e, nil
}

// supported reports whether this program may open, and with readOnly unset
// also write, a file with this envelope.
func (e envelope) supported(file string, readOnly bool) error {
	bad := &UnsupportedError{File: file, Version: e.version, Incompat: e.features.Incompat, ROCompat: e.features.ROCompat}
	if e.version != FormatVersion || e.features.Incompat != 0 || (e.features.ROCompat != 0 && !readOnly) {
		return bad
	}
	return nil
}

// laterFormat tells two copies that a later program wrote, and summed in a way
// that this one does not know, from damaged ones. No sum proves that; but rot
// does not put the same unknown version or feature into both.
func laterFormat(file string, a, b []byte) *UnsupportedError {
	const head = 24 // magic, version, reserved, features
	if len(a) < head || len(b) < head || !bytes.Equal(a[:head], b[:head]) {
		return nil
	}
	if magic := string(a[:magicBytes]); magic != storeMagic && magic != namesMagic {
		return nil
	}
	e := UnsupportedError{File: file, Version: binary.LittleEndian.Uint16(a[8:]), Incompat: binary.LittleEndian.Uint32(a[12:]), unproven: true}
	if e.Version <= FormatVersion && e.Incompat == 0 {
		return nil
	}
	return &e
}

func appendSum(dst []byte, domain sums.Domain, k sums.Key) []byte {
	return binary.LittleEndian.AppendUint64(dst, k.Sum(domain, dst))
}

func allZero(p []byte) bool {
	for _, b := range p {
		if b != 0 {
			return false
		}
	}
	return true
}
