package check

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/sealstone/sealstone/gpu"
	"github.com/sealstone/sealstone/gpu/canary"
	"github.com/sealstone/sealstone/gpu/driver"
	"github.com/sealstone/sealstone/gpu/kernel"
	"github.com/sealstone/sealstone/internal/hostinfo"
)

// device is a GPU of this run, with its context held.
type device struct {
	uuid    string
	info    driver.DeviceInfo
	context *driver.Context
	kernel  *kernel.Kernel // nil: not proven
}

// host describes the machine.
func host(dir string) Host {
	vm := canary.CheckVM("/")
	return Host{
		Kernel: hostinfo.KernelRelease(), Arch: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(),
		Virtual: vm.Virtual, Signs: vm.Reasons, Dir: dir,
	}
}

// openCUDA loads libcuda.
func openCUDA(o driver.Options) (*driver.Driver, Library, error) {
	d, err := driver.Open(o)
	if err != nil {
		return nil, Library{State: "absent", Reason: err.Error()}, err
	}
	lib := Library{State: "present", Missing: d.Missing()}
	lib.Version, err = d.Version()
	return d, lib, err
}

// openDevice describes a device and takes its context.
func openDevice(d *driver.Driver, ordinal int) (*device, GPU, error) {
	info, err := d.Device(ordinal)
	if err != nil {
		return nil, GPU{}, err
	}
	a := info.Attributes
	g := GPU{
		UUID: gpu.UUIDString(info.UUID), Ordinal: ordinal, Name: info.Name, PCI: info.PCIBusID, MemoryBytes: info.TotalBytes,
		Compute: fmt.Sprintf("%d.%d", info.Major, info.Minor), RDMA: a.GPUDirectRDMASupported, HostRegister: a.HostRegisterSupported,
		FlushOptions: a.FlushWritesOptions, WritesOrdering: a.WritesOrdering,
	}
	c, err := d.RetainPrimary(ordinal)
	if err != nil {
		return nil, g, err
	}
	g.FreeBytes, _, err = c.MemInfo()
	return &device{uuid: g.UUID, info: info, context: c}, g, err
}

// proveKernel loads the verify kernel. A kernel that the driver refuses is not
// available; one that runs and is wrong is broken.
func (d *device) proveKernel(ctx context.Context) (*kernel.Kernel, *Kernel, error) {
	k, err := kernel.Load(ctx, d.context, d.info.UUID)
	if err != nil {
		var refusal *kernel.NotProvenError
		if errors.As(err, &refusal) && refusal.Step == kernel.StepVectors {
			return nil, nil, brokenf("%w", err)
		}
		return nil, nil, err
	}
	p := k.Proof()
	return k, &Kernel{Vectors: p.Vectors, Wrong: p.Wrong, LoadMillis: micros(p.LoadTime) / 1000, Millis: micros(p.Time) / 1000}, nil
}

// close gives back what the device holds.
func (d *device) close() error {
	var err error
	if d.kernel != nil {
		err = d.kernel.Close()
	}
	return errors.Join(err, d.context.Release())
}
