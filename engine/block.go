package engine

import "github.com/sealstone/sealstone/internal/sums"

// Limits of the format.
const (
	// MinHashBytes and MaxHashBytes bound a block hash.
	MinHashBytes = 16
	MaxHashBytes = 64
	// MaxBlockBytes is the largest raw size of a block.
	MaxBlockBytes = 64 << 20
	// ChunkBytes is the unit of verification.
	ChunkBytes = sums.ChunkBytes
)

// PlaneData is the source of one plane of a block: the concatenation of its
// spans. The store copies it before Put returns; it never writes to it.
type PlaneData struct {
	Name  string
	Spans [][]byte
}

// PutBlock is one block to store.
type PutBlock struct {
	// Hash is the block hash, 16 to 64 bytes.
	Hash []byte
	// Parent is the hash of the block before it in the prefix, or nil at the
	// root. A put marks its parent as used, and gives the block its depth.
	Parent []byte
	// PlainKey, if not empty, is the key that Hash is the KeyHash of, at most
	// 512 bytes. It is kept in the extent's header, for Keys and Stat; a block
	// is found by its hash alone. A key that is stored already keeps what it was
	// stored with.
	PlainKey []byte
	// Planes are the layout's planes, in any order, each exactly once.
	Planes []PlaneData
	// Seal, if not nil, is what the sums must come to: taken by whoever made
	// the bytes. A difference answers LengthMismatch or Corrupt and stores
	// nothing.
	Seal *Seal
}

// PutOptions applies to a batch.
type PutOptions struct {
	// Durable waits until the blocks survive a power cut, not only the end of
	// the process.
	Durable bool

	// bypassHost keeps the blocks out of the cache in memory: an import is no
	// sign that they are about to be read.
	bypassHost bool
}

// PutResult is the outcome for one block of a put.
type PutResult struct {
	Status Status
	Err    error // nil if OK, else a *BlockError
	// Existed: the key was stored already; nothing was written. Differs says
	// that the stored content is another one (the first put wins).
	Existed, Differs bool
	// Shared: an equal block of the tenant was found and an alias written.
	Shared bool
	// Durable: survives a power cut now.
	Durable bool
	// WrittenBytes is what the put appended to a segment, headers included.
	WrittenBytes int64
}

// Part is a destination for one plane of a block, or a byte range of it.
type Part struct {
	// Plane names the plane; "" is allowed where the layout has just one.
	Plane string
	// OffsetBytes is where the range begins within the plane.
	OffsetBytes int64
	// LengthBytes is the length of the range; 0 means to the end of the
	// plane. The spans must add up to exactly the range.
	LengthBytes int64
	// Spans receive the bytes. They must not overlap one another.
	Spans [][]byte
}

// GetBlock is one block to read.
type GetBlock struct {
	Hash  []byte
	Parts []Part
}

// GetOptions applies to a batch.
type GetOptions struct {
	// WantSeal returns each block's seal for the next hop.
	WantSeal bool
	// WaitForDevice lets a device write straight into the caller's memory,
	// where that is memory of Store.NewBuffer, or was made known by
	// Store.RegisterMemory, cut at multiples of 4096 bytes,
	// and a block is wanted whole: the copy is saved. In turn Get returns only
	// when no read is under way any more, past the end of its context if need
	// be; and blocks that are not OK may hold zeros instead of their old bytes.
	// Other destinations are served by a copy as always.
	WaitForDevice bool
}

// GetResult is the outcome for one block of a get. Unless Status is OK, the
// destination holds what it held before (or zeros, see
// GetOptions.WaitForDevice).
type GetResult struct {
	Status Status
	Err    error // nil if OK, else a *BlockError
	// Bytes is what was copied to the caller; VerifiedBytes what was read and
	// verified for it (whole chunks).
	Bytes, VerifiedBytes int64
	// Seal is set if asked for and Status is OK.
	Seal *Seal
}

// Seal is the content of a block in sums: what a sender takes at the source
// and the store checks before commit.
type Seal struct {
	// ContentID is over the number of planes, their raw lengths and ChunkSums.
	ContentID [16]byte
	// PlaneBytes are the raw lengths of the planes in the layout's order.
	PlaneBytes []int64
	// ChunkSums are the XXH64 (seed 0) of each 64 KiB of each plane, in order;
	// a chunk never crosses a plane.
	ChunkSums []uint64
}

// SealOf computes the seal of planes given in the layout's order.
func SealOf(planes ...[]byte) Seal {
	var s Seal
	for _, p := range planes {
		s.PlaneBytes = append(s.PlaneBytes, int64(len(p)))
		s.ChunkSums = sums.Chunks(s.ChunkSums, p)
	}
	s.ContentID = sums.Content(s.PlaneBytes, s.ChunkSums)
	return s
}
