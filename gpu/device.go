package gpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sealstone/sealstone/gpu/driver"
)

// Device is one GPU of this process: its pinned memory, its memory of the device,
// its streams, and the routes by which files are read straight into it. Its
// methods may be called from any goroutine.
//
// Memory is taken lazily, so an idle Device costs a context that the inference
// engine in the same process has anyway.
type Device struct {
	o       Options
	c       cuda
	context *driver.Context // nil in tests of this package
	files   fileDriver
	info    driver.DeviceInfo
	uuid    string
	sums    *deviceSums

	pinned      *pool
	staging     *pool // bytes that were verified, on their way in, and the caller's, on their way out
	inspection  *pool // bytes that landed, until they are verified
	landing     *landing
	buffers     pinnedSet
	jobs        chan *job
	lanes       []*lane
	reads       chan struct{} // a token for each direct read under way
	gate        gate
	count       counters
	routes      routeTable
	poisons     atomic.Uint64
	closing     sync.WaitGroup // files being closed
	closeMu     sync.Mutex
	closed      bool         // all that can be given back is
	keptLanding atomic.Int64 // allocations that could not be deregistered

	lost    atomic.Pointer[error]
	lostCh  chan struct{}
	stopCh  chan struct{} // ends the watchdog
	stopped sync.WaitGroup
}

// OpenDevice takes the primary context of a GPU, which it shares with the rest
// of the process, and proves the verify kernel on it; KernelProven says with
// what result. Nothing else is tried. Close gives it back.
func OpenDevice(d *driver.Driver, ordinal int, o Options) (*Device, error) {
	info, err := d.Device(ordinal)
	if err != nil {
		return nil, fmt.Errorf("gpu: device %d: %w", ordinal, err)
	}
	c, err := d.RetainPrimary(ordinal)
	if err != nil {
		return nil, fmt.Errorf("gpu: device %d: primary context: %w", ordinal, err)
	}
	dev := newDevice(c, info, o)
	dev.context = c
	dev.files.load = func() (fileLibrary, error) { return d.CuFile() }
	if err := dev.start(); err != nil {
		return nil, errors.Join(err, c.Release())
	}
	dev.sums.prove(dev, c)
	if err := dev.lostErr(); err != nil {
		return nil, errors.Join(err, dev.Close(context.Background()))
	}
	return dev, nil
}

// newDevice makes a device that has not started anything.
func newDevice(c cuda, info driver.DeviceInfo, o Options) *Device {
	o = o.withDefaults()
	d := &Device{
		o: o, c: c, info: info, uuid: UUIDString(info.UUID),
		jobs: make(chan *job), reads: make(chan struct{}, o.ReadsMax),
		lostCh: make(chan struct{}), stopCh: make(chan struct{}), sums: &deviceSums{},
	}
	d.gate.idle = make(chan struct{})
	node := o.NUMANode - 1
	if o.NUMANode == 0 {
		node = numaNode("/sys/bus/pci/devices", info.PCIBusID)
	}
	pm := pinnedMemory{c: c, node: node, do: d.guard}
	d.pinned = (&pool{name: "pinned", limitBytes: o.PinnedBytesMax, regionBytes: o.PinnedChunkBytes, unitBytes: pinnedUnitBytes,
		waitMax: o.HangTimeout, clock: o.Clock, grow: pm.grow, drop: pm.drop}).init()
	dm := deviceMemory{c: c, do: d.guard}
	d.staging = (&pool{name: "staging", limitBytes: o.StagingBytesMax, regionBytes: min(stagingRegionBytes, o.StagingBytesMax), unitBytes: stagingUnitBytes,
		waitMax: o.HangTimeout, clock: o.Clock, grow: dm.grow, drop: dm.drop}).init()
	d.inspection = (&pool{name: "inspection", limitBytes: o.LandingBytesMax, regionBytes: min(stagingRegionBytes, o.LandingBytesMax), unitBytes: stagingUnitBytes,
		waitMax: o.HangTimeout, clock: o.Clock, grow: dm.grow, drop: dm.drop}).init()
	d.landing = newLanding(d)
	return d
}

// start makes the lanes and the watchdog.
func (d *Device) start() error {
	for n := range d.o.Streams {
		l, err := newLane(d, n)
		if err != nil {
			for _, made := range d.lanes {
				err = errors.Join(err, made.destroy())
			}
			return fmt.Errorf("gpu: %s: stream %d: %w", d.uuid, n, err)
		}
		d.lanes = append(d.lanes, l)
	}
	for _, l := range d.lanes {
		go l.run()
	}
	d.stopped.Go(d.watch)
	return nil
}

// UUID is the GPU's, or the MIG instance's, as NVML prints it.
func (d *Device) UUID() string { return d.uuid }

// Info is what the driver says of the GPU.
func (d *Device) Info() driver.DeviceInfo { return d.info }

// Context is the primary context that the Device holds; it ends with Close.
func (d *Device) Context() *driver.Context { return d.context }

// KernelProven says whether sums are compared by the kernel on the GPU, and if
// not, why: then bytes are copied back and their sums taken by the processor.
func (d *Device) KernelProven() (bool, string) { return d.sums.proven() }

// VerifiesCopies says whether the checks of a [CopyIn] are compared on the GPU.
func (d *Device) VerifiesCopies() bool { return d.o.VerifyOnDevice && d.sums.on() }

// UUIDString is a UUID as NVML prints those of GPUs.
func UUIDString(u [16]byte) string {
	return fmt.Sprintf("GPU-%x-%x-%x-%x-%x", u[0:4], u[4:6], u[6:8], u[8:10], u[10:16])
}

// numaNode is the NUMA node of a PCI device, or -1 where that is unknown.
func numaNode(dir, busID string) int {
	text, err := os.ReadFile(filepath.Join(dir, strings.ToLower(busID), "numa_node"))
	if err != nil {
		return -1
	}
	node, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || node < 0 {
		return -1
	}
	return node
}

// gate counts the calls under way, and lets none in after close.
type gate struct {
	mu     sync.Mutex
	n      int
	closed bool
	idle   chan struct{} // closed once closed and n is 0
}

func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.n++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.n--
	if g.closed && g.n == 0 {
		close(g.idle)
	}
}

// close lets nobody in any more.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	g.closed = true
	if g.n == 0 {
		close(g.idle)
	}
}

func (g *gate) isClosed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}

// usable is why the device takes no calls; nil if it does.
func (d *Device) usable() error {
	if err := d.lostErr(); err != nil {
		return err
	}
	if d.gate.isClosed() {
		return ErrClosed
	}
	return nil
}

// enter begins a call; leave ends it.
func (d *Device) enter() error {
	if err := d.lostErr(); err != nil {
		return err
	}
	if !d.gate.enter() {
		return ErrClosed
	}
	return nil
}

// quarter is how often hangs are looked for: one is seen after at most one and a
// half times the timeout.
func (d *Device) quarter() time.Duration { return max(d.o.HangTimeout/4, time.Millisecond) }
