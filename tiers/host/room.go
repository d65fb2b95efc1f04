package host

import (
	"fmt"
)

const (
	// blockBytes is what the cache holds on the Go heap for a block, beside its
	// planes and sums: the block, its key and hash, its buffer, its place in
	// the table.
	blockBytes = 512
	planeBytes = 24 // of a slice
	sumBytes   = 8
	// metaSteps is how finely the pool's limit follows metaBytes: in as many
	// steps from nothing to the capacity.
	metaSteps = 1024
	// evictBytesMax bounds what is given up for one block, as a multiple of
	// its size: where that does not help, what is left is in use.
	evictBytesMax = 8
)

func metaBytes(planes, chunks int) int64 {
	return blockBytes + planeBytes*int64(planes) + sumBytes*int64(chunks)
}

// heldLocked is what counts against the capacity.
func (c *Cache) heldLocked() int64 {
	return c.poolBytes + c.metaBytes + c.policy.OverheadBytes()
}

// reserve makes room for a block by evicting others, and counts it.
func (c *Cache) reserve(b *Block) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	need, evicted := b.poolBytes+b.metaBytes, int64(0)
	for !c.fitsLocked(b) {
		if evicted > evictBytesMax*need {
			c.count.rejected++
			return fmt.Errorf("%w: %d bytes are held by readers", ErrNoRoom, c.lentBytes)
		}
		n := c.policy.Evict(func(b *Block) bool { return b.readers > 0 })
		if n == nil {
			c.count.rejected++
			return fmt.Errorf("%w: %d bytes are held by readers", ErrNoRoom, c.lentBytes)
		}
		evicted += n.SizeBytes
		c.count.evicted++
		c.uncacheLocked(n.Value)
	}
	c.poolBytes += b.poolBytes
	c.metaBytes += b.metaBytes
	b.readers = 1
	c.lentBytes += b.poolBytes + b.metaBytes
	return nil
}

// fitsLocked reports whether there is room for a block, and sees to it that the
// pool keeps away from what is counted beside it.
func (c *Cache) fitsLocked(b *Block) bool {
	step := max(c.capacityBytes/metaSteps, blockBytes)
	meta := c.metaBytes + b.metaBytes + c.policy.OverheadBytes()
	limit := (meta + 2*step - 1) / step * step // a step ahead, for what eviction remembers
	if c.poolBytes+b.poolBytes+limit > c.capacityBytes {
		return false
	}
	if limit != c.metaLimit {
		c.metaLimit = limit
		c.pool.SetLimit(c.capacityBytes - limit)
	}
	return true
}

// lendLocked counts a reader.
func (c *Cache) lendLocked(b *Block) {
	if b.readers == 0 {
		c.lentBytes += b.poolBytes + b.metaBytes
	}
	b.readers++
}

func (c *Cache) releaseLocked(b *Block) {
	if b.readers--; b.readers > 0 {
		return
	}
	c.lentBytes -= b.poolBytes + b.metaBytes
	if !b.cached {
		c.freeLocked(b)
	}
}

// removeLocked takes a block out of the cache.
func (c *Cache) removeLocked(b *Block) {
	c.policy.Remove(&b.node)
	c.uncacheLocked(b)
}

// uncacheLocked is removeLocked for a block that the policy has let go.
func (c *Cache) uncacheLocked(b *Block) {
	delete(c.blocks, b.key)
	b.cached = false
	if b.readers == 0 {
		c.freeLocked(b)
	}
}

func (c *Cache) freeLocked(b *Block) {
	if b.buf != nil {
		b.buf.Free()
		b.buf, b.planes = nil, nil
	}
	c.poolBytes -= b.poolBytes
	c.metaBytes -= b.metaBytes
}

// giveBack ends a reservation for which there was no memory.
func (c *Cache) giveBack(b *Block) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count.rejected++
	c.releaseLocked(b)
}

func (c *Cache) reject() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count.rejected++
}
