package host

import (
	"errors"
	"fmt"
	"hash/maphash"
	"sync"

	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/internal/sums"
	"github.com/sealstone/sealstone/tiers/host/s3fifo"
)

// Why a block gets no room.
var (
	// ErrTooLarge: it would take more than a quarter of the cache.
	ErrTooLarge = errors.New("host: block is too large for the cache")
	// ErrNoRoom: what could be evicted is in use.
	ErrNoRoom = errors.New("host: no room in the cache")
	// ErrClosed: the cache was closed.
	ErrClosed = errors.New("host: cache is closed")
	// ErrInvalid: a block without planes, or with an empty one.
	ErrInvalid = errors.New("host: invalid block")
)

// largestShare is the part of the cache that one block may take.
const largestShare = 4

// Key names a block: a number of its namespace, and its hash.
type Key struct {
	Space uint32
	Hash  string
}

// Version says which block of a key is meant: the put's sequence, of which the
// higher is the newer, and half of the content id.
type Version struct {
	Seq     uint64
	Content [8]byte
}

// Cache is a bounded cache of blocks. It is safe for concurrent use; a nil
// Cache holds nothing and misses everything.
type Cache struct {
	capacityBytes int64
	pool          *aligned.Pool
	seed          maphash.Seed

	mu     sync.Mutex
	blocks map[Key]*Block
	policy *s3fifo.Policy[*Block]
	// poolBytes and metaBytes are those of all blocks, also of those that only
	// readers hold.
	poolBytes, metaBytes int64
	metaLimit            int64 // what the pool's limit leaves free for metaBytes
	lentBytes            int64
	closed               bool
	count                counters
}

// New makes a cache that holds at most capacityBytes.
func New(capacityBytes int64) *Cache {
	return &Cache{
		capacityBytes: capacityBytes, pool: aligned.NewPool(capacityBytes), seed: maphash.MakeSeed(),
		blocks: map[Key]*Block{}, policy: s3fifo.New[*Block](capacityBytes),
	}
}

// Get returns the block of a key if it is there in this version, to be
// released. An older version than asked for is removed: it will not be asked
// for again.
func (c *Cache) Get(k Key, v Version) *Block {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.blocks[k]
	if b == nil || b.version != v {
		if b != nil && b.version.Seq < v.Seq {
			c.count.stale++
			c.removeLocked(b)
		}
		c.count.misses++
		return nil
	}
	c.count.hits++
	c.policy.Use(&b.node)
	c.lendLocked(b)
	return b
}

// New takes memory for a block with planes of these sizes, evicting others for
// it. The caller fills the planes and says with SetSums what they come to, and
// releases the block after Insert, or instead of it.
func (c *Cache) New(planeBytes []int64) (*Block, error) {
	if c == nil {
		return nil, ErrClosed
	}
	b := &Block{c: c}
	size, chunks := int64(0), 0
	for _, n := range planeBytes {
		if n <= 0 {
			return nil, fmt.Errorf("%w: planes of %v bytes", ErrInvalid, planeBytes)
		}
		size += alignUp(n)
		chunks += sums.ChunkCount(n)
	}
	if size == 0 {
		return nil, fmt.Errorf("%w: no plane", ErrInvalid)
	}
	if size > c.capacityBytes/largestShare {
		c.reject()
		return nil, fmt.Errorf("%w: %d bytes, the cache holds %d", ErrTooLarge, size, c.capacityBytes)
	}
	b.poolBytes, b.metaBytes = aligned.TakenBytes(int(size)), metaBytes(len(planeBytes), chunks)
	if err := c.reserve(b); err != nil {
		return nil, err
	}
	var err error
	if b.buf, err = c.pool.TryGet(int(size)); err != nil {
		c.giveBack(b)
		return nil, fmt.Errorf("%w: %w", ErrNoRoom, err)
	}
	b.planes = layOut(b.buf.Bytes(), planeBytes)
	b.sums = make([]uint64, 0, chunks)
	return b, nil
}

// Insert makes a block that came from New, and is whole, the one of a key. An
// equal or newer version that is there already stays. The caller still holds
// the block.
func (c *Cache) Insert(k Key, v Version, b *Block) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || b.cached {
		return
	}
	if old := c.blocks[k]; old != nil {
		if old.version.Seq >= v.Seq {
			return
		}
		c.count.stale++
		c.removeLocked(old)
	}
	b.key, b.version, b.cached = k, v, true
	b.node = s3fifo.Node[*Block]{Value: b, ID: maphash.Comparable(c.seed, k), SizeBytes: b.poolBytes}
	c.blocks[k] = b
	c.policy.Add(&b.node)
	c.count.inserted++
}

// Corrupt removes a block that did not verify; its holder still has to release
// it.
func (c *Cache) Corrupt(b *Block) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count.corrupt++
	if b.cached {
		c.removeLocked(b)
	}
}

// Remove forgets a block that is gone, unless a later put of the key is here.
func (c *Cache) Remove(k Key, seq uint64) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if b := c.blocks[k]; b != nil && b.version.Seq <= seq {
		c.count.stale++
		c.removeLocked(b)
	}
}

// Close removes all blocks; what readers still hold stays until they release
// it. A second Close does nothing.
func (c *Cache) Close() {
	if c == nil {
		return
	}
	c.mu.Lock()
	c.closed = true
	for _, b := range c.blocks {
		c.removeLocked(b)
	}
	c.mu.Unlock()
	_ = c.pool.Close() // blocks that are lent are no leak
}
