package disk

import (
	"encoding/binary"

	"github.com/sealstone/sealstone/internal/sums"
)

// A segment file begins with one header page:
//
//	┌─────────────────────────────┐
//	│   0  preamble "SLSTSEGM" 32 │  own field: zero
//	│  32  store uuid          16 │
//	│  48  segment id           8 │
//	│  56  size in bytes        8 │
//	│  64  class                1 │
//	│  65  zero              4031 │
//	└─────────────────────────────┘
var segmentHeader = artifact{"segment header", "SLSTSEGM", sums.DomainSegmentHeader}

const (
	segUUIDOffset  = 32
	segIDOffset    = 48
	segSizeOffset  = 56
	segClassOffset = 64
	segEnd         = 65
)

// MaxSegmentBytes is the largest size of a segment file: 16 GiB, of which
// every page has a number with room to spare.
const MaxSegmentBytes = 16 << 30

// The class of a segment says why its extents were written, which tells how
// long they are likely to live.
const (
	ClassFresh uint8 = 0 // put by a caller
	ClassMoved uint8 = 1 // moved on by eviction
)

// SegmentHeader is what page 0 of a segment file says.
type SegmentHeader struct {
	Features  Features
	UUID      [16]byte // of the store
	Segment   uint64   // its id; never used again
	SizeBytes int64    // of the file as preallocated: a multiple of PageBytes
	Class     uint8    // ClassFresh or ClassMoved
}

// check reports the first field that the format cannot hold.
func (h SegmentHeader) check() (offset int, problem string) {
	if h.SizeBytes < 2*PageBytes || h.SizeBytes > MaxSegmentBytes || h.SizeBytes%PageBytes != 0 {
		return segSizeOffset, "segment size is not a number of pages from 2 to 4194304"
	}
	return 0, ""
}

// EncodeSegmentHeader writes h into dst, which is one page. Errors wrap
// ErrInvalid.
func EncodeSegmentHeader(dst []byte, h SegmentHeader, k sums.Key) error {
	if len(dst) != PageBytes {
		return invalidf("encode segment header: %d bytes of room, want %d", len(dst), PageBytes)
	}
	if _, problem := h.check(); problem != "" {
		return invalidf("encode segment header: %s: %d", problem, h.SizeBytes)
	}
	if h.Class > ClassMoved {
		return invalidf("encode segment header: class %d", h.Class)
	}
	clear(dst)
	if err := segmentHeader.begin(dst, h.Features); err != nil {
		return err
	}
	copy(dst[segUUIDOffset:], h.UUID[:])
	binary.LittleEndian.PutUint64(dst[segIDOffset:], h.Segment)
	binary.LittleEndian.PutUint64(dst[segSizeOffset:], uint64(h.SizeBytes))
	dst[segClassOffset] = h.Class
	segmentHeader.seal(dst, k)
	return nil
}

// DecodeSegmentHeader reads the header from p, the first page of a segment
// file. Whether uuid and id are the expected ones is for the caller to check.
// Errors wrap ErrCorrupt or ErrUnsupported.
func DecodeSegmentHeader(p []byte, k sums.Key) (SegmentHeader, error) {
	if len(p) < PageBytes {
		return SegmentHeader{}, segmentHeader.corrupt(ReasonShort, nil)
	}
	p = p[:PageBytes]
	f, _, err := segmentHeader.open(p, k)
	if err != nil {
		return SegmentHeader{}, err
	}
	h := SegmentHeader{
		Features:  f,
		UUID:      [16]byte(p[segUUIDOffset:]),
		Segment:   binary.LittleEndian.Uint64(p[segIDOffset:]),
		SizeBytes: int64(binary.LittleEndian.Uint64(p[segSizeOffset:])),
		Class:     p[segClassOffset],
	}
	if offset, problem := h.check(); problem != "" {
		return SegmentHeader{}, segmentHeader.field(offset, "%s: %d", problem, h.SizeBytes)
	}
	if h.Class > ClassMoved {
		return SegmentHeader{}, segmentHeader.field(segClassOffset, "class %d", h.Class)
	}
	if err := segmentHeader.reserved(p[ownOffset:featureOffset], f, ownOffset); err != nil {
		return SegmentHeader{}, err
	}
	return h, segmentHeader.reserved(p[segEnd:], f, segEnd)
}

// GuessClass is the class that a damaged header page names, or ClassFresh if
// it names none. Where eviction looks first is all that hangs on it.
func GuessClass(page []byte) uint8 {
	if len(page) > segClassOffset && page[segClassOffset] == ClassMoved {
		return ClassMoved
	}
	return ClassFresh
}
