package disk

import (
	"github.com/sealstone/sealstone/internal/sums"
)

// The limits of an extent. They are part of the format.
const (
	MaxBlockBytes    = 64 << 20 // raw bytes of all planes together; at least 1
	MaxPlanes        = 256      // at least 1; a plane may be empty
	MaxPlaneName     = 64       // bytes; at least 1
	MinHashBytes     = 16
	MaxHashBytes     = 64
	MaxPlainKeyBytes = 512
	// MaxHeaderPages holds the header of the largest extent there can be:
	// 256 planes of long names and 1,280 compressed chunks.
	MaxHeaderPages = 16
	// MaxPayloadPages is a block of the largest size whose planes all end
	// just behind a page boundary.
	MaxPayloadPages = MaxBlockBytes/PageBytes + MaxPlanes
)

// Kind says what an extent holds.
type Kind uint8

const (
	// KindFull: header and payload of one block.
	KindFull Kind = 1
	// KindAlias: a header only. The payload is that of another extent with
	// the same content id.
	KindAlias Kind = 2
)

// String returns the kind's name.
func (k Kind) String() string {
	switch k {
	case KindFull:
		return "full"
	case KindAlias:
		return "alias"
	}
	return "unknown kind"
}

// The codecs: how the bytes of chunks are stored. Each chunk is compressed by
// itself, and stored as it is where that would not make it shorter.
const (
	CodecRaw  uint8 = 0 // as they are
	CodecZstd uint8 = 1 // a Zstandard frame of one block: see checkZstdFrame
	CodecS2   uint8 = 2 // an S2 block
)

// Plane is a named part of a block.
type Plane struct {
	Name        string // 1 to MaxPlaneName bytes
	RawBytes    int64  // as the caller gave them
	OffsetBytes int64  // of the stored bytes in the payload, a multiple of PageBytes
	StoredBytes int64  // on disk, padding left out; RawBytes with CodecRaw
}

// Chunk is one entry of the chunk table: the chunks of the first plane in
// order, then those of the second, and so on.
type Chunk struct {
	RawSum      uint64 // sums.Chunk of the raw bytes
	StoredBytes uint32 // compressed codecs only, else 0; equal to the raw length where stored raw
	StoredSum   uint64 // compressed codecs only, else 0: sums.Chunk of the stored bytes
}

// Extent is the header of an extent: everything that is known of a block but
// its bytes. An alias has the planes and chunk table of its content, so that
// its target's payload is verified against it, and no payload of its own.
type Extent struct {
	Features     Features
	Kind         Kind
	Codec        uint8
	StoreUUID    [16]byte
	Address      Address // where this header stands
	Seq          uint64  // put sequence; a move keeps it
	Namespace    uint32
	Depth        uint32 // distance from the root of the prefix, in blocks
	Hash         []byte // block hash, MinHashBytes to MaxHashBytes
	Parent       []byte // hash of the parent block, empty for a root
	PlainKey     []byte // the key that Hash is the SHA-256 of; empty for most
	ContentID    sums.ContentID
	Planes       []Plane
	Chunks       []Chunk
	HeaderPages  uint16
	PayloadPages uint32  // 0 for an alias
	Target       Address // alias: where the content was at that time; a hint, the content id decides
}

// RawBytes returns the size of the block: the raw bytes of all planes.
func (e *Extent) RawBytes() int64 {
	var n int64
	for i := range e.Planes {
		n += e.Planes[i].RawBytes
	}
	return n
}

// Pages returns the size of the extent on disk, in pages.
func (e *Extent) Pages() int { return int(e.HeaderPages) + int(e.PayloadPages) }

// HeaderPages returns how many pages the header of e takes, from the lengths
// of its fields and the raw lengths of its planes; it needs no layout.
func HeaderPages(e *Extent) int {
	return int(pages(int64(chunkTableOffset(e) + rawChunkCount(e)*chunkEntryBytes(e.Codec))))
}

// Layout fills in what follows from kind, keys and the planes' names and raw
// lengths with CodecRaw: the planes' offsets and stored lengths, HeaderPages,
// PayloadPages, and a chunk table of the right length. Sums that already
// stand in the table stay. The caller then sets sums, content id and address.
// Planes beyond the limits get no chunk table; EncodeExtent refuses them.
func (e *Extent) Layout() {
	e.Codec = CodecRaw
	var offset int64
	for i := range e.Planes {
		p := &e.Planes[i]
		p.OffsetBytes, p.StoredBytes = offset, p.RawBytes
		offset += pages(p.StoredBytes) * PageBytes
	}
	n := 0
	if e.checkPlanes() == nil {
		n = rawChunkCount(e)
	}
	for len(e.Chunks) < n {
		e.Chunks = append(e.Chunks, Chunk{})
	}
	e.Chunks = e.Chunks[:n]
	e.setPages(offset)
}

// LayoutStored is Layout for a codec other than CodecRaw: the chunk table is
// complete, and planes and pages follow from its stored lengths.
func (e *Extent) LayoutStored(codec uint8) {
	e.Codec = codec
	var offset int64
	next := 0
	for i := range e.Planes {
		p := &e.Planes[i]
		p.OffsetBytes, p.StoredBytes = offset, 0
		for range sums.ChunkCount(p.RawBytes) {
			p.StoredBytes += int64(e.Chunks[next].StoredBytes)
			next++
		}
		offset += pages(p.StoredBytes) * PageBytes
	}
	e.setPages(offset)
}

// Repage sets HeaderPages and PayloadPages anew after kind or keys changed;
// the planes stay where they are, whatever the codec.
func (e *Extent) Repage() {
	e.setPages(int64(e.PayloadSpanPages()) * PageBytes)
}

func (e *Extent) setPages(payloadBytes int64) {
	e.HeaderPages = uint16(HeaderPages(e))
	e.PayloadPages = 0
	if e.Kind == KindFull {
		e.PayloadPages = uint32(payloadBytes / PageBytes)
	}
}

// rawChunkCount returns the number of chunks that the planes have.
func rawChunkCount(e *Extent) int {
	n := 0
	for i := range e.Planes {
		n += sums.ChunkCount(e.Planes[i].RawBytes)
	}
	return n
}
