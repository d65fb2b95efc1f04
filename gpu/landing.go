package gpu

import (
	"fmt"

	"github.com/sealstone/sealstone/gpu/driver"
)

// landingUnitBytes is what reads in landing memory are aligned to: the page
// size of a GPU's BAR, which is what nvidia-fs maps by.
const landingUnitBytes = 64 << 10

// landing is the device memory that cuFile reads into, and nothing else does:
// bytes there are never handed on, but copied to inspection memory, where no DMA
// of a storage device reaches, and verified there. So a write that comes late, or
// meant for a neighbour, cannot hit bytes that were found good.
type landing struct {
	pool *pool
	d    *Device
}

func newLanding(d *Device) *landing {
	l := &landing{d: d}
	limit := d.o.LandingBytesMax / landingUnitBytes * landingUnitBytes
	l.pool = (&pool{name: "landing", limitBytes: limit, regionBytes: max(limit, 1), unitBytes: landingUnitBytes,
		waitMax: d.o.HangTimeout, clock: d.o.Clock, grow: l.grow, drop: l.drop}).init()
	return l
}

// landingMemory is one allocation and the part of it that is registered.
type landingMemory struct{ allocated, base driver.DevicePtr }

// grow allocates one base and registers it with cuFile. Allocations are aligned
// to 256 bytes only, so a unit more is asked for.
func (l *landing) grow(sizeBytes int64) (*region, error) {
	d := l.d
	answer := new(driver.DevicePtr)
	total := sizeBytes + landingUnitBytes
	if err := d.guard("cuMemAlloc", func() (err error) { *answer, err = d.c.MemAlloc(total); return err }); err != nil {
		return nil, fmt.Errorf("%d bytes of landing memory: %w", sizeBytes, err)
	}
	m := landingMemory{allocated: *answer}
	m.base = driver.DevicePtr(roundUp(int64(m.allocated), landingUnitBytes))
	if err := l.register(m, sizeBytes); err != nil {
		return nil, err
	}
	return &region{base: uint64(m.base), sizeBytes: sizeBytes, own: m}, nil
}

// register makes the memory ready for DMA, or frees it.
func (l *landing) register(m landingMemory, sizeBytes int64) error {
	d := l.d
	// As the GPUDirect RDMA guide asks for, so that copies of the driver are
	// not done in another order than the DMA.
	err := d.guard("cuPointerSetAttribute", func() error { return d.c.SetSyncMemops(m.allocated) })
	if err == nil {
		err = d.fileCall("cuFileBufRegister", func() error { return d.files.lib.BufRegister(d.context, m.base, sizeBytes) })
	}
	if err == nil {
		return nil
	}
	if isHung(err) || isLost(err) {
		// It may be registered: freeing it could hang the kernel module.
		d.keptLanding.Add(1)
		if isHung(err) {
			d.banAll(err)
		}
		return err
	}
	if ferr := d.guard("cuMemFree", func() error { return d.c.MemFree(m.allocated) }); ferr != nil {
		return fmt.Errorf("%w; and freeing it: %w", err, ferr)
	}
	return fmt.Errorf("gpu: %d bytes of landing memory: %w", sizeBytes, err)
}

// drop deregisters before it frees: nvidia-fs may hang on registered memory
// that is freed (GDS release notes), and what a device may still write to must
// not get another owner.
func (l *landing) drop(r *region) error {
	d, m := l.d, r.own.(landingMemory)
	err := d.fileCall("cuFileBufDeregister", func() error { return d.files.lib.BufDeregister(d.context, m.base) })
	if err == nil {
		err = d.guard("cuMemFree", func() error { return d.c.MemFree(m.allocated) })
	}
	if err != nil {
		d.keptLanding.Add(1)
		if !isLost(err) {
			d.banAll(err)
		}
		return fmt.Errorf("%w: %d bytes of landing memory: %w", ErrLeaked, r.sizeBytes, err)
	}
	return nil
}
