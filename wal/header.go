package wal

import (
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"
)

// File header, one page, little endian:
//
//	┌────────┬──────┬──────────────────────────────────────────────────┐
//	│ offset │ size │ field                                            │
//	├────────┼──────┼──────────────────────────────────────────────────┤
//	│      0 │    8 │ magic "SEALWAL\n"                                │
//	│      8 │    4 │ format version, 1                                │
//	│     12 │    4 │ zero                                             │
//	│     16 │    8 │ incompatible feature bits                        │
//	│     24 │    8 │ read-only-compatible feature bits                │
//	│     32 │    8 │ compatible feature bits                          │
//	│     40 │   16 │ store UUID                                       │
//	│     56 │    8 │ base LSN: of the frame at offset 4096            │
//	│     64 │    8 │ file size                                        │
//	│     72 │    8 │ salt, random                                     │
//	│     80 │    8 │ base LSN of the file continued; 0 starts a log   │
//	│     88 │    8 │ sum of the last commit of that file              │
//	│     96 │ 3992 │ zero                                             │
//	│   4088 │    8 │ XXH64 of bytes 0 to 4087                         │
//	└────────┴──────┴──────────────────────────────────────────────────┘
//
// Magic and self-sum keep their places in every version to come.
const (
	headerBytes  = 4096
	headerSumOff = headerBytes - 8
	magic        = "SEALWAL\n"

	// Known feature bits; version 1 has none.
	knownIncompat uint64 = 0
	knownROCompat uint64 = 0
)

// FormatVersion is the version of the log files that this release writes, and
// the only one that it reads.
const FormatVersion = 1

// header is the decoded first page of a file.
type header struct {
	incompat, roCompat, compat uint64
	uuid                       [16]byte
	base                       LSN
	segmentBytes               int64
	salt                       uint64
	prevBase                   LSN    // zero: the file starts a log
	prevSum                    uint64 // chain sum at the end of prevBase's file

	sum uint64 // self-sum: the first link of the file's chain
}

// encode fills the page and sets h.sum.
func (h *header) encode() []byte {
	p := make([]byte, headerBytes)
	le := binary.LittleEndian
	copy(p, magic)
	le.PutUint32(p[8:], FormatVersion)
	le.PutUint64(p[16:], h.incompat)
	le.PutUint64(p[24:], h.roCompat)
	le.PutUint64(p[32:], h.compat)
	copy(p[40:56], h.uuid[:])
	le.PutUint64(p[56:], uint64(h.base))
	le.PutUint64(p[64:], uint64(h.segmentBytes))
	le.PutUint64(p[72:], h.salt)
	le.PutUint64(p[80:], uint64(h.prevBase))
	le.PutUint64(p[88:], h.prevSum)
	h.sum = xxhash.Sum64(p[:headerSumOff])
	le.PutUint64(p[headerSumOff:], h.sum)
	return p
}

// decodeHeader reads a header page. A non-empty reason says that the page is
// no sound header; an error is an *UnsupportedError (File left to the caller):
// the page is sound and needs a newer program.
func decodeHeader(p []byte) (h header, reason string, err error) {
	le := binary.LittleEndian
	switch {
	case len(p) < headerBytes:
		return h, fmt.Sprintf("header cut short: %d of %d bytes", len(p), headerBytes), nil
	case string(p[:8]) != magic:
		return h, "header has no magic", nil
	case xxhash.Sum64(p[:headerSumOff]) != le.Uint64(p[headerSumOff:headerBytes]):
		return h, "header does not match its sum", nil
	}
	if v := le.Uint32(p[8:]); v != FormatVersion {
		return h, "", &UnsupportedError{Version: v}
	}
	h = header{
		incompat:     le.Uint64(p[16:]),
		roCompat:     le.Uint64(p[24:]),
		compat:       le.Uint64(p[32:]),
		uuid:         [16]byte(p[40:56]),
		base:         LSN(le.Uint64(p[56:])),
		segmentBytes: int64(le.Uint64(p[64:])),
		salt:         le.Uint64(p[72:]),
		prevBase:     LSN(le.Uint64(p[80:])),
		prevSum:      le.Uint64(p[88:]),
		sum:          le.Uint64(p[headerSumOff:]),
	}
	if bits := h.incompat &^ knownIncompat; bits != 0 {
		return h, "", &UnsupportedError{Incompat: bits}
	}
	return h, h.implausible(), nil
}

// implausible catches what only a broken writer makes, so that nobody
// allocates or computes with it.
func (h *header) implausible() string {
	switch {
	case h.base < MinLSN || h.base > MaxLSN || h.base%frameAlign != 0:
		return fmt.Sprintf("header has base LSN %d", uint64(h.base))
	case h.segmentBytes < MinSegmentBytes || h.segmentBytes > MaxSegmentBytes || h.segmentBytes%headerBytes != 0:
		return fmt.Sprintf("header has file size %d", h.segmentBytes)
	case h.prevBase >= h.base:
		return fmt.Sprintf("header continues LSN %d from base %d", uint64(h.prevBase), uint64(h.base))
	}
	return ""
}

// foreign says why a sound header does not belong in this place.
func (h *header) foreign(uuid [16]byte, base LSN) string {
	switch {
	case h.uuid != uuid:
		return fmt.Sprintf("file belongs to store %x", h.uuid)
	case h.base != base:
		return fmt.Sprintf("file was written for base LSN %d", uint64(h.base))
	}
	return ""
}

// unknownROCompat is an *UnsupportedError for bits that forbid writing.
func (h *header) unknownROCompat(file string) error {
	if bits := h.roCompat &^ knownROCompat; bits != 0 {
		return &UnsupportedError{File: file, ROCompat: bits}
	}
	return nil
}
