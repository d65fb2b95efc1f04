package host

// counters only grow.
type counters struct {
	hits, misses                       int64
	inserted, evicted, rejected, stale int64
	corrupt                            int64
}

// Stats are figures of a cache. Totals begin when it was made.
type Stats struct {
	// Bytes is what counts against CapacityBytes: blocks, with rounding, and
	// what it takes to find them. LentBytes is the part that readers hold.
	CapacityBytes, Bytes, LentBytes int64
	Blocks                          int64
	Hits, Misses                    int64
	// Inserted blocks came in; Evicted made room for others; Rejected found
	// none; Stale were gone for good, or an older version; Corrupt did not
	// verify.
	Inserted, Evicted, Rejected, Stale, Corrupt int64
}

// Stats gathers the figures.
func (c *Cache) Stats() Stats {
	if c == nil {
		return Stats{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := &c.count
	return Stats{
		CapacityBytes: c.capacityBytes, Bytes: c.heldLocked(), LentBytes: c.lentBytes, Blocks: int64(len(c.blocks)),
		Hits: n.hits, Misses: n.misses, Inserted: n.inserted, Evicted: n.evicted, Rejected: n.rejected,
		Stale: n.stale, Corrupt: n.corrupt,
	}
}
