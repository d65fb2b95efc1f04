package engine

import (
	"fmt"
	"sync/atomic"

	"github.com/sealstone/sealstone/internal/aligned"
)

// Buffer is aligned memory outside the Go heap, as direct I/O likes it: what a
// Get reads into it with GetOptions.WaitForDevice is not copied. It counts
// against nothing but the store's figures; free it.
type Buffer struct {
	s     *Store
	b     *aligned.Buffer
	size  int
	freed atomic.Bool
}

// NewBuffer returns a buffer of sizeBytes. The error is of the operating
// system, when it has no memory to give.
func (s *Store) NewBuffer(sizeBytes int) (*Buffer, error) {
	if sizeBytes <= 0 || int64(sizeBytes) > gib {
		return nil, invalidf("buffer of %d bytes: 1 byte to 1 GiB are allowed", sizeBytes)
	}
	b, err := aligned.Alloc(sizeBytes)
	if err != nil {
		return nil, fmt.Errorf("engine: buffer of %d bytes: %w", sizeBytes, err)
	}
	s.buffers.Add(int64(sizeBytes))
	s.memory.add(b.Bytes())
	return &Buffer{s: s, b: b, size: sizeBytes}, nil
}

// Bytes is the memory; nil after Free.
func (b *Buffer) Bytes() []byte {
	if b.freed.Load() {
		return nil
	}
	return b.b.Bytes()[:b.size]
}

// Free gives the memory back. Freeing twice is nothing. No operation may use
// the buffer any more.
func (b *Buffer) Free() {
	if b.freed.CompareAndSwap(false, true) {
		b.s.buffers.Add(-int64(b.size))
		b.s.memory.remove(b.b.Bytes())
		b.b.Free()
	}
}
