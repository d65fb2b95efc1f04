package disk

import (
	"encoding/binary"
	"fmt"

	"github.com/sealstone/sealstone/internal/sums"
)

// The trailer is the last 64 bytes of a sealed segment file. It says where
// the footer begins.
//
//	┌───────────────────────────────────────────┐
//	│   0  preamble "SLSTTRLR" 32  own field: 0 │
//	│  32  store uuid          16               │
//	│  48  segment id           8               │
//	│  56  footer's first page  4               │
//	│  60  footer pages         4               │
//	└───────────────────────────────────────────┘
var trailerArtifact = artifact{"segment trailer", "SLSTTRLR", sums.DomainTrailer}

const trailerBytes = 64

// trailer is what a trailer says.
type trailer struct {
	uuid      [16]byte
	segment   uint64
	startPage uint32
	pages     uint32
}

// String names the place for messages.
func (t trailer) String() string {
	return fmt.Sprintf("store %x segment %016x pages %d+%d", t.uuid, t.segment, t.startPage, t.pages)
}

// putTrailer writes t into dst, which is zero and trailerBytes long.
func putTrailer(dst []byte, t trailer, k sums.Key) {
	copy(dst, trailerArtifact.magic)
	binary.LittleEndian.PutUint16(dst[versionOffset:], FormatVersion)
	copy(dst[32:], t.uuid[:])
	binary.LittleEndian.PutUint64(dst[48:], t.segment)
	binary.LittleEndian.PutUint32(dst[56:], t.startPage)
	binary.LittleEndian.PutUint32(dst[60:], t.pages)
	trailerArtifact.seal(dst, k)
}

// getTrailer reads a trailer from p, which is trailerBytes long.
func getTrailer(p []byte, k sums.Key) (trailer, error) {
	f, _, err := trailerArtifact.open(p, k)
	if err != nil {
		return trailer{}, err
	}
	t := trailer{
		uuid:      [16]byte(p[32:]),
		segment:   binary.LittleEndian.Uint64(p[48:]),
		startPage: binary.LittleEndian.Uint32(p[56:]),
		pages:     binary.LittleEndian.Uint32(p[60:]),
	}
	const maxPages = MaxSegmentBytes / PageBytes
	if t.startPage == 0 || t.pages == 0 || t.startPage > maxPages || t.pages > maxPages {
		return trailer{}, trailerArtifact.field(56, "footer of %d pages at page %d", t.pages, t.startPage)
	}
	return t, trailerArtifact.reserved(p[ownOffset:featureOffset], f, ownOffset)
}

// DecodeTrailer reads the trailer from the last page of a segment file and
// returns where the footer begins and how long it is; the footer ends with
// the file. No trailer there (ReasonMagic) means that the segment is not
// sealed. Errors wrap ErrCorrupt or ErrUnsupported.
func DecodeTrailer(lastPage []byte, k sums.Key, uuid [16]byte, segment uint64) (startPage uint32, footerBytes int64, err error) {
	if len(lastPage) != PageBytes {
		return 0, 0, invalidf("decode segment trailer: %d bytes, want the last page", len(lastPage))
	}
	t, err := getTrailer(lastPage[PageBytes-trailerBytes:], k)
	if err == nil && (t.uuid != uuid || t.segment != segment) {
		err = trailerArtifact.corrupt(ReasonPlace, fmt.Errorf("of %v, want store %x segment %016x", t, uuid, segment))
	}
	if err != nil {
		return 0, 0, inSegment(err, segment, 0)
	}
	return t.startPage, int64(t.pages) * PageBytes, nil
}
