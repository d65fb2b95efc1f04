//go:build cgo

package inventory

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
)

// needs are the symbols that go-nvml calls for each function of the walk, in
// the order in which it looks for them. The functions of the mocks below are
// named as here.
var needs = map[string][]string{
	"SystemGetDriverVersion":     {"nvmlSystemGetDriverVersion"},
	"SystemGetCudaDriverVersion": {"nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"},
	"DeviceGetCount":             {"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"},
	"DeviceGetHandleByIndex":     {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"},
	"GetUUID":                    {"nvmlDeviceGetUUID"},
	"GetName":                    {"nvmlDeviceGetName"},
	"GetPciInfo":                 {"nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo"},
	"GetMemoryInfo":              {"nvmlDeviceGetMemoryInfo"},
	"GetBAR1MemoryInfo":          {"nvmlDeviceGetBAR1MemoryInfo"},
	"GetCudaComputeCapability":   {"nvmlDeviceGetCudaComputeCapability"},
	"GetVirtualizationMode":      {"nvmlDeviceGetVirtualizationMode"},
	"GetMigMode":                 {"nvmlDeviceGetMigMode"},
	"GetMaxMigDeviceCount":       {"nvmlDeviceGetMaxMigDeviceCount"},
	"GetMigDeviceHandleByIndex":  {"nvmlDeviceGetMigDeviceHandleByIndex"},
	"GetGpuInstanceId":           {"nvmlDeviceGetGpuInstanceId"},
	"GetComputeInstanceId":       {"nvmlDeviceGetComputeInstanceId"},
	"GetTopologyCommonAncestor":  {"nvmlDeviceGetTopologyCommonAncestor"},
	"GetP2PStatus":               {"nvmlDeviceGetP2PStatus"},
}

// fakeNVML is a host of two GPUs, the second one split in two, behind go-nvml's
// mocks, which panic where a function is called that is not set.
type fakeNVML struct {
	t      *testing.T
	lacks  map[string]bool        // symbols
	refuse map[string]nvml.Return // by function
	calls  map[string]int
	count  int
}

func newFake(t *testing.T) *fakeNVML {
	return &fakeNVML{t: t, lacks: map[string]bool{}, refuse: map[string]nvml.Return{}, calls: map[string]int{}, count: 2}
}

// called notes a call and fails the test if the library lacks the function: in
// earnest the process would be gone.
func (f *fakeNVML) called(name string) nvml.Return {
	f.calls[name]++
	if !slices.ContainsFunc(needs[name], func(s string) bool { return !f.lacks[s] }) {
		f.t.Errorf("%s is called, and %v are missing", name, needs[name])
	}
	return f.refuse[name]
}

func (f *fakeNVML) library() *library {
	return &library{
		api: &mock.Interface{
			SystemGetDriverVersionFunc: func() (string, nvml.Return) {
				return "580.95.05", f.called("SystemGetDriverVersion")
			},
			SystemGetCudaDriverVersion_v2Func: func() (int, nvml.Return) {
				if f.lacks["nvmlSystemGetCudaDriverVersion_v2"] {
					f.t.Error("nvmlSystemGetCudaDriverVersion_v2 is called and missing")
				}
				return 13010, f.called("SystemGetCudaDriverVersion")
			},
			SystemGetCudaDriverVersionFunc: func() (int, nvml.Return) { return 13010, f.called("SystemGetCudaDriverVersion") },
			DeviceGetCountFunc:             func() (int, nvml.Return) { return f.count, f.called("DeviceGetCount") },
			DeviceGetHandleByIndexFunc: func(i int) (nvml.Device, nvml.Return) {
				return f.device(i), f.called("DeviceGetHandleByIndex")
			},
		},
		lookup: func(symbol string) error {
			if f.lacks[symbol] {
				return errors.New("undefined symbol: " + symbol)
			}
			return nil
		},
	}
}

func (f *fakeNVML) device(i int) nvml.Device {
	d := f.instance(fmt.Sprintf("GPU-%08d-0000-0000-0000-000000000000", i), -1)
	d.GetNameFunc = func() (string, nvml.Return) { return fmt.Sprintf("NVIDIA H200 %d", i), f.called("GetName") }
	d.GetPciInfoFunc = func() (nvml.PciInfo, nvml.Return) {
		var p nvml.PciInfo
		for j, c := range []byte(fmt.Sprintf("00000000:%02X:00.0", 0x17+i)) {
			p.BusId[j] = int8(c)
		}
		return p, f.called("GetPciInfo")
	}
	d.GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) {
		return nvml.Memory{Total: 141 << 30}, f.called("GetMemoryInfo")
	}
	d.GetBAR1MemoryInfoFunc = func() (nvml.BAR1Memory, nvml.Return) {
		return nvml.BAR1Memory{Bar1Total: 256 << 30}, f.called("GetBAR1MemoryInfo")
	}
	d.GetCudaComputeCapabilityFunc = func() (int, int, nvml.Return) { return 9, 0, f.called("GetCudaComputeCapability") }
	d.GetVirtualizationModeFunc = func() (nvml.GpuVirtualizationMode, nvml.Return) {
		return nvml.GpuVirtualizationMode(i), f.called("GetVirtualizationMode")
	}
	d.GetMigModeFunc = func() (int, int, nvml.Return) { return i, 1, f.called("GetMigMode") }
	d.GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 7, f.called("GetMaxMigDeviceCount") }
	d.GetMigDeviceHandleByIndexFunc = func(j int) (nvml.Device, nvml.Return) {
		ret := f.called("GetMigDeviceHandleByIndex")
		if ret == nvml.SUCCESS && j != 0 && j != 3 {
			return nil, nvml.ERROR_NOT_FOUND
		}
		return f.instance(fmt.Sprintf("MIG-%08d-0000-0000-0000-000000000000", j), j), ret
	}
	d.GetTopologyCommonAncestorFunc = func(nvml.Device) (nvml.GpuTopologyLevel, nvml.Return) {
		return nvml.TOPOLOGY_MULTIPLE, f.called("GetTopologyCommonAncestor")
	}
	d.GetP2PStatusFunc = func(_ nvml.Device, what nvml.GpuP2PCapsIndex) (nvml.GpuP2PStatus, nvml.Return) {
		ret := f.called("GetP2PStatus")
		if what == nvml.P2P_CAPS_INDEX_NVLINK {
			return nvml.P2P_STATUS_NOT_SUPPORTED, ret
		}
		return nvml.P2P_STATUS_OK, ret
	}
	return d
}

func (f *fakeNVML) instance(uuid string, id int) *mock.Device {
	return &mock.Device{
		GetUUIDFunc:              func() (string, nvml.Return) { return uuid, f.called("GetUUID") },
		GetGpuInstanceIdFunc:     func() (int, nvml.Return) { return id, f.called("GetGpuInstanceId") },
		GetComputeInstanceIdFunc: func() (int, nvml.Return) { return 0, f.called("GetComputeInstanceId") },
	}
}

func (f *fakeNVML) walk() *notebook {
	n := &notebook{nvml: NVML{State: NVMLReady, Missing: []string{}}}
	f.library().walk(n)
	return n
}

func TestWalk(t *testing.T) {
	f := newFake(t)
	n := f.walk()
	if want := (NVML{State: NVMLReady, DriverVersion: "580.95.05", CUDAVersion: "13.1", Missing: []string{}}); !reflect.DeepEqual(n.nvml, want) {
		t.Errorf("%+v", n.nvml)
	}
	if len(n.gpus) != 2 {
		t.Fatalf("%d GPUs", len(n.gpus))
	}
	plain := GPU{
		UUID: "GPU-00000000-0000-0000-0000-000000000000", Name: "NVIDIA H200 0", Ordinal: Unknown, NVMLIndex: 0,
		PCI: "0000:17:00.0", NUMANode: Unknown, ComputeMajor: 9, MemoryBytes: 141 << 30, BAR1Bytes: 256 << 30,
		Virtualization: VirtualizationNone, MIG: MIG{PendingEnabled: true, Instances: []MIGInstance{}},
		Bridges: []Bridge{}, Untrusted: []string{}, Notes: []string{},
	}
	if !reflect.DeepEqual(n.gpus[0], plain) {
		t.Errorf("%+v", n.gpus[0])
	}
	split := n.gpus[1]
	instances := []MIGInstance{
		{UUID: "MIG-00000000-0000-0000-0000-000000000000", GPUInstance: 0, Ordinal: Unknown},
		{UUID: "MIG-00000003-0000-0000-0000-000000000000", GPUInstance: 3, Ordinal: Unknown},
	}
	if split.Virtualization != VirtualizationPassthrough || !split.MIG.Enabled || !reflect.DeepEqual(split.MIG.Instances, instances) || len(split.Notes) != 0 {
		t.Errorf("%+v", split)
	}
	link := Link{A: n.gpus[0].UUID, B: split.UUID, Level: LevelPXB, Read: "ok", Write: "ok", NVLink: "not supported"}
	if !slices.Equal(n.links, []Link{link}) {
		t.Errorf("%+v", n.links)
	}
	for name := range needs {
		if f.calls[name] == 0 {
			t.Errorf("%s was not called", name)
		}
	}
}

// TestWalkLacksOne takes the symbols of each function away: it is not called,
// it is named, and everything else is asked as before.
func TestWalkLacksOne(t *testing.T) {
	whole := newFake(t)
	whole.walk()
	for name, symbols := range needs {
		f := newFake(t)
		for _, s := range symbols {
			f.lacks[s] = true
		}
		n := f.walk()
		if f.calls[name] != 0 || !slices.Equal(n.nvml.Missing, symbols[:1]) {
			t.Errorf("%s: called %d times, missing %v", name, f.calls[name], n.nvml.Missing)
		}
		if name == "DeviceGetCount" {
			if n.nvml.State != NVMLFailed || len(n.gpus) != 0 || !strings.Contains(n.nvml.Reason, symbols[0]) {
				t.Errorf("without a count: %+v, %d GPUs", n.nvml, len(n.gpus))
			}
			continue
		}
		if n.nvml.State != NVMLReady || len(n.gpus) != 2 {
			t.Errorf("%s: %+v, %d GPUs", name, n.nvml, len(n.gpus))
		}
	}
}

// TestWalkOld: an old library has only the first versions.
func TestWalkOld(t *testing.T) {
	f := newFake(t)
	for _, symbols := range needs {
		for _, s := range symbols[:len(symbols)-1] {
			f.lacks[s] = true
		}
	}
	if n := f.walk(); len(n.nvml.Missing) != 0 || len(n.gpus) != 2 || len(n.gpus[0].Notes) != 0 {
		t.Errorf("%+v, %+v", n.nvml, n.gpus)
	}
	// And a library with nothing at all answers nothing.
	for _, symbols := range needs {
		f.lacks[symbols[len(symbols)-1]] = true
	}
	clear(f.calls)
	if n := f.walk(); len(f.calls) != 0 || n.nvml.State != NVMLFailed {
		t.Errorf("%v, %+v", f.calls, n.nvml)
	}
	l := f.library()
	f.lacks["nvmlInit_v2"], f.lacks["nvmlInit"] = true, true
	if err := l.init(); err == nil || failed(err).State != NVMLAbsent {
		t.Errorf("init without its function: %v", err)
	}
}

// TestWalkRefused lets each function fail: what it should have told is unknown,
// and a note or a state says why.
func TestWalkRefused(t *testing.T) {
	for name := range needs {
		f := newFake(t)
		f.refuse[name] = nvml.ERROR_GPU_IS_LOST
		n := f.walk()
		switch name {
		case "SystemGetDriverVersion", "SystemGetCudaDriverVersion":
			if n.nvml.DriverVersion != "" && n.nvml.CUDAVersion != "" {
				t.Errorf("%s: %+v", name, n.nvml)
			}
		case "DeviceGetCount":
			if n.nvml.State != NVMLFailed || n.nvml.Code != 15 || n.nvml.Name != "ERROR_GPU_IS_LOST" {
				t.Errorf("%s: %+v", name, n.nvml)
			}
		case "GetMigMode", "GetMigDeviceHandleByIndex":
			if len(n.gpus[1].MIG.Instances) != 0 {
				t.Errorf("%s: %+v", name, n.gpus[1].MIG)
			}
		case "GetTopologyCommonAncestor":
			if n.links[0].Level != LevelUnknown {
				t.Errorf("%s: %+v", name, n.links)
			}
		case "GetP2PStatus":
			if !strings.Contains(n.links[0].Read, "ERROR_GPU_IS_LOST (15)") {
				t.Errorf("%s: %+v", name, n.links)
			}
		default:
			if notes := strings.Join(n.gpus[1].Notes, "\n"); !strings.Contains(notes, needs[name][0]+": ERROR_GPU_IS_LOST (15)") {
				t.Errorf("%s: notes %q", name, notes)
			}
		}
	}
}

// TestWalkWildCount: a count out of this world does not make a long loop.
func TestWalkWildCount(t *testing.T) {
	f := newFake(t)
	f.count = 1 << 30
	if n := f.walk(); len(n.gpus) != maxGPUs {
		t.Errorf("%d GPUs", len(n.gpus))
	}
}

// TestInit: what nvmlInit answers.
func TestInit(t *testing.T) {
	l := newFake(t).library()
	for ret, state := range map[nvml.Return]NVMLState{nvml.ERROR_DRIVER_NOT_LOADED: NVMLFailed, nvml.ERROR_LIB_RM_VERSION_MISMATCH: NVMLFailed} {
		l.api.(*mock.Interface).InitFunc = func() nvml.Return { return ret }
		v := failed(l.init())
		if v.State != state || v.Code != int(ret) || !strings.Contains(v.Reason, v.Name) || !strings.Contains(v.Reason, ":") {
			t.Errorf("%+v", v)
		}
	}
	l.api.(*mock.Interface).InitFunc = func() nvml.Return { return nvml.SUCCESS }
	if err := l.init(); err != nil {
		t.Error(err)
	}
}

// TestNVMLNames compares the names with go-nvml's, which come from itself while
// no library is loaded. Those that it does not know are checked by number.
func TestNVMLNames(t *testing.T) {
	for code := range 1000 {
		theirs := nvml.Return(code).Error()
		ours, ok := nvmlNames[code]
		if known := !strings.Contains(theirs, fmt.Sprint(code)); known && theirs != ours {
			t.Errorf("%d: %q, go-nvml calls it %q", code, ours, theirs)
		} else if ok && !known && code < 26 {
			t.Errorf("%d: %q, go-nvml knows no such code", code, ours)
		}
	}
}

// TestNVMLAbsent loads what is not there and what is no NVML. Neither leaves a
// trace: the next library is loaded as if nothing had been.
func TestNVMLAbsent(t *testing.T) {
	for path, reason := range map[string]string{
		"/nonexistent/libnvidia-ml.so.1": "No such file",
		"libc.so.6":                      "nvmlInit",
	} {
		_, err := loadNVML(path)
		if err == nil {
			t.Fatalf("%s was loaded", path)
		}
		if v := failed(err); v.State != NVMLAbsent || !strings.Contains(v.Reason, reason) {
			t.Errorf("%s: %+v", path, v)
		}
	}
	if loaded.lib != nil {
		t.Error("a library is kept")
	}
}
