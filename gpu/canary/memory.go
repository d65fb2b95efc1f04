package canary

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/sealstone/sealstone/gpu/driver"
)

// region is device memory that begins at a multiple of 64 KiB, the size of a
// GPU's page towards its bus.
type region struct {
	bytes      int64
	raw, base  driver.DevicePtr
	allocated  bool
	registered bool
}

func (r *region) alloc(c *driver.Context) error {
	raw, err := c.MemAlloc(r.bytes + pieceBytes)
	if err != nil {
		return err
	}
	r.raw, r.allocated = raw, true
	r.base = (raw + pieceBytes - 1) / pieceBytes * pieceBytes
	// Memory that other devices write to; see the GPUDirect RDMA guide.
	return c.SetSyncMemops(raw)
}

func (r *region) register(f *driver.CuFile, c *driver.Context) error {
	if err := f.BufRegister(c, r.base, r.bytes); err != nil {
		return err
	}
	r.registered = true
	return nil
}

// free gives the memory back. Memory that cuFile does not let go of is not
// freed: nvidia-fs may deadlock over it (GPUDirect Storage release notes).
func (r *region) free(f *driver.CuFile, c *driver.Context) error {
	if !r.allocated {
		return nil
	}
	if r.registered {
		if err := f.BufDeregister(c, r.base); err != nil {
			return fmt.Errorf("deregister device memory: %w", err)
		}
		r.registered = false
	}
	if err := c.MemFree(r.raw); err != nil {
		return fmt.Errorf("free device memory: %w", err)
	}
	r.allocated = false
	return nil
}

// hostMemory is pinned and outside the Go heap.
type hostMemory struct {
	b      []byte
	pinned bool
}

func (h *hostMemory) alloc(c *driver.Context, bytes int64) (err error) {
	if h.b, err = mapMemory(bytes); err != nil {
		return err
	}
	if err := c.HostRegister(pointer(h.b), int64(len(h.b))); err != nil {
		return err
	}
	h.pinned = true
	return nil
}

func (h *hostMemory) part(at, bytes int64) []byte { return h.b[at:][:bytes:bytes] }

func (h *hostMemory) free(c *driver.Context) error {
	if h.b == nil {
		return nil
	}
	if h.pinned {
		if err := c.HostUnregister(pointer(h.b)); err != nil {
			return fmt.Errorf("unpin memory: %w", err)
		}
		h.pinned = false
	}
	err := unmapMemory(h.b)
	h.b = nil
	return err
}

func pointer(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }

// close is the last check: everything can be given back, as it must be at run
// time too.
func (t *trial) close(context.Context) (string, *finding) {
	if err := t.end(); err != nil {
		return "", failed("clean up", err)
	}
	return "", nil
}

// end gives everything back, in the order in which one thing depends on the
// other. A second call does what is left.
func (t *trial) end() error {
	d := &t.device
	var errs []error
	do := func(err error) { errs = append(errs, err) }
	if t.file.registered {
		do(d.f.HandleDeregister(d.c, t.file.handle))
		t.file.registered = false
	}
	for _, r := range []*region{&d.slot, &d.neighbour, &d.jobMemory} {
		do(r.free(d.f, d.c))
	}
	do(d.host.free(d.c))
	do(t.file.remove())
	if d.counts {
		// A process that ends while cuFile counts may crash (GPUDirect Storage
		// release notes).
		do(d.f.StatsStop())
		d.counts = false
	}
	if d.open {
		do(d.f.DriverClose(d.c))
		d.open = false
	}
	if d.k != nil {
		do(d.k.Close())
		d.k = nil
	}
	if d.stream != 0 {
		do(d.c.StreamDestroy(d.stream))
		d.stream = 0
	}
	// A context with memory that cuFile holds on to, or with a call under way,
	// is left to the end of the process.
	if d.c != nil && !d.slot.registered && !d.neighbour.registered && !d.busy {
		do(d.c.Release())
		d.c = nil
	}
	return errors.Join(errs...)
}
