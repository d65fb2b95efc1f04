package aligned

import (
	"slices"
	"time"
)

// addSlab maps a slab that has room for pages. p.mu is held.
func (p *Pool) addSlab(pages, node int) (*slab, error) {
	size := max(p.slabBytes, int(bytesOf(pages)))
	s, err := p.hugeTLB(pages, node)
	if s == nil {
		if p.kind == HugeTHP {
			size = roundUp(size, HugePageBytes)
		}
		s, err = newSlab(size, p.kind, node, p.nodes > 1)
	}
	if err != nil {
		return nil, err
	}
	p.slabs = append(p.slabs, s)
	p.cachedBytes += bytesOf(s.warmPages)
	p.count.mapped += uint64(len(s.mem))
	return s, nil
}

// hugeTLB maps a slab of hugetlb pages if that is wanted and can be had within
// the limit, of half the size where there are too few. They are all there from
// the start, so idle memory must make room first.
func (p *Pool) hugeTLB(pages, node int) (*slab, error) {
	if !p.o.HugeTLB || p.o.LimitBytes < HugePageBytes {
		return nil, nil
	}
	least := roundUp(int(bytesOf(pages)), HugePageBytes)
	if int64(least) > p.o.LimitBytes-p.inUseBytes-p.cachedBytes {
		p.trim(max(0, p.o.LimitBytes-p.inUseBytes-int64(least)))
	}
	room := p.o.LimitBytes - p.inUseBytes - p.cachedBytes
	size := int(min(room, int64(max(p.slabBytes, least)))) / HugePageBytes * HugePageBytes
	for ; size >= least; size = size / 2 / HugePageBytes * HugePageBytes {
		s, err := newSlab(size, HugeTLB, node, p.nodes > 1)
		if err == nil {
			return s, nil
		}
		p.hugeReason = err.Error()
	}
	return nil, nil
}

// trim returns cached memory to the kernel until keepBytes are left, as far as
// whole blocks are free, the last slab first. Slabs that hold nothing any more
// are unmapped. p.mu is held.
func (p *Pool) trim(keepBytes int64) {
	for i := len(p.slabs) - 1; i >= 0 && p.cachedBytes > keepBytes; i-- {
		s := p.slabs[i]
		if s.fixed && s.usedPages == 0 {
			p.cooled(s.warmPages)
			s.warmPages = 0
			continue
		}
		p.cooled(s.coolBlocks(p.above(keepBytes)))
	}
	p.slabs = slices.DeleteFunc(p.slabs, func(s *slab) bool {
		empty := s.usedPages == 0 && s.warmPages == 0
		if empty {
			unmapMemory(s.mem)
		}
		return empty
	})
}

// squeeze is trim to the page. p.mu is held.
func (p *Pool) squeeze(keepBytes int64) {
	if p.cachedBytes <= keepBytes {
		return
	}
	p.trim(keepBytes)
	for i := len(p.slabs) - 1; i >= 0 && p.cachedBytes > keepBytes; i-- {
		p.cooled(p.slabs[i].coolPages(p.above(keepBytes)))
	}
}

// above is how many cached pages there are beyond keepBytes.
func (p *Pool) above(keepBytes int64) int {
	return int((p.cachedBytes - keepBytes + int64(unitBytes) - 1) / int64(unitBytes))
}

func (p *Pool) cooled(pages int) {
	p.cachedBytes -= bytesOf(pages)
	p.count.returned += uint64(bytesOf(pages))
}

// armIdle has a look taken for idle memory after the interval, if some may be
// there then. p.mu is held.
func (p *Pool) armIdle() {
	if p.armed || p.closed || p.o.IdleInterval < 0 || p.cachedBytes == 0 || p.inUseBytes+p.cachedBytes <= p.o.KeepBytes {
		return
	}
	p.armed = true
	if p.idle == nil {
		p.idle = time.AfterFunc(p.o.IdleInterval, p.trimIdle)
		return
	}
	p.idle.Reset(p.o.IdleInterval)
}

// disarmIdle stops looking. A look under way finds the pool closed. p.mu is
// held.
func (p *Pool) disarmIdle() {
	if p.idle != nil {
		p.idle.Stop()
	}
}

// trimIdle returns what was not in use at any time since the last look, but
// for the low-water mark.
func (p *Pool) trimIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = false
	if p.closed {
		return
	}
	p.trim(max(0, max(p.o.KeepBytes, p.peakBytes)-p.inUseBytes))
	p.peakBytes = p.inUseBytes
	p.armIdle()
}
