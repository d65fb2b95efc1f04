//go:build cgo

package cli

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/gpu"
	"github.com/sealstone/sealstone/gpu/gputest"
)

// probeDoubles runs the command on the doubles in dir, in a process of its own,
// as a process can load one set of libraries only. The canary is its child.
func probeDoubles(t *testing.T, dir, faults string, more ...string) *gpuReport {
	t.Helper()
	file, store := filepath.Join(t.TempDir(), "report.json"), t.TempDir()
	cmd := exec.Command(os.Args[0], append([]string{"probe", "--gpu", store, "--json", file, "--cuda-lib", filepath.Join(dir, "libcuda.so.1"),
		"--cufile-lib", filepath.Join(dir, "libcufile.so.0"), "--nvml-lib", filepath.Join(dir, "libnvidia-ml.so.1")}, more...)...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "SEALSTONE_FAKE_GPU="+faults)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil || stderr.Len() > 0 {
		t.Fatalf("%s: %v, %q", faults, err, stderr.String())
	}
	out := stdout.String()
	checkWidth(t, faults, out)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r gpuReport
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatalf("%s: %v: %s", faults, err, b)
	}
	// The table shows what the JSON says.
	for _, p := range r.Pairs {
		if !strings.Contains(out, string(p.Path)+":") || p.Direct.Name != "" && !strings.Contains(out, p.Direct.Name) {
			t.Errorf("%s: the table lacks %s or %s:\n%s", faults, p.Path, p.Direct.Name, out)
		}
	}
	left, err := os.ReadDir(store)
	if err != nil || len(left) != 0 {
		t.Errorf("%s: %v is left in the directory, %v", faults, left, err)
	}
	return &r
}

// TestGPUProbeDoubles goes the whole way: the drivers' libraries by dlopen, the
// canary in a child process, each fault with its number and name and the path
// that is chosen instead.
func TestGPUProbeDoubles(t *testing.T) {
	dir := t.TempDir()
	if err := gputest.Compile(dir); err != nil {
		t.Fatal(err)
	}
	r := probeDoubles(t, dir, "cuFileRead=stale/1")
	if !r.Doubles || r.Driver.State != libraryReady || r.CuFile.State != libraryReady || len(r.GPUs) != 2 || len(r.Pairs) != 2 || len(r.Links) != 1 {
		t.Fatalf("%+v", r)
	}
	// The path is proven or refused for each GPU by itself.
	if p := r.Pairs[0]; p.Path != gpuPathCuFile || p.Direct.State != gpu.VerdictProven || len(p.Direct.Checks) == 0 {
		t.Errorf("%+v", p)
	}
	if p := r.Pairs[1]; p.Path != gpuPathHost || p.Direct.State != gpu.VerdictRefused || p.Direct.Name != "stale" {
		t.Errorf("%+v", p)
	}
	// Passed through is one GPU of two, and only an operator lets it be tried.
	r = probeDoubles(t, dir, "virt=1/1")
	if a, b := r.Pairs[0], r.Pairs[1]; a.Path != gpuPathCuFile || b.Path != gpuPathHost || b.Direct.Tried || !strings.Contains(b.Direct.Reason, "passthrough") {
		t.Errorf("%+v", r.Pairs)
	}
	r = probeDoubles(t, dir, "virt=1/1", "--gpu-allow", r.Pairs[1].GPU)
	if r.Pairs[1].Path != gpuPathCuFile {
		t.Errorf("%+v", r.Pairs[1])
	}
	cases := []struct {
		fault string
		code  int
		name  string
	}{
		{"cuFileHandleRegister=5027", 5027, "CU_FILE_HANDLE_NOT_REGISTERED"},
		{"cuFileDriverOpen=5001", 5001, "CU_FILE_DRIVER_NOT_INITIALIZED"},
		{"cuFileRead=errno:5027", 5027, "CU_FILE_HANDLE_NOT_REGISTERED"},
		{"cuFileRead=-5", 5, "EIO"},
		{"cuFileRead=half", 0, "half-landed"},
		{"cuMemAlloc_v2=2", 2, "CUDA_ERROR_OUT_OF_MEMORY"},
	}
	if testing.Short() {
		cases = cases[:3]
	}
	for _, c := range cases {
		r := probeDoubles(t, dir, "devices=1,"+c.fault, noNVML...)
		if len(r.Pairs) != 1 || len(r.GPUs) != 1 {
			t.Fatalf("%s: %+v", c.fault, r)
		}
		for _, p := range r.Pairs {
			if p.Path != gpuPathHost || p.Direct.State != gpu.VerdictRefused || p.Direct.Code != c.code || p.Direct.Name != c.name || p.Direct.Reason == "" {
				t.Errorf("%s: %+v", c.fault, p)
			}
		}
	}
}

// noNVML keeps NVML away: the GPUs are those of CUDA then.
var noNVML = []string{"--nvml-lib", "/nonexistent/libnvidia-ml.so.1"}

// TestGPUProbeDoublesWithout a library, or with one that lacks a function or
// does not start.
func TestGPUProbeDoublesWithout(t *testing.T) {
	dir, other := t.TempDir(), filepath.Join(t.TempDir(), "nothing.so")
	if err := gputest.Compile(dir, "cuFileRead"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, faults   string
		more           []string
		driver, cuFile libraryState
		pairs          int
		path           gpuPath
		reason         string
	}{
		{"cuFileRead", "", noNVML, libraryReady, libraryReady, 2, gpuPathHost, "cuFileRead"},
		{"libcufile", "", append([]string{"--cufile-lib", other}, noNVML...), libraryReady, libraryAbsent, 2, gpuPathHost, other},
		{"libcuda", "", []string{"--cuda-lib", other}, libraryAbsent, libraryAbsent, 2, gpuPathNone, ""},
		{"libcuda and NVML", "", append([]string{"--cuda-lib", other}, noNVML...), libraryAbsent, libraryAbsent, 0, "", ""},
		{"a driver that starts", "cuInit=100", nil, libraryFailed, libraryAbsent, 2, gpuPathNone, ""},
	} {
		r := probeDoubles(t, dir, c.faults, c.more...)
		if r.Driver.State != c.driver || r.CuFile.State != c.cuFile || len(r.Pairs) != c.pairs || len(r.GPUs) != c.pairs {
			t.Errorf("without %s: %+v", c.name, r)
		}
		for _, p := range r.Pairs {
			if p.Path != c.path || p.Because == "" || !strings.Contains(p.Direct.Reason, c.reason) {
				t.Errorf("without %s: %+v", c.name, p)
			}
		}
	}
}
