package canary

import (
	"context"
	"errors"
	"fmt"

	"github.com/sealstone/sealstone/gpu"
	"github.com/sealstone/sealstone/gpu/driver"
	"github.com/sealstone/sealstone/gpu/kernel"
	"github.com/sealstone/sealstone/internal/sums"
)

// device is the GPU's side of a trial.
type device struct {
	info   driver.DeviceInfo
	c      *driver.Context
	f      *driver.CuFile
	k      *kernel.Kernel // nil: not proven
	stream driver.Stream

	busy   bool // a call that was given up uses the context
	open   bool // cuFile is
	counts bool // its counters are on

	slot, neighbour region
	job             *kernel.Job
	jobMemory       region
	host            hostMemory
	fills           int
}

// neighbourBytes is the size of the second registered buffer.
const neighbourBytes = 3 * pieceBytes

// statsLevel is the one at which cuFile counts by GPU and route.
const statsLevel = 3

func (t *trial) openGPU(context.Context) (string, *finding) {
	uuid, err := parseUUID(t.r.GPU)
	if err != nil {
		return "", found(nameNoGPU, "%v", err)
	}
	d, err := driver.Open(driver.Options{CUDAPath: t.r.CUDAPath, CuFilePath: t.r.CuFilePath})
	if err != nil {
		return "", failed("open the driver", err)
	}
	if t.device.info, err = findDevice(d, uuid); err != nil {
		return "", failed("find the GPU", err)
	}
	if t.device.info.UUID != uuid {
		return "", found(nameNoGPU, "%s is not among the GPUs of this process; look at CUDA_VISIBLE_DEVICES", t.r.GPU)
	}
	if a := t.device.info.Attributes; a.WritesOrdering < driver.OrderingOwner && a.FlushWritesOptions&driver.FlushHost == 0 {
		return "", found(nameNoOrder, "the GPU does not order what other devices write before its own reads, and offers no flush to the host (attributes 118 and 117)")
	}
	if t.device.f, err = d.CuFile(); err != nil {
		return "", failed("load libcufile", err)
	}
	if t.device.c, err = d.RetainPrimary(t.device.info.Ordinal); err != nil {
		return "", failed("take the GPU's context", err)
	}
	if t.device.stream, err = t.device.c.StreamCreate(); err != nil {
		return "", failed("make a stream", err)
	}
	if t.v.Key, err = placeKey(d, t.device.f, t.r.GPU, t.r); err != nil {
		return "", found(nameKey, "%v", err)
	}
	return t.device.info.Name, nil
}

// findDevice returns the device of this UUID, or one without UUID.
func findDevice(d *driver.Driver, uuid [16]byte) (driver.DeviceInfo, error) {
	n, err := d.DeviceCount()
	if err != nil {
		return driver.DeviceInfo{}, err
	}
	for i := range n {
		info, err := d.Device(i)
		if err != nil {
			return driver.DeviceInfo{}, err
		}
		if info.UUID == uuid {
			return info, nil
		}
	}
	return driver.DeviceInfo{}, nil
}

// proveKernel loads the kernel. Where it is not proven the owner's side is
// seen by copies back alone, as package gpu does then too.
func (t *trial) proveKernel(ctx context.Context) (string, *finding) {
	k, err := kernel.Load(ctx, t.device.c, t.device.info.UUID)
	var not *kernel.NotProvenError
	switch {
	case errors.As(err, &not) && not.Step == kernel.StepTime:
		// The proof goes on in the background and uses the context.
		t.device.busy = true
		return "", found(nameInterrupted, "prove the verify kernel: %v", err)
	case err == nil:
		t.device.k = k
		return fmt.Sprintf("proven by %d vectors", k.Proof().Vectors), nil
	case errors.Is(err, driver.ErrDeviceLost):
		return "", failed("prove the verify kernel", err)
	}
	t.note("the verify kernel is not proven, so only copies back were compared: %v", err)
	return "not proven; copies back only", nil
}

func (t *trial) openCuFile(context.Context) (string, *finding) {
	d := &t.device
	// The counters come first, as they can be turned on before opening only.
	// Without them the judge decides.
	level := d.f.SetStatsLevel(statsLevel)
	err := gpu.OpenStrict(d.f, d.c, t.r.LogDir)
	d.open = err == nil || errors.Is(err, gpu.ErrNotStrict)
	if err != nil {
		return "", failed("strict mode", err)
	}
	if level == nil {
		level = d.f.StatsStart()
	}
	if d.counts = level == nil; !d.counts {
		t.note("cuFile does not count: %v", level)
	}
	p, err := d.f.Properties()
	if err != nil {
		return "", failed("read the properties of cuFile", err)
	}
	return fmt.Sprintf("cuFile %s, nvidia-fs %d.%d", versionText(t.v.Key.CuFile), p.NvfsMajor, p.NvfsMinor), nil
}

// register hands the file and two buffers to cuFile: one that is read into and
// one that must stay as it is. Each has a guard zone before and behind.
func (t *trial) register(context.Context) (string, *finding) {
	d := &t.device
	var err error
	if t.file.handle, err = d.f.HandleRegister(d.c, t.file.directFd()); err != nil {
		return "", failed("register the file", err)
	}
	t.file.registered = true
	pieces := int(t.r.IOBytesMax / pieceBytes)
	d.slot.bytes, d.neighbour.bytes, d.jobMemory.bytes = t.r.IOBytesMax+2*pieceBytes, neighbourBytes, kernel.DeviceBytes(pieces)
	for _, r := range []*region{&d.slot, &d.neighbour, &d.jobMemory} {
		if err := r.alloc(d.c); err != nil {
			return "", failed("allocate device memory", err)
		}
	}
	for _, r := range []*region{&d.slot, &d.neighbour} {
		if err := r.register(d.f, d.c); err != nil {
			return "", failed("register device memory", err)
		}
	}
	if err := d.host.alloc(d.c, d.slot.bytes+d.neighbour.bytes+kernel.HostBytes(pieces)); err != nil {
		return "", failed("allocate pinned memory", err)
	}
	if d.job, err = kernel.NewJob(d.jobMemory.base, d.jobMemory.bytes, d.host.part(d.slot.bytes+d.neighbour.bytes, kernel.HostBytes(pieces))); err != nil {
		return "", failed("set up the verify kernel", err)
	}
	return fmt.Sprintf("%d bytes of device memory", d.slot.bytes+d.neighbour.bytes), nil
}

// nextFill chooses what the slot and the guard zones hold before a read. No
// two reads in a row have the same, and the two always differ.
func (d *device) nextFill() (poison, guard byte) {
	d.fills++
	poison = byte(0x31 + 7*d.fills)
	return poison, ^poison
}

// prepare fills the slot and everything around it, and waits for it: cuFile
// orders its reads with no stream (cuFile API Reference Guide, cuFileRead).
func (d *device) prepare(e *evidence) error {
	for _, f := range []struct {
		at    driver.DevicePtr
		bytes int64
		value byte
	}{
		{d.slot.base, pieceBytes, e.guard},
		{d.slot.base + pieceBytes, d.slot.bytes - 2*pieceBytes, e.poison},
		{d.slot.base + driver.DevicePtr(d.slot.bytes) - pieceBytes, pieceBytes, e.guard},
		{d.neighbour.base, d.neighbour.bytes, e.guard},
	} {
		if err := d.c.MemsetD8Async(f.at, f.value, f.bytes, d.stream); err != nil {
			return err
		}
	}
	return d.c.StreamSynchronize(d.stream)
}

// read does the read, with the counters before and after it.
func (d *device) read(h driver.Handle, r transfer) (n int64, before, after *routes, f *finding) {
	before = d.routes()
	n, err := d.f.Read(d.c, h, d.slot.base, r.Length, r.FileOffset, pieceBytes+r.SlotOffset)
	if err != nil {
		return 0, nil, nil, failed(fmt.Sprintf("read %d bytes at %d", r.Length, r.FileOffset), err)
	}
	return n, before, d.routes(), nil
}

// routes reads the counters of this GPU; nil if there are none that can be
// trusted.
func (d *device) routes() *routes {
	if !d.counts {
		return nil
	}
	c, err := d.f.RouteCounters(d.info.UUID)
	if err != nil {
		return nil
	}
	return &routes{P2P: c.P2PReads, NVFS: c.NvfsReads, POSIX: c.PosixReads}
}

// collect looks at the destination: by the GPU's own kernel first, then by
// copies back of all that could have been written to.
func (d *device) collect(e *evidence) error {
	a := d.info.Attributes
	if a.WritesOrdering < driver.OrderingOwner && a.FlushWritesOptions&driver.FlushHost != 0 {
		if err := d.c.FlushWrites(); err != nil {
			return err
		}
	}
	if d.k != nil {
		if err := d.askOwner(e); err != nil {
			return err
		}
	}
	e.slot, e.neighbour = d.host.part(0, d.slot.bytes), d.host.part(d.slot.bytes, d.neighbour.bytes)
	// What stands here from the last read must not pass for a copy.
	clear(e.slot)
	clear(e.neighbour)
	if err := d.c.CopyDtoHAsync(pointer(e.slot), d.slot.base, d.slot.bytes, d.stream); err != nil {
		return err
	}
	if err := d.c.CopyDtoHAsync(pointer(e.neighbour), d.neighbour.base, d.neighbour.bytes, d.stream); err != nil {
		return err
	}
	return d.c.StreamSynchronize(d.stream)
}

// askOwner has the kernel compare each piece of the destination with the sum
// of what stands in the file.
func (d *device) askOwner(e *evidence) error {
	d.job.Reset()
	at := d.slot.base + driver.DevicePtr(e.inSlot())
	for want := e.want(); len(want) > 0; {
		piece := want[:min(len(want), pieceBytes)]
		want = want[len(piece):]
		if err := d.job.Add(kernel.Piece{Address: uint64(at), LengthBytes: len(piece), Want: sums.Chunk(piece)}); err != nil {
			return err
		}
		at += driver.DevicePtr(len(piece))
	}
	if err := d.k.Verify(d.stream, d.job); err != nil {
		return err
	}
	if err := d.c.StreamSynchronize(d.stream); err != nil {
		return err
	}
	e.owner = make([]uint32, d.job.Len())
	for i := range e.owner {
		switch err := d.job.Verified(i); {
		case err == nil:
			e.owner[i] = ownerMatch
		case errors.Is(err, kernel.ErrMismatch):
			e.owner[i] = ownerMismatch
		}
	}
	return nil
}
