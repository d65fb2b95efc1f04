package engine

import (
	"cmp"
	"slices"
	"sync"
	"unsafe"
)

// memoryMap knows the memory outside the Go heap that callers got from the
// store: a device may write there, as nothing moves or frees it under a read.
type memoryMap struct {
	mu      sync.RWMutex
	regions []memoryRange // by address
}

type memoryRange struct{ from, to uintptr }

func rangeOf(p []byte) memoryRange {
	from := uintptr(unsafe.Pointer(unsafe.SliceData(p)))
	return memoryRange{from, from + uintptr(len(p))}
}

func (m *memoryMap) find(r memoryRange) (at int, ok bool) {
	return slices.BinarySearchFunc(m.regions, r, func(a, b memoryRange) int { return cmp.Compare(a.from, b.from) })
}

func (m *memoryMap) add(p []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := rangeOf(p)
	at, _ := m.find(r)
	m.regions = slices.Insert(m.regions, at, r)
}

func (m *memoryMap) remove(p []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at, ok := m.find(rangeOf(p)); ok {
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
