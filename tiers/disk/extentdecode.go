package disk

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/sealstone/sealstone/internal/sums"
)

// PeekExtent returns how many pages the header has that begins at p, which
// has at least the first page. It looks at the magic and this one number
// only, both of which keep their place in every version: nothing is verified
// yet. Errors wrap ErrCorrupt.
func PeekExtent(p []byte) (headerPages int, err error) {
	if len(p) < PageBytes {
		return 0, extentHeader.corrupt(ReasonShort, nil)
	}
	if !extentHeader.hasMagic(p) {
		return 0, extentHeader.corrupt(ReasonMagic, fmt.Errorf("found %q, want %q", p[:magicBytes], extentHeader.magic))
	}
	n := int(binary.LittleEndian.Uint16(p[ownOffset:]))
	if n == 0 || n > MaxHeaderPages {
		return 0, extentHeader.field(ownOffset, "%d header pages", n)
	}
	return n, nil
}

// headerBytes returns the pages of the header that begins at p.
func headerBytes(p []byte) ([]byte, error) {
	n, err := PeekExtent(p)
	if err != nil {
		return nil, err
	}
	if len(p) < n*PageBytes {
		return nil, extentHeader.corrupt(ReasonShort, fmt.Errorf("%d bytes of a header of %d pages", len(p), n))
	}
	return p[:n*PageBytes], nil
}

// DecodeExtent reads the header that begins at p, which may be longer, and
// verifies it by the sum that stands in it. That finds every damage, and not
// a header that is sound and stands in the wrong place: compare the address,
// or use DecodeExtentExpect. Errors wrap ErrCorrupt or ErrUnsupported.
func DecodeExtent(p []byte, k sums.Key) (e *Extent, headerSum uint64, err error) {
	p, err = headerBytes(p)
	if err != nil {
		return nil, 0, err
	}
	f, sum, err := extentHeader.open(p, k)
	if err != nil {
		return nil, 0, err
	}
	e, err = parseExtent(p, f)
	if err != nil {
		return nil, 0, err
	}
	return e, sum, nil
}

// DecodeExtentExpect reads the header that begins at p, which was read from
// at, and verifies it by the sum that the index holds: the bytes are those
// that were written for this entry, or an error says what they are instead.
// Errors wrap ErrCorrupt, with at in them, or ErrUnsupported.
func DecodeExtentExpect(p []byte, k sums.Key, want uint64, at Address, uuid [16]byte) (*Extent, error) {
	e, err := decodeExpect(p, k, want, at, uuid)
	if c, ok := err.(*CorruptError); ok {
		c.Segment = at.Segment
		c.Offset += at.Offset()
	}
	return e, err
}

func decodeExpect(p []byte, k sums.Key, want uint64, at Address, uuid [16]byte) (*Extent, error) {
	p, err := headerBytes(p)
	if err != nil {
		return nil, err
	}
	sum, stored := extentHeader.sum(p, k), storedSum(p)
	switch {
	case sum == want && stored == want:
	case sum == want:
		return nil, extentHeader.corrupt(ReasonSum, fmt.Errorf("the sum field itself: stored %016x, computed and expected %016x", stored, want))
	case sum == stored:
		return nil, extentHeader.corrupt(ReasonStale, fmt.Errorf("sum %016x, expected %016x; it says it is at %v", sum, want, extentAddress(p)))
	default:
		return nil, extentHeader.corrupt(ReasonSum, fmt.Errorf("stored %016x, computed %016x, expected %016x", stored, sum, want))
	}
	f, err := extentHeader.features(p)
	if err != nil {
		return nil, err
	}
	e, err := parseExtent(p, f)
	if err != nil {
		return nil, err
	}
	if e.StoreUUID != uuid {
		return nil, extentHeader.corrupt(ReasonPlace, fmt.Errorf("of store %x, want %x", e.StoreUUID, uuid))
	}
	if e.Address != at {
		return nil, extentHeader.corrupt(ReasonPlace, fmt.Errorf("of %v, want %v", e.Address, at))
	}
	return e, nil
}

// extentAddress reads where a header says that it stands.
func extentAddress(p []byte) Address {
	return Address{
		Segment: binary.LittleEndian.Uint64(p[extSegmentOffset:]),
		Page:    binary.LittleEndian.Uint32(p[extPageOffset:]),
	}
}

// parseExtent reads a whole header whose sum is valid. It still trusts no
// length: a sum says that bytes are as written, not that they were well made.
func parseExtent(p []byte, f Features) (*Extent, error) {
	e := &Extent{Features: f}
	getExtentFixed(p, e)
	if !knownCodec(e.Codec) {
		return nil, &UnsupportedError{What: extentHeader.what, Version: FormatVersion, Detail: fmt.Sprintf("codec %d", e.Codec)}
	}
	n, err := getKeys(p, e)
	if err != nil {
		return nil, err
	}
	n, err = getPlanes(p, n, e)
	if err != nil {
		return nil, err
	}
	if err := extentHeader.reserved(p[n:align8(n)], f, n); err != nil {
		return nil, err
	}
	n, err = getChunks(p, align8(n), e)
	if err != nil {
		return nil, err
	}
	if err := e.check(); err != nil {
		return nil, extentHeader.field(0, "%w", err)
	}
	if err := extentHeader.reserved(p[extReservedOffset:extFixedBytes], f, extReservedOffset); err != nil {
		return nil, err
	}
	return e, extentHeader.reserved(p[n:], f, n)
}

// getExtentFixed reads the fields at fixed offsets behind the preamble.
func getExtentFixed(p []byte, e *Extent) {
	le := binary.LittleEndian
	e.HeaderPages = le.Uint16(p[ownOffset:])
	e.StoreUUID = [16]byte(p[extUUIDOffset:])
	e.Address = extentAddress(p)
	e.PayloadPages = le.Uint32(p[extPayloadPagesOffset:])
	e.Seq = le.Uint64(p[extSeqOffset:])
	e.Namespace = le.Uint32(p[extNamespaceOffset:])
	e.Depth = le.Uint32(p[extDepthOffset:])
	e.ContentID = sums.ContentID(p[extContentOffset:])
	e.Target.Segment = le.Uint64(p[extTargetOffset:])
	e.Target.Page = le.Uint32(p[extTargetOffset+8:])
	e.Kind = Kind(p[extKindOffset])
	e.Codec = p[extCodecOffset]
}

// getKeys reads hash, parent and plain key into one allocation and returns
// where the planes begin. A header page always has room for all three.
func getKeys(p []byte, e *Extent) (int, error) {
	hash, parent := int(p[extHashLenOffset]), int(p[extParentLenOffset])
	key := int(binary.LittleEndian.Uint16(p[extKeyLenOffset:]))
	if hash > MaxHashBytes || parent > MaxHashBytes || key > MaxPlainKeyBytes {
		return 0, extentHeader.field(extHashLenOffset, "keys of %d, %d and %d bytes", hash, parent, key)
	}
	end := extFixedBytes + hash + parent + key
	b := bytes.Clone(p[extFixedBytes:end])
	e.Hash = b[:hash:hash]
	if parent > 0 {
		e.Parent = b[hash : hash+parent : hash+parent]
	}
	if key > 0 {
		e.PlainKey = b[hash+parent:]
	}
	return end, nil
}

// getPlanes reads the planes from offset n and returns where they end. Their
// names are cut out of one string.
func getPlanes(p []byte, n int, e *Extent) (int, error) {
	count := int(binary.LittleEndian.Uint16(p[extPlanesOffset:]))
	if count > MaxPlanes || count*(planeFixedBytes+1) > len(p)-n {
		return 0, extentHeader.field(extPlanesOffset, "%d planes", count)
	}
	begin, end := n, n
	for i := range count {
		if end >= len(p) || planeFixedBytes+int(p[end]) > len(p)-end {
			return 0, extentHeader.field(end, "plane %d goes beyond the header", i)
		}
		end += planeFixedBytes + int(p[end])
	}
	table := string(p[begin:end])
	e.Planes = make([]Plane, count)
	for i := range e.Planes {
		nameEnd := n + 1 + int(p[n])
		e.Planes[i] = Plane{
			Name:        table[n+1-begin : nameEnd-begin],
			RawBytes:    int64(binary.LittleEndian.Uint32(p[nameEnd:])),
			StoredBytes: int64(binary.LittleEndian.Uint32(p[nameEnd+4:])),
			OffsetBytes: int64(binary.LittleEndian.Uint32(p[nameEnd+8:])),
		}
		n = nameEnd + 12
	}
	return n, nil
}

// getChunks reads the chunk table at offset n and returns where it ends.
func getChunks(p []byte, n int, e *Extent) (int, error) {
	count := int64(binary.LittleEndian.Uint32(p[extChunksOffset:]))
	size := chunkEntryBytes(e.Codec)
	if n > len(p) || count*int64(size) > int64(len(p)-n) {
		return 0, extentHeader.field(extChunksOffset, "%d chunks", count)
	}
	e.Chunks = make([]Chunk, count)
	for i := range e.Chunks {
		entry := p[n:]
		e.Chunks[i].RawSum = binary.LittleEndian.Uint64(entry)
		if e.Codec != CodecRaw {
			e.Chunks[i].StoredSum = binary.LittleEndian.Uint64(entry[8:])
			e.Chunks[i].StoredBytes = binary.LittleEndian.Uint32(entry[16:])
			if binary.LittleEndian.Uint32(entry[20:]) != 0 && !e.Features.extended() {
				return 0, extentHeader.field(n+20, "reserved bytes are not zero")
			}
		}
		n += size
	}
	return n, nil
}
