package engine

import (
	"sync/atomic"

	"github.com/sealstone/sealstone/internal/memguard"
)

// ErrMemoryGone: pages of memory that was registered as guarded were not there
// when they were needed. Nothing was stored, or the bytes are not there; it
// says nothing about the disk.
var ErrMemoryGone = memguard.ErrGone

// MemoryOptions say what memory is that a store did not make.
type MemoryOptions struct {
	// Guarded: the pages may go away while the store uses them, as those of a
	// mapping do whose file somebody else can cut short. Whatever of the store
	// touches them is prepared for that, at a small cost: the block is Invalid
	// with ErrMemoryGone, and nothing and nobody else is blamed for it.
	Guarded bool
}

// Memory is memory of the caller that the store knows, see
// [Store.RegisterMemory].
type Memory struct {
	s        *Store
	p        []byte
	released atomic.Bool
}

// RegisterMemory makes memory outside the Go heap known to the store, so that
// GetOptions.WaitForDevice reads straight into it as into memory of
// [Store.NewBuffer]. It must be mapped, readable and writable, until Release,
// and none of it may be registered already; else the error is ErrInvalid.
//
// What others write to the memory at the same time is theirs to answer for: a
// get that finds other bytes there than it read reads them again into memory of
// the store, and a put stores what it copied.
func (s *Store) RegisterMemory(p []byte, o MemoryOptions) (*Memory, error) {
	if len(p) == 0 {
		return nil, invalidf("no memory to register")
	}
	if !s.memory.tryAdd(p, o.Guarded) {
		return nil, invalidf("memory of %d bytes: some of it is registered already; register it once", len(p))
	}
	return &Memory{s: s, p: p}, nil
}

// Release forgets the memory; the caller may unmap it then. No operation may
// use it any more. Releasing twice is nothing.
func (m *Memory) Release() {
	if m.released.CompareAndSwap(false, true) {
		m.s.memory.remove(m.p)
	}
}
