package engine

import (
	"sync"

	"github.com/sealstone/sealstone/tiers/disk"
)

// usedBlocks remembers, a bit a page, which extents were matched, got,
// touched or built upon since they were written or moved: what an eviction
// moves on. It is not kept over a restart. Memory: a bit for each 4 KiB of
// the segments in use.
type usedBlocks struct {
	mu   sync.Mutex
	segs map[uint64][]uint64
}

func (u *usedBlocks) mark(a disk.Address) {
	if a.IsZero() {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.segs == nil {
		u.segs = map[uint64][]uint64{}
	}
	bits := u.segs[a.Segment]
	word := int(a.Page / 64)
	if word >= len(bits) {
		bits = append(bits, make([]uint64, word+1-len(bits))...)
		u.segs[a.Segment] = bits
	}
	bits[word] |= 1 << (a.Page % 64)
}

func (u *usedBlocks) isMarked(a disk.Address) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	bits := u.segs[a.Segment]
	word := int(a.Page / 64)
	return word < len(bits) && bits[word]&(1<<(a.Page%64)) != 0
}

func (u *usedBlocks) forget(segment uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.segs, segment)
}
