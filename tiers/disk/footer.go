package disk

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/sealstone/sealstone/internal/sums"
)

// The footer is written when a segment is sealed, on the page behind the last
// extent; the file is then cut to the footer's end. It holds all that a
// rebuild of the index needs, so that no extent has to be read.
//
//	┌────────────────────────────────────────────────────────────────────┐
//	│   0  preamble "SLSTFOOT" 32  own field: zero; sum over all pages   │
//	│  32  store uuid          16 │ 60  footer pages  4 │ 72  zero    24 │
//	│  48  segment id           8 │ 64  entry count   4 │                │
//	│  56  first page           4 │ 68  entry bytes   4 │                │
//	│  96  entries, by page; zero; trailer in the last 64 bytes          │
//	└────────────────────────────────────────────────────────────────────┘
//	entry:  0 page 4            │ 24 content id 16 │ 52 header pages  2 │ 57 zero             7
//	        4 payload pages 4   │ 40 raw bytes   4 │ 54 kind          1 │ 64 hash, parent hash
//	        8 put sequence  8   │ 44 namespace   4 │ 55 hash length   1 │    zero to 8
//	       16 header sum    8   │ 48 depth       4 │ 56 parent length 1 │
var footerArtifact = artifact{"segment footer", "SLSTFOOT", sums.DomainFooter}

const (
	footUUIDOffset    = 32
	footSegmentOffset = 48
	footPageOffset    = 56
	footPagesOffset   = 60
	footCountOffset   = 64
	footBytesOffset   = 68
	footReserved      = 72
	footEntriesOffset = 96

	entryFixedBytes = 64
)

// FooterEntry is what a footer says of one extent.
type FooterEntry struct {
	Page         uint32
	HeaderPages  uint16
	PayloadPages uint32
	Kind         Kind
	Namespace    uint32
	Depth        uint32
	Seq          uint64
	HeaderSum    uint64
	ContentID    sums.ContentID
	RawBytes     int64
	Hash         []byte
	Parent       []byte // empty for a root
}

// EntryOf returns the footer's entry for an extent. It shares the hashes'
// memory with e.
func EntryOf(e *Extent, headerSum uint64) FooterEntry {
	return FooterEntry{
		Page:         e.Address.Page,
		HeaderPages:  e.HeaderPages,
		PayloadPages: e.PayloadPages,
		Kind:         e.Kind,
		Namespace:    e.Namespace,
		Depth:        e.Depth,
		Seq:          e.Seq,
		HeaderSum:    headerSum,
		ContentID:    e.ContentID,
		RawBytes:     e.RawBytes(),
		Hash:         e.Hash,
		Parent:       e.Parent,
	}
}

// EndPage returns the page behind the extent.
func (e *FooterEntry) EndPage() uint32 { return e.Page + uint32(e.HeaderPages) + e.PayloadPages }

// FooterEntryBytes returns the size of an entry with hashes of these lengths.
func FooterEntryBytes(hashLen, parentLen int) int {
	return entryFixedBytes + align8(hashLen+parentLen)
}

// FooterBytes returns the size of a footer whose entries take entryBytes in
// all: whole pages, trailer included.
func FooterBytes(entryBytes int64) int64 {
	return pages(footEntriesOffset+entryBytes+trailerBytes) * PageBytes
}

// check reports the first field that the format does not allow.
func (e *FooterEntry) check() error {
	if e.Kind != KindFull && e.Kind != KindAlias {
		return fmt.Errorf("kind %d", e.Kind)
	}
	if e.Page == 0 || e.HeaderPages == 0 || e.HeaderPages > MaxHeaderPages || e.PayloadPages > MaxPayloadPages {
		return fmt.Errorf("page %d, %d header and %d payload pages", e.Page, e.HeaderPages, e.PayloadPages)
	}
	if (e.Kind == KindFull) != (e.PayloadPages > 0) {
		return fmt.Errorf("%v extent with %d payload pages", e.Kind, e.PayloadPages)
	}
	if e.RawBytes <= 0 || e.RawBytes > MaxBlockBytes {
		return fmt.Errorf("block of %d bytes", e.RawBytes)
	}
	if n := len(e.Hash); n < MinHashBytes || n > MaxHashBytes {
		return fmt.Errorf("hash of %d bytes", n)
	}
	if n := len(e.Parent); n != 0 && (n < MinHashBytes || n > MaxHashBytes) {
		return fmt.Errorf("parent hash of %d bytes", n)
	}
	return nil
}

// checkOrder checks that an entry lies behind the one that ends at end and
// before the footer.
func (e *FooterEntry) checkOrder(end, startPage uint32) error {
	if err := e.check(); err != nil {
		return err
	}
	if e.Page < end || uint64(e.Page)+uint64(e.HeaderPages)+uint64(e.PayloadPages) > uint64(startPage) {
		return fmt.Errorf("page %d to %d is not between page %d and the footer at %d", e.Page, e.EndPage(), end, startPage)
	}
	return nil
}

// EncodeFooter returns the footer of a segment, to be written at startPage.
// Entries are in order of their pages and end before it. Errors wrap
// ErrInvalid.
func EncodeFooter(entries []FooterEntry, segment uint64, startPage uint32, uuid [16]byte, k sums.Key) ([]byte, error) {
	var size int64
	end := uint32(1)
	for i := range entries {
		if err := entries[i].checkOrder(end, startPage); err != nil {
			return nil, invalidf("encode segment footer: entry %d: %v", i, err)
		}
		end = entries[i].EndPage()
		size += int64(FooterEntryBytes(len(entries[i].Hash), len(entries[i].Parent)))
	}
	total := FooterBytes(size)
	if startPage == 0 || int64(startPage)*PageBytes+total > MaxSegmentBytes {
		return nil, invalidf("encode segment footer: %d bytes at page %d", total, startPage)
	}
	dst := make([]byte, total)
	if err := footerArtifact.begin(dst, Features{}); err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	copy(dst[footUUIDOffset:], uuid[:])
	le.PutUint64(dst[footSegmentOffset:], segment)
	le.PutUint32(dst[footPageOffset:], startPage)
	le.PutUint32(dst[footPagesOffset:], uint32(total/PageBytes))
	le.PutUint32(dst[footCountOffset:], uint32(len(entries)))
	le.PutUint32(dst[footBytesOffset:], uint32(size))
	n := footEntriesOffset
	for i := range entries {
		n += putEntry(dst[n:], &entries[i])
	}
	putTrailer(dst[total-trailerBytes:], trailer{uuid, segment, startPage, uint32(total / PageBytes)}, k)
	footerArtifact.seal(dst, k)
	return dst, nil
}

// putEntry writes one entry and returns its length.
func putEntry(dst []byte, e *FooterEntry) int {
	le := binary.LittleEndian
	le.PutUint32(dst[0:], e.Page)
	le.PutUint32(dst[4:], e.PayloadPages)
	le.PutUint64(dst[8:], e.Seq)
	le.PutUint64(dst[16:], e.HeaderSum)
	copy(dst[24:], e.ContentID[:])
	le.PutUint32(dst[40:], uint32(e.RawBytes))
	le.PutUint32(dst[44:], e.Namespace)
	le.PutUint32(dst[48:], e.Depth)
	le.PutUint16(dst[52:], e.HeaderPages)
	dst[54] = byte(e.Kind)
	dst[55] = byte(len(e.Hash))
	dst[56] = byte(len(e.Parent))
	copy(dst[entryFixedBytes:], e.Hash)
	copy(dst[entryFixedBytes+len(e.Hash):], e.Parent)
	return FooterEntryBytes(len(e.Hash), len(e.Parent))
}

// IsFooterPage reports whether p begins like the first page of a footer. It
// is a hint for a walk over a segment; only DecodeFooter proves one.
func IsFooterPage(p []byte) bool { return footerArtifact.hasMagic(p) }

// FooterPages returns how many pages the footer has that begins at p, which
// has at least the first page. Nothing is verified yet. Errors wrap
// ErrCorrupt.
func FooterPages(p []byte) (int, error) {
	if len(p) < PageBytes {
		return 0, footerArtifact.corrupt(ReasonShort, nil)
	}
	if !IsFooterPage(p) {
		return 0, footerArtifact.corrupt(ReasonMagic, fmt.Errorf("found %q, want %q", p[:magicBytes], footerArtifact.magic))
	}
	n := binary.LittleEndian.Uint32(p[footPagesOffset:])
	if n == 0 || n > MaxSegmentBytes/PageBytes {
		return 0, footerArtifact.field(footPagesOffset, "%d pages", n)
	}
	return int(n), nil
}

// DecodeFooter reads the footer of a segment that was read from startPage; p
// begins there and may be longer than the footer. The entries do not share
// memory with p. Errors wrap ErrCorrupt or ErrUnsupported.
func DecodeFooter(p []byte, segment uint64, startPage uint32, uuid [16]byte, k sums.Key) ([]FooterEntry, error) {
	n, err := FooterPages(p)
	if err == nil && len(p) < n*PageBytes {
		err = footerArtifact.corrupt(ReasonShort, fmt.Errorf("%d bytes of a footer of %d pages", len(p), n))
	}
	if err != nil {
		return nil, inSegment(err, segment, startPage)
	}
	entries, err := parseFooter(p[:n*PageBytes], trailer{uuid, segment, startPage, uint32(n)}, k)
	return entries, inSegment(err, segment, startPage)
}

// parseFooter reads a whole footer that should be the one that want names.
func parseFooter(p []byte, want trailer, k sums.Key) ([]FooterEntry, error) {
	f, _, err := footerArtifact.open(p, k)
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	got := trailer{[16]byte(p[footUUIDOffset:]), le.Uint64(p[footSegmentOffset:]), le.Uint32(p[footPageOffset:]), want.pages}
	if got != want {
		return nil, footerArtifact.corrupt(ReasonPlace, fmt.Errorf("of %v, want %v", got, want))
	}
	if got, err := getTrailer(p[len(p)-trailerBytes:], k); err != nil || got != want {
		return nil, footerArtifact.field(len(p)-trailerBytes, "the trailer is not this footer's (%v, %v)", got, err)
	}
	size := int64(le.Uint32(p[footBytesOffset:]))
	if FooterBytes(size) != int64(len(p)) {
		return nil, footerArtifact.field(footBytesOffset, "%d bytes of entries in %d pages", size, want.pages)
	}
	end := footEntriesOffset + int(size)
	entries, err := getEntries(p[:end], int64(le.Uint32(p[footCountOffset:])), want.startPage, f)
	if err != nil {
		return nil, err
	}
	if err := footerArtifact.reserved(p[ownOffset:featureOffset], f, ownOffset); err != nil {
		return nil, err
	}
	if err := footerArtifact.reserved(p[footReserved:footEntriesOffset], f, footReserved); err != nil {
		return nil, err
	}
	return entries, footerArtifact.reserved(p[end:len(p)-trailerBytes], f, end)
}

// getEntries reads count entries, which fill p from footEntriesOffset on.
func getEntries(p []byte, count int64, startPage uint32, f Features) ([]FooterEntry, error) {
	if count*int64(FooterEntryBytes(MinHashBytes, 0)) > int64(len(p)) {
		return nil, footerArtifact.field(footCountOffset, "%d entries", count)
	}
	p = bytes.Clone(p) // once for the hashes of all entries
	entries := make([]FooterEntry, count)
	n, page := footEntriesOffset, uint32(1)
	for i := range entries {
		e := &entries[i]
		size, err := getEntry(p[n:], e, f)
		if err == nil {
			err = e.checkOrder(page, startPage)
		}
		if err != nil {
			return nil, footerArtifact.field(n, "entry %d: %w", i, err)
		}
		page = e.EndPage()
		n += size
	}
	if n != len(p) {
		return nil, footerArtifact.field(n, "%d bytes behind the last entry", len(p)-n)
	}
	return entries, nil
}

// getEntry reads the entry at the beginning of p and returns its length. The
// hashes stay in p.
func getEntry(p []byte, e *FooterEntry, f Features) (int, error) {
	if len(p) < entryFixedBytes {
		return 0, fmt.Errorf("cut short")
	}
	le := binary.LittleEndian
	hash, parent := int(p[55]), int(p[56])
	size := FooterEntryBytes(hash, parent)
	if size > len(p) {
		return 0, fmt.Errorf("hashes of %d and %d bytes go beyond the entries", hash, parent)
	}
	keysEnd := entryFixedBytes + hash + parent
	if !f.extended() && !(allZero(p[57:entryFixedBytes]) && allZero(p[keysEnd:size])) {
		return 0, fmt.Errorf("reserved bytes are not zero")
	}
	*e = FooterEntry{
		Page:         le.Uint32(p[0:]),
		PayloadPages: le.Uint32(p[4:]),
		Seq:          le.Uint64(p[8:]),
		HeaderSum:    le.Uint64(p[16:]),
		ContentID:    sums.ContentID(p[24:]),
		RawBytes:     int64(le.Uint32(p[40:])),
		Namespace:    le.Uint32(p[44:]),
		Depth:        le.Uint32(p[48:]),
		HeaderPages:  le.Uint16(p[52:]),
		Kind:         Kind(p[54]),
	}
	parentBegin := entryFixedBytes + hash
	e.Hash = p[entryFixedBytes:parentBegin:parentBegin]
	if parent > 0 {
		e.Parent = p[parentBegin:keysEnd:keysEnd]
	}
	return size, nil
}

// inSegment adds to a CorruptError where its bytes were read.
func inSegment(err error, segment uint64, startPage uint32) error {
	if c, ok := err.(*CorruptError); ok {
		c.Segment = segment
		c.Offset += int64(startPage) * PageBytes
	}
	return err
}
