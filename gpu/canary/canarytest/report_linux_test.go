//go:build cgo

package canarytest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sealstone/sealstone/gpu"
	"github.com/sealstone/sealstone/gpu/canary"
	"github.com/sealstone/sealstone/gpu/canary/canarytest"
	"github.com/sealstone/sealstone/gpu/gputest"
	"github.com/sealstone/sealstone/internal/faults/faulttest"
)

// prober is one on the doubles as they are now.
func prober(t *testing.T, d *gputest.Doubles, change func(*canary.Options)) *canary.Prober {
	t.Helper()
	o := canarytest.Options(t, d)
	if change != nil {
		change(&o)
	}
	p, err := canary.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// uuids are the GPUs of the doubles.
func uuids(t *testing.T, d *gputest.Doubles) []string {
	t.Helper()
	dr := d.Open(t)
	n, err := dr.DeviceCount()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for i := range n {
		info, err := dr.Device(i)
		if err != nil {
			t.Fatal(err)
		}
		u := info.UUID
		all = append(all, fmt.Sprintf("GPU-%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:]))
	}
	return all
}

func probe(t *testing.T, p *canary.Prober, uuid, dir string) gpu.Verdict {
	t.Helper()
	v, err := p.Probe(context.Background(), uuid, dir)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func mustBeEmpty(t *testing.T, dir string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil || len(list) > 0 {
		t.Errorf("%s has %v (%v), want nothing", dir, list, err)
	}
}

// TestReport2Canary is the second founding report, as far as it is the
// canary's: of eight GPUs one drops what is read into it and reports success.
// A check of the host passed, one of each GPU finds the one and lets the seven
// be.
func TestReport2Canary(t *testing.T) {
	tally := faulttest.New(t)
	for _, kind := range []string{"stale", "neighbour"} {
		fault := tally.Try("one of eight GPUs: " + kind)
		d := gputest.Build(t)
		const bad = 5
		d.Configure(fmt.Sprintf("devices=8,cuFileRead=%s/%d", kind, bad))
		p, dir := prober(t, d, nil), t.TempDir()
		proven := 0
		for i, uuid := range uuids(t, d) {
			v := probe(t, p, uuid, dir)
			if v.Proven(uuid) {
				proven++
			}
			if (i == bad) == v.Proven(uuid) {
				t.Errorf("GPU %d: %v", i, v)
			}
			if i == bad && v.Name == "stale" {
				fault.Fire()
			}
		}
		if proven != 7 {
			t.Errorf("%d GPUs are proven, want 7", proven)
		}
		mustBeEmpty(t, dir)
		fault.Survive()
	}
}

// TestFaultChildOnDoubles does trials in child processes: faults reach the
// parent with code and name, and a call that hangs is left behind with its
// process.
func TestFaultChildOnDoubles(t *testing.T) {
	tally := faulttest.New(t)
	for name, c := range map[string]struct {
		spec string
		code int
		name string
		says string
	}{
		"registration fails":    {"cuFileHandleRegister=5027", 5027, "CU_FILE_HANDLE_NOT_REGISTERED", "register the file"},
		"half landed":           {"cuFileRead=half@3", 0, "half-landed", "of which the first"},
		"read hangs":            {"cuFileRead=hang@2", 0, "hung", "round 1, read 2 of 4"},
		"registration hangs":    {"cuFileBufRegister=hang", 0, "hung", "registration"},
		"cuFile does not open":  {"cuFileDriverOpen=hang", 0, "hung", "strict mode"},
		"a kernel does not end": {"cuLaunchKernel=stuck@5", 0, "hung", "round 1, read 1 of 4"},
		"a read fails late":     {"cuFileRead=errno:5@7", 5, "EIO", "read 65536 bytes"},
		"the GPU is lost":       {"cuFileRead=lost:719@2", 5011, "CU_FILE_CUDA_DRIVER_ERROR", "read 4096 bytes at 20480"},
	} {
		t.Run(name, func(t *testing.T) {
			fault := tally.Try(c.spec)
			d := gputest.Build(t)
			d.Configure(c.spec)
			dir, temp := t.TempDir(), t.TempDir()
			t.Setenv("TMPDIR", temp)
			// What hangs gets more time until it was seen to get that far.
			var v gpu.Verdict
			for timeout := 500 * time.Millisecond; timeout < time.Minute; timeout *= 2 {
				p := prober(t, d, func(o *canary.Options) {
					if c.name == "hung" {
						o.Timeout = timeout
					}
				})
				if v = probe(t, p, uuids(t, d)[0], dir); strings.Contains(v.Reason, c.says) {
					break
				}
			}
			if v.State != gpu.VerdictRefused || v.Code != c.code || v.Name != c.name || !strings.Contains(v.Reason, c.says) {
				t.Fatalf("%v, want %d %s with %q", v, c.code, c.name, c.says)
			}
			fault.Fire()
			mustBeEmpty(t, dir)
			mustBeEmpty(t, temp)
			fault.Survive()
		})
	}
}

// TestChildLeavesNoLog: cuFile's log goes where it is removed, not into the
// working directory of the host.
func TestChildLeavesNoLog(t *testing.T) {
	d := gputest.Build(t)
	dir, temp, cwd := t.TempDir(), t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", temp)
	t.Chdir(cwd)
	if v := probe(t, prober(t, d, nil), uuids(t, d)[0], dir); v.State != gpu.VerdictProven {
		t.Fatal(v)
	}
	for _, d := range []string{dir, temp, cwd} {
		mustBeEmpty(t, d)
	}
}

// TestKeptOverProcesses: a verdict of a child counts in the next process while
// everything is the same, and not with another configuration of cuFile.
func TestKeptOverProcesses(t *testing.T) {
	d := gputest.Build(t)
	dir, cache := t.TempDir(), filepath.Join(t.TempDir(), "cache")
	keep := func(o *canary.Options) { o.CacheDir = cache }
	uuid := uuids(t, d)[0]
	first := probe(t, prober(t, d, keep), uuid, dir)
	if first.State != gpu.VerdictProven || first.Cached {
		t.Fatalf("%v, cached %t", first, first.Cached)
	}
	// The path is broken now; the verdict is not found out anew.
	d.Configure("cuFileRead=stale")
	if v := probe(t, prober(t, d, keep), uuid, dir); !v.Cached || v.Key != first.Key || !v.When.Equal(first.When) {
		t.Errorf("kept: %v, cached %t", v, v.Cached)
	}
	t.Setenv("CUFILE_USE_PCIP2PDMA", "true")
	v := probe(t, prober(t, d, keep), uuid, dir)
	if v.Cached || v.Name != "stale" || !slices.ContainsFunc(v.Notes, func(n string) bool { return strings.Contains(n, "CuFileConfig") }) {
		t.Errorf("configured otherwise: %v, cached %t, notes %q", v, v.Cached, v.Notes)
	}
	if v := probe(t, prober(t, d, keep), uuid, dir); !v.Cached || v.Name != "stale" {
		t.Errorf("the refusal was not kept: %v", v)
	}
}

// TestProberWithoutDriver: no driver is a refusal with its reason.
func TestProberWithoutDriver(t *testing.T) {
	d := gputest.Build(t)
	for name, change := range map[string]func(*canary.Options){
		"libcuda":   func(o *canary.Options) { o.CUDAPath += ".none" },
		"libcufile": func(o *canary.Options) { o.CuFilePath += ".none" },
	} {
		v := probe(t, prober(t, d, change), uuids(t, d)[0], t.TempDir())
		if v.State != gpu.VerdictRefused || v.Name != "no-library" || !strings.Contains(v.Reason, name) {
			t.Errorf("%s: %v", name, v)
		}
	}
}
