package gpu

import (
	"fmt"

	"github.com/sealstone/sealstone/gpu/driver"
)

const (
	// stagingUnitBytes is what blocks in staging and inspection memory are
	// aligned to.
	stagingUnitBytes = 4 << 10
	// stagingRegionBytes is what both are allocated in.
	stagingRegionBytes = 16 << 20
)

// deviceMemory makes and lets go of the regions of staging and inspection memory. Nothing but
// the GPU itself writes there.
type deviceMemory struct {
	c  cuda
	do func(what string, f func() error) error
}

func (m deviceMemory) grow(sizeBytes int64) (*region, error) {
	// The call may still run after do gave it up, so it has a place of its own
	// for the answer.
	answer := new(driver.DevicePtr)
	if err := m.do("cuMemAlloc", func() (err error) { *answer, err = m.c.MemAlloc(sizeBytes); return err }); err != nil {
		return nil, fmt.Errorf("%d bytes of device memory: %w", sizeBytes, err)
	}
	return &region{base: uint64(*answer), sizeBytes: sizeBytes}, nil
}

func (m deviceMemory) drop(r *region) error {
	if err := m.do("cuMemFree", func() error { return m.c.MemFree(driver.DevicePtr(r.base)) }); err != nil {
		return fmt.Errorf("%w: %d bytes of device memory: %w", ErrLeaked, r.sizeBytes, err)
	}
	return nil
}
