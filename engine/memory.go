package engine

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// memoryMap knows the memory outside the Go heap that callers got from the
// store, or made known to it: a device may write there, as nothing moves or
// frees it under a read.
type memoryMap struct {
	mu      sync.RWMutex
	regions []memoryRegion // by address; none overlaps another
	guarded atomic.Int32   // regions that are
}

type memoryRange struct{ from, to uintptr }

// memoryRegion is memory in one piece.
type memoryRegion struct {
	memoryRange
	guarded bool // its pages may go away, see MemoryOptions
}

func rangeOf(p []byte) memoryRange {
	from := uintptr(unsafe.Pointer(unsafe.SliceData(p)))
	return memoryRange{from, from + uintptr(len(p))}
}

func (m *memoryMap) find(r memoryRange) (at int, ok bool) {
	return slices.BinarySearchFunc(m.regions, r, func(a memoryRegion, b memoryRange) int { return cmp.Compare(a.from, b.from) })
}

// add makes memory known that nobody else has, so that it overlaps nothing.
func (m *memoryMap) add(p []byte) { m.tryAdd(p, false) }

// tryAdd makes memory known; false: some of it is known already.
func (m *memoryMap) tryAdd(p []byte, guarded bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := rangeOf(p)
	at, found := m.find(r)
	if found || at > 0 && m.regions[at-1].to > r.from || at < len(m.regions) && m.regions[at].from < r.to {
		return false
	}
	m.regions = slices.Insert(m.regions, at, memoryRegion{r, guarded})
	if guarded {
		m.guarded.Add(1)
	}
	return true
}

func (m *memoryMap) remove(p []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at, ok := m.find(rangeOf(p)); ok {
		if m.regions[at].guarded {
			m.guarded.Add(-1)
		}
		m.regions = slices.Delete(m.regions, at, at+1)
	}
}

// holds reports whether all of p lies in one memoryRange.
func (m *memoryMap) holds(p []byte) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	r := rangeOf(p)
	at, ok := m.find(r)
	if !ok {
		at--
	}
	return at >= 0 && r.from >= m.regions[at].from && r.to <= m.regions[at].to
}

// guards reports whether a byte of spans lies in a guarded region.
func (m *memoryMap) guards(spans [][]byte) bool {
	if m.guarded.Load() == 0 {
		return false
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	return slices.ContainsFunc(spans, func(s []byte) bool { return m.guardsLocked(rangeOf(s)) })
}

func (m *memoryMap) guardsLocked(r memoryRange) bool {
	at, ok := m.find(r)
	if !ok {
		at = max(at-1, 0)
	}
	for ; at < len(m.regions) && m.regions[at].from < r.to; at++ {
		if m.regions[at].guarded && m.regions[at].to > r.from {
			return true
		}
	}
	return false
}
