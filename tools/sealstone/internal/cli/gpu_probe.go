package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sealstone/sealstone/gpu"
	"github.com/sealstone/sealstone/gpu/canary"
	"github.com/sealstone/sealstone/gpu/driver"
	"github.com/sealstone/sealstone/gpu/inventory"
)

// gpuEnvironment are the parts of the machine that tests put others in place
// of. Nil is the machine's own.
type gpuEnvironment struct {
	read func(context.Context, inventory.Options) (*inventory.Report, error)
	try  func(context.Context, directTrial) (gpu.Verdict, error)
	open func(driver.Options) libraries
	// timeout bounds open; 0 is inventory.DefaultTimeout.
	timeout time.Duration
}

// withDefaults puts in what is not set.
func (e gpuEnvironment) withDefaults() gpuEnvironment {
	if e.read == nil {
		e.read = inventory.Read
	}
	if e.try == nil {
		e.try = tryCanary
	}
	if e.open == nil {
		e.open = openLibraries
	}
	if e.timeout == 0 {
		e.timeout = inventory.DefaultTimeout
	}
	return e
}

// gpuProbe gathers a report.
type gpuProbe struct {
	gpuEnvironment
	flags probeFlags
	dir   string
}

func runGPUProbe(ctx context.Context, env *environment, f probeFlags, dir string) error {
	if f.timeout <= 0 {
		return usage{fmt.Errorf("--timeout must be more than 0, got %v", f.timeout)}
	}
	if i, err := os.Stat(dir); err != nil {
		return err
	} else if !i.IsDir() {
		return fmt.Errorf("%s is not a directory", dir)
	}
	if err := f.out.create(); err != nil {
		return err
	}
	p := &gpuProbe{gpuEnvironment: env.gpu.withDefaults(), flags: f, dir: dir}
	bar := newProgress(env, f.out.quiet, "probe")
	r, err := p.gather(ctx, bar.set)
	bar.end()
	if err != nil {
		return err
	}
	return f.out.write(env, r, func(w io.Writer) { printGPUs(w, r) })
}

func (p *gpuProbe) gather(ctx context.Context, progress func(done, total int64)) (*gpuReport, error) {
	libraries, err := p.libraries(ctx)
	if err != nil {
		return nil, err
	}
	found, err := p.read(ctx, inventory.Options{
		NVMLPath: p.flags.gpu.nvmlLib, Directories: []string{p.dir}, CUDA: libraries.devices,
	})
	if err != nil {
		return nil, err
	}
	r := &gpuReport{
		Driver: libraries.cuda, CuFile: libraries.cuFile, GPUs: found.GPUs, Pairs: []gpuPair{}, Links: found.Links,
		Doubles: areDoubles(found.GPUs), Directory: found.Directories[0],
		Host: gpuHost{
			Kernel: found.KernelRelease, Virtual: found.Virtual, IOMMU: found.IOMMU, Gates: found.Gates,
			Module: found.Module, NVML: found.NVML, NVIDIAFS: found.NVIDIAFS, P2PDMA: found.P2PDMA,
		},
	}
	if r.Doubles {
		r.forgetHost()
	}
	if r.Driver.State == libraryAbsent && found.NVML.State == inventory.NVMLAbsent && len(found.GPUs) == 0 {
		r.Driver.Reason += "; NVML: " + found.NVML.Reason
	}
	for i, g := range found.GPUs {
		progress(int64(i), int64(len(found.GPUs)))
		for _, device := range devicesOf(g) {
			pair, err := p.pair(ctx, r, i, device, found.Pairs[i])
			if err != nil {
				return nil, err
			}
			r.Pairs = append(r.Pairs, pair)
		}
	}
	return r, nil
}

// cudaDevice is what CUDA numbers: a GPU, or an instance of a split one.
type cudaDevice struct {
	instance string
	ordinal  int
}

// devicesOf are those of a GPU: one, or as many as it has instances.
func devicesOf(g inventory.GPU) []cudaDevice {
	if !g.MIG.Enabled || len(g.MIG.Instances) == 0 {
		return []cudaDevice{{"", g.Ordinal}}
	}
	var all []cudaDevice
	for _, m := range g.MIG.Instances {
		all = append(all, cudaDevice{m.UUID, m.Ordinal})
	}
	return all
}

// pair decides which way a device would be served, and says why not a better
// one.
func (p *gpuProbe) pair(ctx context.Context, r *gpuReport, i int, d cudaDevice, place inventory.Pair) (gpuPair, error) {
	g := r.GPUs[i]
	pair := gpuPair{
		index: i, GPU: g.UUID, Instance: d.instance, Directory: p.dir, Place: place, Path: gpuPathHost,
		Direct: gpu.Verdict{Dir: p.dir, Checks: []gpu.VerdictCheck{}}, Against: append(r.againstHere(), againstGPU(g, place)...),
	}
	switch {
	case r.Driver.State != libraryReady:
		pair.Path, pair.Because = gpuPathNone, "libcuda cannot be used: "+r.Driver.Reason
		return pair, nil
	case d.ordinal == inventory.Unknown:
		pair.Path, pair.Because = gpuPathNone, "CUDA does not show this device to this process (CUDA_VISIBLE_DEVICES, or the container, leaves it out)"
		return pair, nil
	case r.CuFile.State != libraryReady:
		pair.Because = "libcufile cannot be used"
		pair.Direct = refusedBy(r.CuFile, p.dir)
		return pair, nil
	}
	uuid := g.UUID
	if d.instance != "" {
		uuid = d.instance
	}
	v, err := p.try(ctx, p.trial(r, g, uuid))
	if ctxErr := context.Cause(ctx); ctxErr != nil {
		return pair, ctxErr
	}
	if err != nil {
		v = gpu.Verdict{State: gpu.VerdictRefused, Dir: p.dir, Reason: err.Error(), Checks: []gpu.VerdictCheck{}}
	}
	pair.Direct = v
	if v.Proven(uuid) {
		pair.Path, pair.Because = gpuPathCuFile, fmt.Sprintf("bytes of a fresh file arrived as written, %d checks", len(v.Checks))
		return pair, nil
	}
	pair.Because = "the direct way is not proven"
	return pair, nil
}

// refusedBy is the verdict where libcufile itself cannot be used.
func refusedBy(l gpuLibrary, dir string) gpu.Verdict {
	return gpu.Verdict{State: gpu.VerdictRefused, Code: l.Code, Name: l.Name, Reason: l.Reason, Dir: dir, Checks: []gpu.VerdictCheck{}}
}

// directTrial is what is needed to try the direct way.
type directTrial struct {
	uuid, dir    string
	cuda, cuFile string
	timeout      time.Duration
	vm           canary.VM
	allow        bool
	doubles      bool
}

func (p *gpuProbe) trial(r *gpuReport, g inventory.GPU, uuid string) directTrial {
	t := directTrial{
		uuid: uuid, dir: p.dir, cuda: p.flags.gpu.cuda, cuFile: p.flags.gpu.cuFile, timeout: p.flags.timeout,
		vm: canary.VM{Virtual: len(g.Untrusted) > 0, Reasons: g.Untrusted}, doubles: r.Doubles,
	}
	for _, allowed := range p.flags.gpu.allow {
		t.allow = t.allow || allowed == uuid || allowed == g.UUID
	}
	return t
}

// tryCanary asks a canary, in a child process of this very program.
func tryCanary(ctx context.Context, t directTrial) (gpu.Verdict, error) {
	exe, err := os.Executable()
	if err != nil {
		return gpu.Verdict{}, fmt.Errorf("no program for the trial: %w", err)
	}
	o := canary.Options{
		Program: []string{exe, canary.ChildCommand}, CUDAPath: t.cuda, CuFilePath: t.cuFile, Timeout: t.timeout, VM: &t.vm,
	}
	if t.doubles {
		// Doubles need nothing of the machine: not udev, which containers lack.
		root, err := bareRoot()
		if err != nil {
			return gpu.Verdict{}, err
		}
		defer os.RemoveAll(root)
		o.Root = root
	}
	if t.allow {
		o.Allow = []canary.Pair{{GPU: t.uuid, Dir: t.dir}}
	}
	prober, err := canary.New(o)
	if err != nil {
		return gpu.Verdict{}, err
	}
	return prober.Probe(ctx, t.uuid, t.dir)
}

// bareRoot makes a folder that stands for "/" of a machine with udev and no
// driver.
func bareRoot() (string, error) {
	root, err := os.MkdirTemp("", "sealstone-root-")
	if err != nil {
		return "", err
	}
	return root, os.MkdirAll(filepath.Join(root, "run", "udev"), 0o700)
}

// doubleName begins the names of the devices that the doubles of gpu/gputest
// show. No GPU is called so.
const doubleName = "Double GPU "

// areDoubles says whether all GPUs are made up. Doubles reach no bus, so signs
// of a virtual machine say nothing against them.
func areDoubles(gpus []inventory.GPU) bool {
	return len(gpus) > 0 && !slices.ContainsFunc(gpus, func(g inventory.GPU) bool { return !strings.HasPrefix(g.Name, doubleName) })
}

// libraries are libcuda and libcufile, and the devices of the first.
type libraries struct {
	cuda, cuFile gpuLibrary
	devices      []inventory.CUDADevice
}

// libraries opens both. Loading the driver's library may wake a GPU, and hang in
// the attempt; then the goroutine stays behind and the process ends without it.
func (p *gpuProbe) libraries(ctx context.Context) (libraries, error) {
	got := make(chan libraries, 1)
	go func() { got <- p.open(driver.Options{CUDAPath: p.flags.gpu.cuda, CuFilePath: p.flags.gpu.cuFile}) }()
	timer := time.NewTimer(p.timeout)
	defer timer.Stop()
	select {
	case l := <-got:
		return l, nil
	case <-ctx.Done():
		return libraries{}, context.Cause(ctx)
	case <-timer.C:
		hung := gpuLibrary{State: libraryHung, Reason: fmt.Sprintf("libcuda did not answer within %v; look for Xid messages in the kernel's log", p.timeout)}
		return libraries{cuda: hung, cuFile: gpuLibrary{State: libraryAbsent, Reason: "it is not loaded where libcuda hangs"}}, nil
	}
}

func openLibraries(o driver.Options) libraries {
	l := libraries{cuFile: gpuLibrary{State: libraryAbsent, Reason: "it is not loaded without libcuda"}}
	d, err := driver.Open(o)
	if err != nil {
		l.cuda = libraryError(err)
		return l
	}
	version, err := d.Version()
	if err != nil {
		l.cuda = libraryError(err)
		return l
	}
	l.cuda = gpuLibrary{State: libraryReady, Version: fmt.Sprintf("%d.%d", version/1000, version%1000/10)}
	if l.devices, err = cudaDevices(d); err != nil {
		l.cuda = libraryError(err)
		return l
	}
	l.cuFile = openCuFile(d)
	return l
}

func cudaDevices(d *driver.Driver) ([]inventory.CUDADevice, error) {
	n, err := d.DeviceCount()
	if err != nil {
		return nil, err
	}
	var all []inventory.CUDADevice
	for i := range n {
		info, err := d.Device(i)
		if err != nil {
			return nil, err
		}
		all = append(all, inventory.CUDADevice{
			Ordinal: i, UUID: info.UUID, Name: info.Name, PCI: info.PCIBusID, MemoryBytes: info.TotalBytes,
			ComputeMajor: info.Major, ComputeMinor: info.Minor,
		})
	}
	return all, nil
}

// openCuFile only loads the library: what it does is found out by the canary,
// in a process of its own.
func openCuFile(d *driver.Driver) gpuLibrary {
	f, err := d.CuFile()
	if err != nil {
		return libraryError(err)
	}
	l := gpuLibrary{State: libraryReady}
	// Libraries before CUDA 12.3 do not tell their version.
	if v, err := f.Version(); err == nil {
		l.Version = fmt.Sprintf("%d.%d", v/1000, v%1000/10)
	}
	return l
}

// libraryError sorts an error of package driver.
func libraryError(err error) gpuLibrary {
	text := strings.TrimPrefix(oneLine(err.Error()), driver.ErrUnavailable.Error()+": ")
	text = strings.ReplaceAll(text, "driver: ", "")
	l := gpuLibrary{State: libraryAbsent, Reason: text}
	var call *driver.Error
	if errors.As(err, &call) {
		l.State, l.Code, l.Name = libraryFailed, call.Code, call.Name
	} else if errors.Is(err, driver.ErrMissingSymbol) {
		l.State = libraryFailed
	}
	return l
}
