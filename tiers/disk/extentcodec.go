package disk

import (
	"encoding/binary"

	"github.com/sealstone/sealstone/internal/sums"
)

// An extent header takes one or more pages; the payload follows at once.
//
//	┌───────────────────────────────────────────────────────────────┐
//	│   0  preamble "SLSTEXTN" 32   own field: header pages u16     │
//	│  32  store uuid          16 │ 108  kind                     1 │
//	│  48  segment id           8 │ 109  codec                    1 │
//	│  56  page                 4 │ 110  hash length              1 │
//	│  60  payload pages        4 │ 111  parent length            1 │
//	│  64  put sequence         8 │ 112  plain key length         2 │
//	│  72  namespace            4 │ 114  plane count              2 │
//	│  76  depth                4 │ 116  chunk count              4 │
//	│  80  content id          16 │ 120  zero                     8 │
//	│  96  target segment       8 │ 128  hash, parent, plain key    │
//	│ 104  target page          4 │      planes, zero to 8, chunks  │
//	└───────────────────────────────────────────────────────────────┘
//	plane: name length u8 │ name │ raw bytes u32 │ stored bytes u32 │ payload offset u32
//	chunk: raw sum u64; with a codec then: stored sum u64 │ stored bytes u32 │ zero u32
//
// The rest of the last page is zero.
var extentHeader = artifact{"extent header", "SLSTEXTN", sums.DomainExtentHeader}

const (
	extUUIDOffset         = 32
	extSegmentOffset      = 48
	extPageOffset         = 56
	extPayloadPagesOffset = 60
	extSeqOffset          = 64
	extNamespaceOffset    = 72
	extDepthOffset        = 76
	extContentOffset      = 80
	extTargetOffset       = 96
	extKindOffset         = 108
	extCodecOffset        = 109
	extHashLenOffset      = 110
	extParentLenOffset    = 111
	extKeyLenOffset       = 112
	extPlanesOffset       = 114
	extChunksOffset       = 116
	extReservedOffset     = 120
	extFixedBytes         = 128

	planeFixedBytes = 1 + 4 + 4 + 4
)

// chunkEntryBytes returns the size of an entry of the chunk table.
func chunkEntryBytes(codec uint8) int {
	if codec == CodecRaw {
		return 8
	}
	return 24
}

// chunkTableOffset returns where the chunk table of e begins.
func chunkTableOffset(e *Extent) int {
	n := extFixedBytes + len(e.Hash) + len(e.Parent) + len(e.PlainKey)
	for i := range e.Planes {
		n += planeFixedBytes + len(e.Planes[i].Name)
	}
	return align8(n)
}

// align8 rounds n up to a multiple of 8.
func align8(n int) int { return (n + 7) &^ 7 }

// EncodeExtent writes the header of e, which is laid out, into dst, which has
// e.HeaderPages pages; their rest is zeroed. It returns the header sum, to be
// kept in the index. Errors wrap ErrInvalid.
func EncodeExtent(dst []byte, e *Extent, k sums.Key) (headerSum uint64, err error) {
	if !knownCodec(e.Codec) {
		return 0, invalidf("encode extent header: codec %d", e.Codec)
	}
	if err := e.check(); err != nil {
		return 0, invalidf("encode extent header: %v", err)
	}
	if want := int(e.HeaderPages) * PageBytes; len(dst) != want {
		return 0, invalidf("encode extent header: %d bytes of room, want %d", len(dst), want)
	}
	clear(dst)
	if err := extentHeader.begin(dst, e.Features); err != nil {
		return 0, err
	}
	putExtentFixed(dst, e)
	n := extFixedBytes
	n += copy(dst[n:], e.Hash)
	n += copy(dst[n:], e.Parent)
	n += copy(dst[n:], e.PlainKey)
	for i := range e.Planes {
		n += putPlane(dst[n:], &e.Planes[i])
	}
	putChunks(dst[align8(n):], e)
	return extentHeader.seal(dst, k), nil
}

// putExtentFixed writes the fields at fixed offsets behind the preamble.
func putExtentFixed(dst []byte, e *Extent) {
	le := binary.LittleEndian
	le.PutUint16(dst[ownOffset:], e.HeaderPages)
	copy(dst[extUUIDOffset:], e.StoreUUID[:])
	le.PutUint64(dst[extSegmentOffset:], e.Address.Segment)
	le.PutUint32(dst[extPageOffset:], e.Address.Page)
	le.PutUint32(dst[extPayloadPagesOffset:], e.PayloadPages)
	le.PutUint64(dst[extSeqOffset:], e.Seq)
	le.PutUint32(dst[extNamespaceOffset:], e.Namespace)
	le.PutUint32(dst[extDepthOffset:], e.Depth)
	copy(dst[extContentOffset:], e.ContentID[:])
	le.PutUint64(dst[extTargetOffset:], e.Target.Segment)
	le.PutUint32(dst[extTargetOffset+8:], e.Target.Page)
	dst[extKindOffset] = byte(e.Kind)
	dst[extCodecOffset] = e.Codec
	dst[extHashLenOffset] = byte(len(e.Hash))
	dst[extParentLenOffset] = byte(len(e.Parent))
	le.PutUint16(dst[extKeyLenOffset:], uint16(len(e.PlainKey)))
	le.PutUint16(dst[extPlanesOffset:], uint16(len(e.Planes)))
	le.PutUint32(dst[extChunksOffset:], uint32(len(e.Chunks)))
}

// putPlane writes one plane and returns its length.
func putPlane(dst []byte, p *Plane) int {
	dst[0] = byte(len(p.Name))
	n := 1 + copy(dst[1:], p.Name)
	binary.LittleEndian.PutUint32(dst[n:], uint32(p.RawBytes))
	binary.LittleEndian.PutUint32(dst[n+4:], uint32(p.StoredBytes))
	binary.LittleEndian.PutUint32(dst[n+8:], uint32(p.OffsetBytes))
	return n + 12
}

// putChunks writes the chunk table.
func putChunks(dst []byte, e *Extent) {
	size := chunkEntryBytes(e.Codec)
	for i := range e.Chunks {
		entry := dst[i*size:]
		binary.LittleEndian.PutUint64(entry, e.Chunks[i].RawSum)
		if e.Codec != CodecRaw {
			binary.LittleEndian.PutUint64(entry[8:], e.Chunks[i].StoredSum)
			binary.LittleEndian.PutUint32(entry[16:], e.Chunks[i].StoredBytes)
		}
	}
}
