// Package aligned gives out buffers outside the Go heap, for direct I/O and
// for memory that the kernel or a device may still write to after the caller
// gave up: the garbage collector neither moves nor frees nor scans them.
//
// [Alloc] maps one buffer; a [Pool] cuts them from slabs of huge pages under a
// byte limit.
package aligned

import (
	"errors"
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"unsafe"
)

const (
	// PageBytes is what every buffer is at least aligned to, and the unit
	// that sizes are rounded up to (the system's page, if that is larger).
	PageBytes = 4 << 10
	// HugePageBytes: what Alloc maps of at least this size is aligned to it,
	// and so are slabs; the kernel is asked for huge pages.
	HugePageBytes = 2 << 20
	// maxAllocBytes keeps the rounding from overflowing.
	maxAllocBytes = math.MaxInt >> 2
)

// unitBytes is what sizes are really rounded to: systems with larger pages
// map no less than one of theirs.
var unitBytes = max(PageBytes, os.Getpagesize())

var (
	// ErrInvalidSize: a size below 1, or beyond all memory.
	ErrInvalidSize = errors.New("aligned: invalid buffer size")
	// ErrTooLarge: the request can never fit the pool's limit.
	ErrTooLarge = errors.New("aligned: request above the pool's limit")
	// ErrExhausted: no room in the pool now, or before the context ended.
	ErrExhausted = errors.New("aligned: pool exhausted")
	// ErrClosed: the pool is closed.
	ErrClosed = errors.New("aligned: pool closed")
	// ErrLeaked: Close found buffers that were not freed.
	ErrLeaked = errors.New("aligned: buffers not freed")
)

// doubleFrees counts, over the process, calls of Free after the first.
var doubleFrees atomic.Uint64

// DoubleFrees is how often Free was called on a buffer that was free already,
// since the process began. Anything but 0 is a bug of a caller, though a
// harmless one.
func DoubleFrees() uint64 { return doubleFrees.Load() }

// Buffer is memory that belongs to one owner until Free. The methods of a nil
// Buffer do nothing; Free may be called concurrently.
type Buffer struct {
	mem  []byte // as long as asked for, with a capacity of whole pages
	pool *Pool  // nil: mapped by Alloc
	slab *slab  // of the pool
	site *site  // nil: not recorded
	free atomic.Bool
}

// Alloc maps a buffer of sizeBytes, which must be at least 1, rounded up to
// whole pages. Its bytes are zero. It fails with ErrInvalidSize or the
// kernel's error (ENOMEM).
func Alloc(sizeBytes int) (*Buffer, error) {
	if sizeBytes < 1 || sizeBytes > maxAllocBytes {
		return nil, fmt.Errorf("%w: %d bytes", ErrInvalidSize, sizeBytes)
	}
	mem, err := mapMemory(roundUp(sizeBytes, unitBytes))
	if err != nil {
		return nil, fmt.Errorf("aligned: map %d bytes: %w", sizeBytes, err)
	}
	return &Buffer{mem: mem[:sizeBytes]}, nil
}

// AllocOnNode is Alloc of pages that come from a NUMA node as long as it has
// some; a node below 0 is any. Where the system knows no nodes, or refuses the
// wish, the pages come from anywhere.
func AllocOnNode(sizeBytes, node int) (*Buffer, error) {
	b, err := Alloc(sizeBytes)
	if err == nil && node >= 0 {
		_ = preferNode(b.mem[:cap(b.mem)], node)
	}
	return b, err
}

// Bytes is the memory: as long as was asked for, with a capacity of whole
// pages for reads that are rounded up. After Free it is nil; slices taken
// before must not be touched any more, as they may fault or hold the bytes of
// the next owner.
func (b *Buffer) Bytes() []byte {
	if b == nil || b.free.Load() {
		return nil
	}
	return b.mem
}

// Free gives the memory back, to its pool or to the kernel. Only the first
// call does; further ones are counted, see DoubleFrees.
func (b *Buffer) Free() {
	if b == nil {
		return
	}
	if !b.free.CompareAndSwap(false, true) {
		doubleFrees.Add(1)
		return
	}
	if b.pool != nil {
		b.pool.put(b)
		return
	}
	unmapMemory(b.mem)
}

// IsAligned says whether p begins at a multiple of n, a power of two. An n
// below 1 fits nothing.
func IsAligned(p []byte, n int) bool {
	if n < 1 {
		return false
	}
	return uintptr(unsafe.Pointer(unsafe.SliceData(p)))%uintptr(n) == 0
}

func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }
