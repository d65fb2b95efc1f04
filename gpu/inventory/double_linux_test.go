//go:build cgo

package inventory

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/gpu/gputest"
)

// nvmlChild names the library that a child of the tests reads.
const nvmlChild = "SEALSTONE_TEST_NVML"

func init() { children = append(children, readChild) }

// readChild is the child: it reads the host by that library and prints the
// report. A process loads one library only, so each one needs its own.
func readChild() bool {
	path := os.Getenv(nvmlChild)
	if path == "" {
		return false
	}
	o := Options{NVMLPath: path, Root: os.Getenv(nvmlChild + "_ROOT")}
	r, err := Read(context.Background(), o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// Asked twice it says the same, and another library is not loaded.
	again, err := Read(context.Background(), o)
	if err != nil || len(again.GPUs) != len(r.GPUs) || again.NVML.State != r.NVML.State {
		fmt.Fprintf(os.Stderr, "the second time: %+v, %v\n", again, err)
		os.Exit(1)
	}
	o.NVMLPath = "libc.so.6"
	other, err := Read(context.Background(), o)
	if err != nil || other.NVML.State != NVMLAbsent || len(other.GPUs) != 0 {
		fmt.Fprintf(os.Stderr, "another library: %+v, %v\n", other, err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// readDouble reads a real machine's tree by a double of NVML, in a child.
func readDouble(t *testing.T, dir, faults string) *Report {
	t.Helper()
	h := newHost(t)
	h.lay("pci pci0000:00/0000:00:01.0 class=0x060400 port=root")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), nvmlChild+"="+filepath.Join(dir, "libnvidia-ml.so.1"), nvmlChild+"_ROOT="+h.root, "SEALSTONE_FAKE_GPU="+faults)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("the child ended with %v: %s", err, errs.String())
	}
	var r Report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	return &r
}

// TestDouble goes through go-nvml and the dynamic linker, which mocks cannot
// show: a function that is missing would end the child with status 127.
func TestDouble(t *testing.T) {
	dir := t.TempDir()
	if err := gputest.Compile(dir); err != nil {
		t.Fatal(err)
	}
	r := readDouble(t, dir, "devices=3,virt=1/1,cuda=13010")
	if r.NVML.State != NVMLReady || r.NVML.CUDAVersion != "13.1" || r.NVML.DriverVersion == "" || len(r.NVML.Missing) != 0 {
		t.Errorf("%+v", r.NVML)
	}
	if len(r.GPUs) != 3 || len(r.Links) != 3 || r.Links[0].Level != LevelPIX || r.Links[0].Read != "ok" || r.Links[0].NVLink != "not supported" {
		t.Errorf("%+v, %+v", r.GPUs, r.Links)
	}
	for i, g := range r.GPUs {
		mode, signs := VirtualizationNone, 0
		if i == 1 {
			mode, signs = VirtualizationPassthrough, 1
		}
		if g.UUID == "" || g.Name == "" || g.PCI == "" || g.BAR1Bytes == 0 || g.MemoryBytes == 0 || g.ComputeMajor != 9 || g.Virtualization != mode || len(g.Untrusted) != signs {
			t.Errorf("%d: %+v", i, g)
		}
	}
	for _, c := range []struct {
		fault string
		code  int
		name  string
	}{
		{"nvmlInit_v2=9", 9, "ERROR_DRIVER_NOT_LOADED"},
		{"nvmlInit_v2=18", 18, "ERROR_LIB_RM_VERSION_MISMATCH"},
		{"nvmlDeviceGetCount_v2=999", 999, "ERROR_UNKNOWN"},
	} {
		r := readDouble(t, dir, c.fault)
		if r.NVML.State != NVMLFailed || r.NVML.Code != c.code || r.NVML.Name != c.name || len(r.GPUs) != 0 {
			t.Errorf("%s: %+v", c.fault, r.NVML)
		}
	}
	r = readDouble(t, dir, "nvmlDeviceGetUUID=15")
	if len(r.GPUs) != 2 || !strings.Contains(strings.Join(r.GPUs[0].Notes, " "), "ERROR_GPU_IS_LOST (15)") {
		t.Errorf("%+v", r.GPUs)
	}
}

// TestDoubleOld: a library that lacks all that can be done without.
func TestDoubleOld(t *testing.T) {
	dir := t.TempDir()
	lacks := []string{
		"nvmlErrorString", "nvmlSystemGetDriverVersion", "nvmlSystemGetCudaDriverVersion", "nvmlDeviceGetName", "nvmlDeviceGetPciInfo_v3",
		"nvmlDeviceGetVirtualizationMode", "nvmlDeviceGetTopologyCommonAncestor", "nvmlDeviceGetP2PStatus", "nvmlDeviceGetBAR1MemoryInfo",
		"nvmlDeviceGetMigMode", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetCudaComputeCapability",
	}
	if err := gputest.Compile(dir, lacks...); err != nil {
		t.Fatal(err)
	}
	r := readDouble(t, dir, "")
	if r.NVML.State != NVMLReady || len(r.GPUs) != 2 || r.GPUs[1].UUID == "" || r.GPUs[1].Virtualization != VirtualizationUnknown {
		t.Errorf("%+v, %+v", r.NVML, r.GPUs)
	}
	for _, name := range lacks[1:] {
		// The report names the newest of a function's versions.
		if !slices.Contains(r.NVML.Missing, name) && !slices.Contains(r.NVML.Missing, name+"_v2") {
			t.Errorf("%s is not told to be missing: %v", name, r.NVML.Missing)
		}
	}
}

// TestDoubleWithout what nothing works without.
func TestDoubleWithout(t *testing.T) {
	for name, state := range map[string]NVMLState{"nvmlInit_v2": NVMLAbsent, "nvmlDeviceGetCount_v2": NVMLFailed} {
		dir := t.TempDir()
		if err := gputest.Compile(dir, name); err != nil {
			t.Fatal(err)
		}
		if r := readDouble(t, dir, ""); r.NVML.State != state || len(r.GPUs) != 0 || r.NVML.Reason == "" {
			t.Errorf("%s: %+v", name, r.NVML)
		}
	}
}
