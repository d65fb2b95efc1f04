package aligned

// counters are totals since the pool was made.
type counters struct {
	mapped, returned uint64 // bytes
}

// Memory is what a pool holds at one moment.
type Memory struct {
	// InUseBytes are given out in InUseBuffers, with what they were rounded up
	// by; CachedBytes are held for the next request. Both stay within
	// LimitBytes.
	InUseBytes, CachedBytes, LimitBytes int64
	InUseBuffers, Waiting               int
	// MappedBytes are addresses in Slabs; those without memory behind them
	// cost nothing.
	MappedBytes int64
	Slabs       int
	// Huge is the best kind of pages that slabs were mapped with, or would be.
	// HugeReason says why it is no better one. How much of it really is huge
	// only /proc/self/smaps tells (AnonHugePages, Private_Hugetlb).
	Huge       Huge
	HugeReason string
	// MappedTotalBytes and ReturnedTotalBytes only grow: addresses mapped, and
	// memory that went back to the kernel while the pool was open.
	MappedTotalBytes, ReturnedTotalBytes uint64
}

// Stats is what the pool holds now, in bytes: given out, cached, and the
// limit on both together.
func (p *Pool) Stats() (inUse, cached, limit int64) {
	m := p.Memory()
	return m.InUseBytes, m.CachedBytes, m.LimitBytes
}

// Memory is Stats in full.
func (p *Pool) Memory() Memory {
	if p == nil {
		return Memory{Huge: HugeNone}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	m := Memory{
		InUseBytes: p.inUseBytes, CachedBytes: p.cachedBytes, LimitBytes: p.o.LimitBytes,
		InUseBuffers: int(p.inUseCount), Waiting: len(p.waiters), Slabs: len(p.slabs),
		Huge: p.kind, HugeReason: p.hugeReason,
		MappedTotalBytes: p.count.mapped, ReturnedTotalBytes: p.count.returned,
	}
	for _, s := range p.slabs {
		m.MappedBytes += int64(len(s.mem))
		if s.kind == HugeTLB {
			m.Huge = HugeTLB
		}
	}
	return m
}
