package gpu

import (
	"fmt"
	"unsafe"

	"github.com/sealstone/sealstone/internal/aligned"
)

// pinnedMemory makes and lets go of the regions of pinned memory. The memory
// is mapped by us, since what cuMemHostAlloc returns is not aligned well enough
// for direct I/O, and registered for all contexts of the process.
type pinnedMemory struct {
	c    cuda
	node int // NUMA node, below 0: any
	do   func(what string, f func() error) error
}

func (m pinnedMemory) grow(sizeBytes int64) (*region, error) {
	buf, err := aligned.AllocOnNode(int(sizeBytes), m.node)
	if err != nil {
		return nil, err
	}
	base := unsafe.Pointer(unsafe.SliceData(buf.Bytes()))
	if err := m.do("cuMemHostRegister", func() error { return m.c.HostRegister(base, sizeBytes) }); err != nil {
		// After a call that did not return the driver may still pin it: then
		// it must not be unmapped.
		if !isLost(err) {
			buf.Free()
		}
		return nil, fmt.Errorf("%w: %d bytes: %w", ErrPinning, sizeBytes, err)
	}
	return &region{base: uint64(uintptr(base)), sizeBytes: sizeBytes, mem: buf.Bytes(), own: buf}, nil
}

func (m pinnedMemory) drop(r *region) error {
	buf := r.own.(*aligned.Buffer)
	base := unsafe.Pointer(unsafe.SliceData(r.mem))
	if err := m.do("cuMemHostUnregister", func() error { return m.c.HostUnregister(base) }); err != nil {
		// Still registered: the mapping must stay.
		return fmt.Errorf("%w: %d bytes of pinned memory stay registered: %w", ErrLeaked, r.sizeBytes, err)
	}
	buf.Free()
	return nil
}
