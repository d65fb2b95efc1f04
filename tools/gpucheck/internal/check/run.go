package check

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sealstone/sealstone/gpu/driver"
)

// Limits of the steps. Together they may exceed the run's, which ends them all.
const (
	limitLibrary  = 30 * time.Second
	limitDevice   = 30 * time.Second
	limitKernel   = 40 * time.Second
	limitCompat   = 40 * time.Second
	limitCanary   = 75 * time.Second
	limitSpeed    = 60 * time.Second
	limitCopies   = 60 * time.Second
	limitScenario = 90 * time.Second
)

// Run looks at the machine. The error is one of the directory, or of ctx; all
// else is in the report, which is never nil.
func Run(ctx context.Context, c Config) (*Report, error) {
	c = c.withDefaults()
	r := &runner{config: c, grace: c.grace, stuck: map[string]string{}, report: &Report{
		Tool: "gpucheck", Revision: c.Revision, Started: time.Now().UTC(),
		GPUs: []GPU{}, Scenarios: []Scenario{}, Steps: []Step{},
		CUDA: Library{State: "absent", Reason: "not tried"}, CuFile: Library{State: "absent", Reason: "not tried"},
	}}
	dir, err := os.MkdirTemp(c.Dir, "sealstone-gpucheck-")
	if err != nil {
		return r.report, fmt.Errorf("make a directory to work in: %w", err)
	}
	r.report.Host = host(dir)
	bounded, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("the run's %v are over", c.Timeout))
	defer cancel()
	r.all(bounded, dir)
	r.report.Seconds = time.Since(r.report.Started).Seconds()
	r.report.Broken = broken(r.report.Steps)
	if err := os.RemoveAll(dir); err != nil {
		return r.report, fmt.Errorf("remove the directory worked in: %w", err)
	}
	return r.report, ctx.Err()
}

// all runs the steps: first what every device needs, then what takes long.
func (r *runner) all(ctx context.Context, dir string) {
	d, devices := r.open(ctx)
	if d == nil {
		return
	}
	stores, err := makeStores(dir, devices)
	r.try(ctx, "directories", "", limitLibrary, func(context.Context) (apply, error) { return nil, err })
	if err != nil {
		return
	}
	r.try(ctx, "libcufile", "", limitLibrary, func(context.Context) (apply, error) {
		lib, err := describeCuFile(d)
		return func(p *Report) { p.CuFile = lib }, err
	})
	for _, dev := range devices {
		r.try(ctx, "verify kernel", dev.uuid, limitKernel, func(ctx context.Context) (apply, error) {
			k, proof, err := dev.proveKernel(ctx)
			return func(p *Report) { dev.kernel = k; p.gpu(dev.uuid).Kernel = proof }, err
		})
	}
	if len(devices) > 0 {
		r.try(ctx, "cuFile as configured", "", limitCompat, func(ctx context.Context) (apply, error) {
			c, err := runCompat(ctx, r.config.Self, childRequest{Dir: dir, Libraries: r.config.Libraries, Ordinal: devices[0].info.Ordinal})
			return func(p *Report) { p.Compat = c }, err
		})
	}
	for _, dev := range devices {
		r.try(ctx, "canary", dev.uuid, limitCanary, func(ctx context.Context) (apply, error) {
			v, err := askCanary(ctx, r.config, dev.uuid, stores[dev.uuid])
			return func(p *Report) { p.gpu(dev.uuid).Verdict = v }, err
		})
	}
	for _, dev := range devices {
		r.device(ctx, dev)
	}
	r.scenarios(ctx, d, devices, stores)
	for _, dev := range devices {
		r.try(ctx, "close", dev.uuid, limitDevice, func(context.Context) (apply, error) { return nil, dev.close() })
	}
}

// open loads libcuda and opens every device.
func (r *runner) open(ctx context.Context) (d *driver.Driver, devices []*device) {
	n := 0
	if !r.try(ctx, "libcuda", "", limitLibrary, func(context.Context) (apply, error) {
		opened, lib, err := openCUDA(r.config.Libraries)
		count := 0
		if err == nil {
			count, err = opened.DeviceCount()
		}
		return func(p *Report) { p.CUDA, d, n = lib, opened, count }, err
	}) {
		return nil, nil
	}
	for i := range n {
		r.try(ctx, fmt.Sprintf("device %d", i), "", limitDevice, func(context.Context) (apply, error) {
			dev, g, err := openDevice(d, i)
			return func(p *Report) {
				if g.UUID != "" {
					*p.gpu(g.UUID) = g
				}
				if dev != nil {
					devices = append(devices, dev)
				}
			}, err
		})
	}
	return d, devices
}

// device measures one device.
func (r *runner) device(ctx context.Context, dev *device) {
	c := r.config
	r.try(ctx, "kernel speed", dev.uuid, limitSpeed, func(ctx context.Context) (apply, error) {
		if dev.kernel == nil {
			return nil, errors.New("the kernel is not proven")
		}
		s, err := measureKernel(ctx, dev.context, dev.kernel, c.SizesBytes, c.MeasureFor)
		return func(p *Report) { p.gpu(dev.uuid).KernelSpeed = s }, err
	})
	r.try(ctx, "copies", dev.uuid, limitCopies, func(ctx context.Context) (apply, error) {
		s, err := measureCopies(ctx, dev.context, c.SizesBytes, c.MeasureFor)
		return func(p *Report) { p.gpu(dev.uuid).Copies = s }, err
	})
}

// describeCuFile loads libcufile and opens nothing.
func describeCuFile(d *driver.Driver) (Library, error) {
	f, err := d.CuFile()
	if err != nil {
		return Library{State: "absent", Reason: err.Error()}, err
	}
	lib := Library{State: "present", Missing: f.Missing()}
	lib.Version, err = f.Version()
	return lib, err
}
