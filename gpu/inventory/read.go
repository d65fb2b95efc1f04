package inventory

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/sealstone/sealstone/internal/hostinfo"
)

// absent is a library that could not be loaded.
type absent struct{ reason string }

func (a *absent) Error() string { return a.reason }

// failed turns an error of NVML into what the report says.
func failed(err error) NVML {
	v := NVML{State: NVMLFailed, Reason: err.Error(), Missing: []string{}}
	var missing *absent
	if errors.As(err, &missing) {
		v.State = NVMLAbsent
	}
	var call *nvmlError
	if errors.As(err, &call) {
		v.Code, v.Name = call.code, nvmlName(call.code)
	}
	return v
}

// unknownGPU is one about which nothing was told.
func unknownGPU() GPU {
	return GPU{
		Ordinal: Unknown, NVMLIndex: Unknown, NUMANode: Unknown, Virtualization: VirtualizationUnknown,
		MIG: MIG{Instances: []MIGInstance{}}, Bridges: []Bridge{}, Untrusted: []string{}, Notes: []string{},
	}
}

// Read looks at the host. It fails only if ctx ends; what could not be learned
// stands in the report, with the reason.
//
// NVML is asked on a goroutine of its own. A driver that does not answer keeps
// that goroutine for ever, since a call into it cannot be taken back: the report
// then says so, and later calls do not ask again. A process asks one library
// only, because go-nvml cannot let go of one; with another path a later call
// finds NVML absent.
func Read(ctx context.Context, o Options) (*Report, error) {
	t := tree{o.root()}
	kernel := t.line("proc/sys/kernel/osrelease")
	r := &Report{
		Virtual: t.virtual(), IOMMU: t.iommu(), Module: t.module(), NVIDIAFS: t.nvidiaFS(),
		Gates: t.gates(kernel), KernelRelease: kernel,
		GPUs: []GPU{}, Links: []Link{}, Directories: []Directory{}, Pairs: []Pair{},
	}
	r.P2PDMA = t.p2pdma(r.Module, kernel)
	load := o.nvml
	if load == nil {
		load = func() (walker, error) { return loadNVML(o.NVMLPath) }
	}
	at := o.desk
	if at == nil {
		at = process
	}
	v, gpus, links := at.ask(load, o.timeout(), ctx.Done())
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	r.NVML, r.GPUs, r.Links = v, merge(gpus, o.CUDA), append(r.Links, links...)
	places := make([]*place, len(r.GPUs))
	for i := range r.GPUs {
		places[i] = t.locate(&r.GPUs[i], r)
	}
	for _, dir := range o.Directories {
		d, devices := t.lookBehind(dir, o, r)
		r.Directories = append(r.Directories, d)
		for i, g := range r.GPUs {
			r.Pairs = append(r.Pairs, pairOf(g, places[i], d, devices))
		}
	}
	return r, nil
}

// locate finds a GPU in /sys and says whether its place means anything.
func (t tree) locate(g *GPU, r *Report) *place {
	g.Untrusted = untrusted(r.Virtual, g.Virtualization)
	if g.PCI == "" {
		g.Notes = append(g.Notes, "its PCI address was not told")
		return nil
	}
	a := address(g.PCI)
	p, err := t.placeOf(a, r.NVIDIAFS.ACSBridges)
	if err != nil {
		g.Notes = append(g.Notes, err.Error())
		return nil
	}
	g.NUMANode, g.Bridges, g.IOMMUType = p.node, p.bridges, t.iommuType(a)
	g.P2PMemBytes, _ = t.number(a.device() + "/p2pmem/size")
	return p
}

// placeOf finds where a PCI device sits.
func (t tree) placeOf(a address, acs []string) (*place, error) {
	c, err := t.chainTo(a)
	if err != nil {
		return nil, err
	}
	return &place{chain: c, bridges: t.bridges(c, acs), node: t.numaNode(a)}, nil
}

// deviceOf is the number of the device that a directory is on.
func deviceOf(dir string) (major, minor uint32, err error) {
	f, err := os.Open(dir)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	i, err := hostinfo.ReadFile(f.Fd())
	if err != nil {
		return 0, 0, fmt.Errorf("ask for the device of %s: %w", dir, err)
	}
	return i.Major, i.Minor, nil
}

// lookBehind finds the devices behind a directory and where they sit.
func (t tree) lookBehind(dir string, o Options, r *Report) (Directory, []place) {
	stat := o.stat
	if stat == nil {
		stat = deviceOf
	}
	major, minor, err := stat(dir)
	if err != nil {
		d := noDirectory(dir)
		d.Reason = err.Error()
		return d, nil
	}
	d := t.directory(dir, major, minor)
	devices := make([]place, 0, len(d.Controllers))
	for i := range d.Controllers {
		c := &d.Controllers[i]
		p, err := t.placeOf(address(c.PCI), r.NVIDIAFS.ACSBridges)
		if err != nil {
			d.Reason = fmt.Sprintf("%s: %s", c.Name, err)
			break
		}
		c.Bridges = p.bridges
		devices = append(devices, *p)
	}
	d.Obstacles = t.obstacles(d)
	return d, devices
}
