package engine

// HostStats are figures of the cache in memory (Options.HostCacheBytes),
// counted apart from those of the disk.
type HostStats struct {
	// CapacityBytes is the bound, 0 without a cache. Bytes counts against it:
	// blocks with what rounding adds, and what the cache needs to find them.
	CapacityBytes, Bytes int64
	Blocks               int64
	// LentBytes is the part of Bytes that readers and views hold right now.
	LentBytes int64
	// Hits and Misses count blocks that a get or a view looked for here. Blocks
	// that the index does not hold are not looked for. A hit is verified.
	Hits, Misses int64
	// ServedBytes were given to callers, VerifiedBytes verified for that.
	ServedBytes, VerifiedBytes int64
	// Inserted blocks came in by a put or a get; Evicted made room for others;
	// Rejected found no room, or are too large; Stale were removed because the
	// index holds the block no more, or another one.
	Inserted, Evicted, Rejected, Stale int64
	// Corrupt blocks did not verify in memory. They were removed and read from
	// disk instead.
	Corrupt int64
}
