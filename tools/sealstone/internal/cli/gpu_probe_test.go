package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sealstone/sealstone/gpu"
	"github.com/sealstone/sealstone/gpu/driver"
	"github.com/sealstone/sealstone/gpu/inventory"
)

// gpuMachine is a machine with a driver that tests put together.
type gpuMachine struct {
	libraries libraries
	report    inventory.Report
	verdicts  map[string]gpu.Verdict // by UUID
	tried     []directTrial
	err       error // of a trial
}

func (m *gpuMachine) environment() gpuEnvironment {
	return gpuEnvironment{
		open: func(driver.Options) libraries { return m.libraries },
		read: func(_ context.Context, o inventory.Options) (*inventory.Report, error) {
			r := m.report
			if len(o.CUDA) != len(m.libraries.devices) {
				return nil, errors.New("the devices of CUDA are not handed on")
			}
			return &r, nil
		},
		try: func(_ context.Context, t directTrial) (gpu.Verdict, error) {
			m.tried = append(m.tried, t)
			v := m.verdicts[t.uuid]
			v.Dir, v.Key.GPU = t.dir, t.uuid
			return v, m.err
		},
	}
}

// run runs the command on that machine.
func (m *gpuMachine) run(args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	env := &environment{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, gpu: m.environment()}
	status = mainContext(context.Background(), env, append([]string{"probe", "--gpu"}, args...))
	return status, out.String(), errs.String()
}

const (
	uuidA = "GPU-0a0a0a0a-0000-0000-0000-000000000000"
	uuidB = "GPU-0b0b0b0b-0000-0000-0000-000000000000"
	uuidC = "GPU-0c0c0c0c-0000-0000-0000-000000000000"
	migA  = "MIG-0d0d0d0d-0000-0000-0000-000000000000"
	migB  = "MIG-0e0e0e0e-0000-0000-0000-000000000000"
)

// sampleMachine has three GPUs: one near and proven, one passed through and
// refused, and one that is split, of which CUDA shows one instance.
func sampleMachine() *gpuMachine {
	ready := gpuLibrary{State: libraryReady, Version: "13.0"}
	device := inventory.Controller{Name: "nvme0", PCI: "0000:19:00.0", NUMANode: 0}
	bridges := []string{"0000:15:01.0", "0000:16:00.0"}
	passed := "the driver calls this GPU's virtualization mode passthrough"
	return &gpuMachine{
		libraries: libraries{cuda: ready, cuFile: gpuLibrary{State: libraryReady, Version: "1.15"}, devices: make([]inventory.CUDADevice, 3)},
		report: inventory.Report{
			NVML:          inventory.NVML{State: inventory.NVMLReady, DriverVersion: "580.95.05", CUDAVersion: "13.0"},
			Module:        inventory.Module{Loaded: true, Version: "580.95.05", Open: true},
			KernelRelease: "6.8.0",
			Virtual:       inventory.Virtual{Signals: []string{}},
			Directories: []inventory.Directory{{
				Path: "/mnt/fast", Filesystem: "xfs", DeviceID: "259:1", Device: "nvme0n1p1", Controllers: []inventory.Controller{device},
			}},
			P2PDMA: inventory.P2PDMA{Against: []string{"nvme_core runs with multipath=Y"}},
			GPUs: []inventory.GPU{
				{UUID: uuidA, Name: "NVIDIA H200", PCI: "0000:18:00.0", NUMANode: 0, MemoryBytes: 141 << 30, BAR1Bytes: 256 << 30, ComputeMajor: 9, Virtualization: inventory.VirtualizationNone},
				{UUID: uuidB, Name: "NVIDIA H200", PCI: "0000:1b:00.0", NUMANode: 1, Ordinal: 1, NVMLIndex: 1, MemoryBytes: 141 << 30, BAR1Bytes: 256 << 20, IOMMUType: "DMA-FQ", Virtualization: inventory.VirtualizationPassthrough, Untrusted: []string{passed}},
				{UUID: uuidC, Name: "NVIDIA A100", NUMANode: inventory.Unknown, Ordinal: inventory.Unknown, NVMLIndex: 2, Notes: []string{"nvmlDeviceGetPciInfo: ERROR_GPU_IS_LOST (15)"},
					MIG: inventory.MIG{Enabled: true, Instances: []inventory.MIGInstance{{UUID: migA, Ordinal: 2}, {UUID: migB, Ordinal: inventory.Unknown}}}},
			},
			Pairs: []inventory.Pair{
				{GPU: uuidA, Directory: "/mnt/fast", Level: inventory.LevelPIX, SharedSwitch: true, Near: true, Shared: bridges, Reason: "both hang on the PCIe switch at 0000:16:00.0"},
				{GPU: uuidB, Directory: "/mnt/fast", Level: inventory.LevelPIX, SharedSwitch: true, Shared: bridges, Reason: "both hang on the PCIe switch at 0000:16:00.0, which is not trusted here: " + passed, Doubts: []string{"the IOMMU translates the addresses of the GPU (DMA-FQ)"}},
				{GPU: uuidC, Directory: "/mnt/fast", Level: inventory.LevelUnknown, Reason: "it is not known where the GPU sits: nvmlDeviceGetPciInfo: ERROR_GPU_IS_LOST (15)"},
			},
			Links: []inventory.Link{{A: uuidA, B: uuidB, Level: inventory.LevelNode, Read: "ok", Write: "chipset not supported", NVLink: "not supported"}},
		},
		verdicts: map[string]gpu.Verdict{
			uuidA: {State: gpu.VerdictProven, Checks: make([]gpu.VerdictCheck, 9)},
			uuidB: {State: gpu.VerdictRefused, Name: "vm", Reason: "this is a virtual machine (" + passed + ")"},
			migA:  {State: gpu.VerdictRefused, Code: 5027, Name: "CU_FILE_HANDLE_NOT_REGISTERED", Reason: "cuFileHandleRegister refused the file; load nvidia-fs"},
		},
	}
}

// TestGPUProbeReport is the table and the JSON of a machine with some of
// everything.
func TestGPUProbeReport(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(t.TempDir(), "report.json")
	m := sampleMachine()
	status, out, errs := m.run(dir, "--json", file)
	if status != exitOK || errs != "" {
		t.Fatalf("status %d, %q", status, errs)
	}
	checkWidth(t, "probe --gpu", out)
	golden(t, "gpu_probe", out)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "gpu_probe_json", strings.ReplaceAll(string(b), dir, "DIR"))
	want := []struct {
		gpu, instance string
		path          gpuPath
		direct        string
	}{
		{uuidA, "", gpuPathCuFile, "proven"},
		{uuidB, "", gpuPathHost, "refused"},
		{uuidC, migA, gpuPathHost, "refused"},
		{uuidC, migB, gpuPathNone, ""},
	}
	var r gpuReport
	if err := json.Unmarshal(b, &r); err != nil || len(r.Pairs) != len(want) {
		t.Fatalf("%v: %s", err, b)
	}
	for i, w := range want {
		if p := r.Pairs[i]; p.GPU != w.gpu || p.Instance != w.instance || p.Path != w.path || string(p.Direct.State) != w.direct || p.Because == "" {
			t.Errorf("%d: %+v", i, p)
		}
	}
}

// TestGPUProbeTrials: who is tried, with what, and what the signs are.
func TestGPUProbeTrials(t *testing.T) {
	dir := t.TempDir()
	m := sampleMachine()
	m.run(dir, "--gpu-allow", uuidB, "--cuda-lib", "/c", "--cufile-lib", "/f", "--timeout", "7s")
	var got []string
	for _, d := range m.tried {
		got = append(got, d.uuid)
		if d.dir != dir || d.cuda != "/c" || d.cuFile != "/f" || d.timeout != 7*time.Second || d.doubles {
			t.Errorf("%+v", d)
		}
		if virtual := d.uuid == uuidB; d.vm.Virtual != virtual || d.allow != virtual || len(d.vm.Reasons) > 0 != virtual {
			t.Errorf("%+v", d)
		}
	}
	if diff := cmp.Diff([]string{uuidA, uuidB, migA}, got); diff != "" {
		t.Error(diff)
	}
}

// TestGPUProbeWithout what it takes: the path is always a safe one, and says why.
func TestGPUProbeWithout(t *testing.T) {
	refuses := func(l *gpuLibrary) { *l = gpuLibrary{State: libraryFailed, Code: 35, Name: "NAME", Reason: "a reason"} }
	for _, c := range []struct {
		name   string
		change func(*gpuMachine)
		path   gpuPath
		text   string
		tried  int
	}{
		{"no libcuda", func(m *gpuMachine) { refuses(&m.libraries.cuda) }, gpuPathNone, "libcuda cannot be used: a reason", 0},
		{"no libcufile", func(m *gpuMachine) { refuses(&m.libraries.cuFile) }, gpuPathHost, "refused 35 NAME: a reason", 0},
		{"a trial that fails", func(m *gpuMachine) { m.err = errors.New("no program") }, gpuPathHost, "refused: no program", 3},
		{"a verdict of another GPU", func(m *gpuMachine) { m.verdicts[uuidA] = m.verdicts[uuidB] }, gpuPathHost, "not proven", 3},
		{"no verdict", func(m *gpuMachine) { m.verdicts = nil }, gpuPathHost, "not tried", 3},
	} {
		m := sampleMachine()
		c.change(m)
		status, out, errs := m.run(t.TempDir())
		if status != exitOK || errs != "" || !strings.Contains(out, c.text) || len(m.tried) != c.tried {
			t.Errorf("%s: status %d, %d tried, %q\n%s", c.name, status, len(m.tried), errs, out)
		}
		if _, first, _ := strings.Cut(out, "GPU 0 "); !strings.Contains(first, "path     "+string(c.path)+":") {
			t.Errorf("%s: not %s:\n%s", c.name, c.path, out)
		}
		checkWidth(t, c.name, out)
	}
}

// TestGPUProbeVirtual: signs of the host stand at each GPU.
func TestGPUProbeVirtual(t *testing.T) {
	m := sampleMachine()
	m.report.Virtual = inventory.Virtual{Suspected: true, Signals: []string{"a sign"}}
	for i := range m.report.GPUs {
		g := &m.report.GPUs[i]
		g.Untrusted = append([]string{"a sign"}, g.Untrusted...)
		m.report.Pairs[i].SharedSwitch, m.report.Pairs[i].Near = false, false
	}
	status, out, _ := m.run(t.TempDir())
	if status != exitOK || strings.Count(out, "nothing would be trusted as near here: a sign") != 4 || !strings.Contains(out, "\nvirtual    a sign\n") {
		t.Errorf("status %d\n%s", status, out)
	}
	for _, d := range m.tried {
		if !d.vm.Virtual || d.vm.Reasons[0] != "a sign" {
			t.Errorf("%+v", d)
		}
	}
	// Doubles reach no bus: only what they say themselves counts.
	m.tried = nil
	for i := range m.report.GPUs {
		m.report.GPUs[i].Name = "Double GPU 0"
	}
	_, out, _ = m.run(t.TempDir())
	if !strings.Contains(out, "the libraries are doubles") || strings.Contains(out, "a sign") {
		t.Errorf("%s", out)
	}
	for _, d := range m.tried {
		if !d.doubles || d.vm.Virtual != (d.uuid == uuidB) {
			t.Errorf("%+v", d)
		}
	}
}

// TestGPUProbeHung: a driver that does not answer ends neither in a hang nor in
// an error.
func TestGPUProbeHung(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	m := sampleMachine()
	m.report.GPUs, m.report.Pairs = []inventory.GPU{}, nil
	m.libraries.devices = nil
	e := m.environment()
	e.open = func(driver.Options) libraries { <-release; return libraries{} }
	e.timeout = time.Millisecond
	var out, errs bytes.Buffer
	env := &environment{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, gpu: e}
	if status := mainContext(t.Context(), env, []string{"probe", "--gpu", t.TempDir()}); status != exitOK || !strings.Contains(out.String(), "driver     hung: libcuda did not answer within 1ms") {
		t.Errorf("status %d, %q, %q", status, out.String(), errs.String())
	}
}

// TestGPUProbeAbsent is the real thing: what is not there is said, in a report
// that a program can read, and is no error.
func TestGPUProbeAbsent(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.json")
	status, out, errs := run(t, "probe", "--gpu", t.TempDir(), "--json", file, "--cuda-lib", "/nonexistent/libcuda.so.1", "--nvml-lib", "/nonexistent/libnvidia-ml.so.1")
	if status != exitOK || errs != "" || !strings.Contains(out, "\nno GPU\n") || !strings.Contains(out, "driver     absent: ") {
		t.Errorf("status %d, %q, %q", status, out, errs)
	}
	checkWidth(t, "probe --gpu", out)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		GPUs   *[]any
		Pairs  *[]any
		Driver struct{ State, Reason string }
	}
	if err := json.Unmarshal(b, &r); err != nil || r.GPUs == nil || len(*r.GPUs) != 0 || r.Pairs == nil || len(*r.Pairs) != 0 ||
		r.Driver.State != "absent" || !strings.Contains(r.Driver.Reason, "libcuda.so.1") {
		t.Errorf("%v: %s", err, b)
	}
}

func TestGPUProbeRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   []string
		status int
		text   string
	}{
		{[]string{"--gpu", file}, exitError, "is not a directory"},
		{[]string{"--gpu", file + "x"}, exitError, "no such file or directory"},
		{[]string{"--gpu", "a", "b"}, exitUsage, "at most one argument"},
		{[]string{"--gpu", ".", "--timeout", "-1s"}, exitUsage, "--timeout must be more than 0"},
		{[]string{".", "--cuda-lib", "x"}, exitUsage, "--cuda-lib is of use only with --gpu"},
		{[]string{".", "--gpu-allow", "x"}, exitUsage, "--gpu-allow is of use only with --gpu"},
	} {
		status, out, errs := run(t, append([]string{"probe"}, c.args...)...)
		if status != c.status || out != "" || !strings.Contains(errs, c.text) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%v: status %d, %q, %q; want %d, %q", c.args, status, out, errs, c.status, c.text)
		}
	}
}

// TestLibraryError sorts what opening a library may answer.
func TestLibraryError(t *testing.T) {
	for _, c := range []struct {
		err  error
		want gpuLibrary
	}{
		{errors.Join(driver.ErrUnavailable), gpuLibrary{State: libraryAbsent, Reason: "driver: not available"}},
		{&driver.Error{Call: "cuInit", Domain: driver.DomainCUDA, Code: 100, Name: "CUDA_ERROR_NO_DEVICE"},
			gpuLibrary{State: libraryFailed, Code: 100, Name: "CUDA_ERROR_NO_DEVICE", Reason: "cuInit: CUDA error 100 (CUDA_ERROR_NO_DEVICE)"}},
		{driver.ErrMissingSymbol, gpuLibrary{State: libraryFailed, Reason: "function missing in the installed library"}},
	} {
		if got := libraryError(c.err); got.State != c.want.State || got.Code != c.want.Code || got.Name != c.want.Name {
			t.Errorf("%v: %+v", c.err, got)
		} else if strings.TrimPrefix(c.want.Reason, "driver: ") != strings.TrimPrefix(got.Reason, "driver: ") {
			t.Errorf("%v: %q", c.err, got.Reason)
		}
	}
}
