//go:build cgo && linux

package inventory

import (
	"fmt"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// asker asks a library and keeps the reasons for what it did not answer.
type asker struct {
	*library
	n     *notebook
	notes []string // of the GPU that is being asked about
}

// ask makes one call. symbols are the names under which go-nvml would look for
// the function, the newest first: where the library has none the call is left
// out, because it would end the process.
func ask[T any](a *asker, call func() (T, nvml.Return), symbols ...string) (T, error) {
	var none T
	name := symbols[0]
	if !a.has(symbols...) {
		a.n.write(func() {
			if !slices.Contains(a.n.nvml.Missing, name) {
				a.n.nvml.Missing = append(a.n.nvml.Missing, name)
			}
		})
		return none, fmt.Errorf("%s: the installed library has no such function", name)
	}
	if !a.n.begin(name) {
		return none, fmt.Errorf("%s: given up", name)
	}
	v, ret := call()
	if ret != nvml.SUCCESS {
		return none, &nvmlError{name, int(ret)}
	}
	return v, nil
}

// want asks and takes the answer; a refusal becomes a note.
func want[T any](a *asker, take func(T), call func() (T, nvml.Return), symbols ...string) {
	v, err := ask(a, call, symbols...)
	if err != nil {
		a.notes = append(a.notes, err.Error())
		return
	}
	take(v)
}

// two joins the two values of a call.
type two struct{ a, b int }

func both(f func() (int, int, nvml.Return)) func() (two, nvml.Return) {
	return func() (two, nvml.Return) {
		a, b, ret := f()
		return two{a, b}, ret
	}
}

// walk asks everything.
func (l *library) walk(n *notebook) {
	a := &asker{library: l, n: n}
	a.system()
	count, err := ask(a, l.api.DeviceGetCount, "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount")
	if err != nil {
		n.write(func() {
			v := failed(err)
			n.nvml.State, n.nvml.Code, n.nvml.Name, n.nvml.Reason = v.State, v.Code, v.Name, v.Reason
		})
		return
	}
	var devices []nvml.Device
	for i := range min(count, maxGPUs) {
		a.notes = []string{}
		g := unknownGPU()
		g.NVMLIndex = i
		d, err := ask(a, func() (nvml.Device, nvml.Return) { return l.api.DeviceGetHandleByIndex(i) },
			"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex")
		if err != nil {
			d = nil
			a.notes = append(a.notes, err.Error())
		} else {
			a.device(d, &g)
		}
		g.Notes = a.notes
		devices = append(devices, d)
		n.write(func() { n.gpus = append(n.gpus, g) })
	}
	a.links(devices)
}

// system asks for versions. NVML reports CUDA's as 1000 times the major and 10
// times the minor number.
func (a *asker) system() {
	if v, err := ask(a, a.api.SystemGetDriverVersion, "nvmlSystemGetDriverVersion"); err == nil {
		a.n.write(func() { a.n.nvml.DriverVersion = v })
	}
	// These two are different functions to go-nvml, other than most versions.
	const newer, older = "nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"
	cuda := a.api.SystemGetCudaDriverVersion
	if a.has(newer) {
		cuda = a.api.SystemGetCudaDriverVersion_v2
	}
	if v, err := ask(a, cuda, newer, older); err == nil {
		a.n.write(func() { a.n.nvml.CUDAVersion = fmt.Sprintf("%d.%d", v/1000, v%1000/10) })
	}
}

// virtualizations are the values of nvmlGpuVirtualizationMode_t.
var virtualizations = map[nvml.GpuVirtualizationMode]Virtualization{
	nvml.GPU_VIRTUALIZATION_MODE_NONE:        VirtualizationNone,
	nvml.GPU_VIRTUALIZATION_MODE_PASSTHROUGH: VirtualizationPassthrough,
	nvml.GPU_VIRTUALIZATION_MODE_VGPU:        VirtualizationVGPU,
	nvml.GPU_VIRTUALIZATION_MODE_HOST_VGPU:   VirtualizationHostVGPU,
	nvml.GPU_VIRTUALIZATION_MODE_HOST_VSGA:   VirtualizationHostVSGA,
}

func (a *asker) device(d nvml.Device, g *GPU) {
	want(a, func(s string) { g.UUID = s }, d.GetUUID, "nvmlDeviceGetUUID")
	want(a, func(s string) { g.Name = s }, d.GetName, "nvmlDeviceGetName")
	want(a, func(p nvml.PciInfo) {
		pci, err := parseAddress(charsText(p.BusId[:]))
		if err != nil {
			a.notes = append(a.notes, "nvmlDeviceGetPciInfo: "+err.Error())
		}
		g.PCI = string(pci)
	}, d.GetPciInfo, "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo")
	want(a, func(m nvml.Memory) { g.MemoryBytes = int64(m.Total) }, d.GetMemoryInfo, "nvmlDeviceGetMemoryInfo")
	want(a, func(b nvml.BAR1Memory) { g.BAR1Bytes = int64(b.Bar1Total) }, d.GetBAR1MemoryInfo, "nvmlDeviceGetBAR1MemoryInfo")
	want(a, func(v two) { g.ComputeMajor, g.ComputeMinor = v.a, v.b }, both(d.GetCudaComputeCapability), "nvmlDeviceGetCudaComputeCapability")
	want(a, func(m nvml.GpuVirtualizationMode) {
		if v, ok := virtualizations[m]; ok {
			g.Virtualization = v
		}
	}, d.GetVirtualizationMode, "nvmlDeviceGetVirtualizationMode")
	a.mig(d, g)
}

// mig asks whether the GPU is split. Most GPUs cannot be, which is no answer
// worth a note.
func (a *asker) mig(d nvml.Device, g *GPU) {
	mode, err := ask(a, both(d.GetMigMode), "nvmlDeviceGetMigMode")
	if err != nil {
		return
	}
	g.MIG.Enabled, g.MIG.PendingEnabled = mode.a == nvml.DEVICE_MIG_ENABLE, mode.b == nvml.DEVICE_MIG_ENABLE
	if !g.MIG.Enabled {
		return
	}
	most, err := ask(a, d.GetMaxMigDeviceCount, "nvmlDeviceGetMaxMigDeviceCount")
	if err != nil {
		a.notes = append(a.notes, err.Error())
		return
	}
	for i := range min(most, maxGPUs) {
		// An index without an instance is not found; the others follow.
		m, err := ask(a, func() (nvml.Device, nvml.Return) { return d.GetMigDeviceHandleByIndex(i) }, "nvmlDeviceGetMigDeviceHandleByIndex")
		if err != nil {
			continue
		}
		instance := MIGInstance{GPUInstance: Unknown, ComputeInstance: Unknown, Ordinal: Unknown}
		want(a, func(s string) { instance.UUID = s }, m.GetUUID, "nvmlDeviceGetUUID")
		want(a, func(n int) { instance.GPUInstance = n }, m.GetGpuInstanceId, "nvmlDeviceGetGpuInstanceId")
		want(a, func(n int) { instance.ComputeInstance = n }, m.GetComputeInstanceId, "nvmlDeviceGetComputeInstanceId")
		g.MIG.Instances = append(g.MIG.Instances, instance)
	}
}

// p2pStatus are the values of nvmlGpuP2PStatus_t.
var p2pStatus = map[nvml.GpuP2PStatus]string{
	nvml.P2P_STATUS_OK:                         "ok",
	nvml.P2P_STATUS_CHIPSET_NOT_SUPPORTED:      "chipset not supported",
	nvml.P2P_STATUS_GPU_NOT_SUPPORTED:          "GPU not supported",
	nvml.P2P_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED: "topology not supported",
	nvml.P2P_STATUS_DISABLED_BY_REGKEY:         "disabled by a setting of the module",
	nvml.P2P_STATUS_NOT_SUPPORTED:              "not supported",
	nvml.P2P_STATUS_UNKNOWN:                    "unknown",
}

// links asks how each pair of GPUs hangs together.
func (a *asker) links(devices []nvml.Device) {
	for i, x := range devices {
		for j := i + 1; j < len(devices); j++ {
			y := devices[j]
			if x == nil || y == nil {
				continue
			}
			l := Link{Level: LevelUnknown}
			if v, err := ask(a, func() (nvml.GpuTopologyLevel, nvml.Return) { return x.GetTopologyCommonAncestor(y) }, "nvmlDeviceGetTopologyCommonAncestor"); err == nil {
				if level, ok := levelsOfNVML[int(v)]; ok {
					l.Level = level
				}
			}
			l.Read = a.p2p(x, y, nvml.P2P_CAPS_INDEX_READ)
			l.Write = a.p2p(x, y, nvml.P2P_CAPS_INDEX_WRITE)
			l.NVLink = a.p2p(x, y, nvml.P2P_CAPS_INDEX_NVLINK)
			a.n.write(func() {
				l.A, l.B = a.n.gpus[i].UUID, a.n.gpus[j].UUID
				a.n.links = append(a.n.links, l)
			})
		}
	}
}

func (a *asker) p2p(x, y nvml.Device, what nvml.GpuP2PCapsIndex) string {
	v, err := ask(a, func() (nvml.GpuP2PStatus, nvml.Return) { return x.GetP2PStatus(y, what) }, "nvmlDeviceGetP2PStatus")
	if err != nil {
		return err.Error()
	}
	if text, ok := p2pStatus[v]; ok {
		return text
	}
	return fmt.Sprintf("status %d", int(v))
}

// charsText is C text in an array, which may lack its end.
func charsText(c []int8) string {
	var b strings.Builder
	for _, x := range c {
		if x == 0 {
			break
		}
		b.WriteByte(byte(x))
	}
	return b.String()
}
