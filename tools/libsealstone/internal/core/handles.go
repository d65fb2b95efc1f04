package core

import (
	"sync"
	"sync/atomic"
)

// handlesMax bounds the open handles of each kind, storesMax the open stores.
const (
	handlesMax = 65536
	storesMax  = 64
)

var handleCount atomic.Uint64

// newHandle gives a number that no handle of any kind had before. Numbers lie
// far apart, so that one that was made up, or cut to 32 bits, hits nothing.
func newHandle() uint64 {
	const odd = 0x9e3779b97f4a7c15 // multiplying by it is one to one
	return handleCount.Add(1) * odd
}

// table maps the numbers that the host holds to what they mean.
type table[T any] struct {
	mu  sync.RWMutex
	m   map[uint64]T
	max int
}

func newTable[T any](limit int) *table[T] { return &table[T]{m: map[uint64]T{}, max: limit} }

// add enters v; false: the table is full.
func (t *table[T]) add(v T) (uint64, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.m) >= t.max {
		return 0, false
	}
	h := newHandle()
	t.m[h] = v
	return h, true
}

func (t *table[T]) get(h uint64) (T, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	v, ok := t.m[h]
	return v, ok
}

// take removes a handle; of several callers one is given the value.
func (t *table[T]) take(h uint64) (T, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v, ok := t.m[h]
	delete(t.m, h)
	return v, ok
}

// takeAll removes what matches and returns it.
func (t *table[T]) takeAll(match func(T) bool) (taken []T) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for h, v := range t.m {
		if match(v) {
			delete(t.m, h)
			taken = append(taken, v)
		}
	}
	return taken
}

// enter gives a handle to what came from a store. If the store was closed
// meanwhile there is none: close has ended all that there were, and nobody would
// end this one.
func enter[T any](s *Store, t *table[T], v T, what string) (uint64, *Error) {
	h, ok := t.add(v)
	if !ok {
		return 0, failf(Shed, "%d %s are open, as many as there may be: close some", t.max, what)
	}
	if _, open := s.lib.stores.get(s.handle); !open {
		t.take(h)
		return 0, failf(Closed, "the store was closed meanwhile")
	}
	return h, nil
}

func (t *table[T]) count() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.m)
}
