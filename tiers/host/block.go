package host

import (
	"errors"
	"fmt"

	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/internal/sums"
	"github.com/sealstone/sealstone/tiers/host/s3fifo"
)

// ErrCorrupt: a block in memory does not match its sums.
var ErrCorrupt = errors.New("host: block in memory does not verify")

// planeAlign is where planes begin: at lines of the processor's cache.
const planeAlign = 64

// Block is a block in memory, held by whoever got it until Release. Its bytes
// may be written only between New and Insert.
type Block struct {
	c       *Cache
	buf     *aligned.Buffer
	planes  [][]byte
	sums    []uint64
	content sums.ContentID

	// Guarded by Cache.mu.
	node      s3fifo.Node[*Block]
	key       Key
	version   Version
	cached    bool // the cache holds it
	readers   int
	poolBytes int64
	metaBytes int64
}

// Planes are the block's bytes, by plane.
func (b *Block) Planes() [][]byte { return b.planes }

// ChunkSums are the sums of the chunks of all planes, in order.
func (b *Block) ChunkSums() []uint64 { return b.sums }

// Content is the block's content id.
func (b *Block) Content() sums.ContentID { return b.content }

// RawBytes is the size of all planes together.
func (b *Block) RawBytes() (n int64) {
	for _, p := range b.planes {
		n += int64(len(p))
	}
	return n
}

// SetSums says what the bytes must come to, before Insert. The slice is copied.
func (b *Block) SetSums(chunks []uint64, content sums.ContentID) {
	b.sums = append(b.sums[:0], chunks...)
	b.content = content
}

// VerifySums holds the chunk sums against the content id: what a flip in
// either would hide.
func (b *Block) VerifySums() error {
	lens := make([]int64, len(b.planes))
	for i, p := range b.planes {
		lens[i] = int64(len(p))
	}
	if got := sums.Content(lens, b.sums); got != b.content {
		return fmt.Errorf("%w: its chunk sums come to the content id %s, it has %s", ErrCorrupt, got, b.content)
	}
	return nil
}

// VerifyRange verifies the chunks that hold bytes [off, off+n) of a plane, and
// returns how many bytes those are. VerifySums comes first.
func (b *Block) VerifyRange(plane int, off, n int64) (verifiedBytes int64, err error) {
	first := 0
	for _, p := range b.planes[:plane] {
		first += sums.ChunkCount(int64(len(p)))
	}
	p := b.planes[plane]
	if off < 0 || n < 0 || n > int64(len(p)) || off > int64(len(p))-n {
		return 0, fmt.Errorf("host: bytes %d to %d are outside a plane of %d", off, off+n, len(p))
	}
	for at := off / sums.ChunkBytes * sums.ChunkBytes; at < off+n; at += sums.ChunkBytes {
		chunk := p[at:min(at+sums.ChunkBytes, int64(len(p)))]
		i := first + int(at/sums.ChunkBytes)
		if i >= len(b.sums) || sums.Chunk(chunk) != b.sums[i] {
			return verifiedBytes, fmt.Errorf("%w: chunk %d of %d", ErrCorrupt, i, len(b.sums))
		}
		verifiedBytes += int64(len(chunk))
	}
	return verifiedBytes, nil
}

// Verify verifies all of the block.
func (b *Block) Verify() error {
	if err := b.VerifySums(); err != nil {
		return err
	}
	for i, p := range b.planes {
		if _, err := b.VerifyRange(i, 0, int64(len(p))); err != nil {
			return err
		}
	}
	return nil
}

// Retain holds the block once more: it takes one more Release.
func (b *Block) Retain() {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	b.readers++
}

// Release gives up the block: its bytes must not be looked at any more by this
// holder.
func (b *Block) Release() {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	b.c.releaseLocked(b)
}

// layOut cuts a buffer into planes.
func layOut(buf []byte, planeBytes []int64) [][]byte {
	planes := make([][]byte, len(planeBytes))
	at := int64(0)
	for i, n := range planeBytes {
		planes[i] = buf[at : at+n : at+n]
		at += alignUp(n)
	}
	return planes
}

func alignUp(n int64) int64 { return (n + planeAlign - 1) &^ (planeAlign - 1) }
