//go:build cgo

package canary

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealstone/sealstone/gpu"
	"github.com/sealstone/sealstone/gpu/driver"
	"github.com/sealstone/sealstone/gpu/gputest"
	"github.com/sealstone/sealstone/internal/faults/faulttest"
)

// uuidOf is the UUID of a GPU of the doubles.
func uuidOf(t testing.TB, d *driver.Driver, ordinal int) string {
	t.Helper()
	info, err := d.Device(ordinal)
	if err != nil {
		t.Fatal(err)
	}
	return uuidText(info.UUID)
}

// tryHere does a trial in this process.
func tryHere(t testing.TB, d *gputest.Doubles, change func(*request)) gpu.Verdict {
	t.Helper()
	r := request{
		Protocol: protocol, Nonce: "n", Dir: t.TempDir(), Scratch: "sealstone-canary-0123456789abcdef.tmp",
		LogDir: t.TempDir(), CUDAPath: d.CUDAPath, CuFilePath: d.CuFilePath,
		IOBytesMax: MinIOBytesMax, TimeoutMs: time.Minute.Milliseconds(), Root: bareMetal(t),
	}
	r.GPU = uuidOf(t, d.Open(t), 0)
	if change != nil {
		change(&r)
	}
	if err := r.check(); err != nil {
		t.Fatal(err)
	}
	tr := newTrial(r, func(message) {})
	tr.settle = d.Idle
	v := tr.run(context.Background())
	mustBeEmpty(t, r.Dir)
	return v
}

// TestTrialProves: on a path that works every check passes, nothing is left,
// and the answer that the child would give holds.
func TestTrialProves(t *testing.T) {
	for name, c := range map[string]struct {
		setting string
		change  func(*request)
		kernel  string
	}{
		"nvidia-fs":            {"route=nvfs", nil, "proven by"},
		"peer to peer":         {"route=p2p", nil, "proven by"},
		"large reads":          {"route=nvfs", func(r *request) { r.IOBytesMax = 4 << 20 }, "proven by"},
		"kernel not proven":    {"cuModuleLoadDataEx=222", nil, "not proven"},
		"writes to be flushed": {"ordering=0", nil, "proven by"},
		"no counters, allowed": {"cufile=1140", func(r *request) { r.Uncounted = true }, "proven by"},
		"the second GPU":       {"route=nvfs", nil, "proven by"},
	} {
		t.Run(name, func(t *testing.T) {
			d := gputest.Build(t)
			d.Configure(c.setting)
			v := tryHere(t, d, func(r *request) {
				if name == "the second GPU" {
					r.GPU = uuidOf(t, d.Open(t), 1)
				}
				if c.change != nil {
					c.change(r)
				}
			})
			if v.State != gpu.VerdictProven || len(v.Checks) != len(requiredChecks) {
				t.Fatalf("%v: %+v, notes %q", v, v.Checks, v.Notes)
			}
			if err := checkVerdict(&v); err != nil {
				t.Error(err)
			}
			if got := v.Checks[2]; got.Name != checkKernel || !strings.Contains(got.Detail, c.kernel) {
				t.Errorf("kernel: %+v", got)
			}
			if v.Key.Filesystem == "" || v.Key.Device == "" || v.Key.MountID == 0 || v.Key.Mount == "" || v.Key.BootID == "" ||
				v.Key.CUDA == 0 || v.Key.CuFile == 0 || !strings.Contains(v.Key.Libraries, d.CuFilePath) || v.Key.CuFileConfig == "" {
				t.Errorf("a key with holes: %+v", v.Key)
			}
			if c.setting == "ordering=0" && d.Calls("cuFlushGPUDirectRDMAWrites") == 0 {
				t.Error("nothing was flushed")
			}
			d.Check(t)
		})
	}
}

// TestFaultTrial has the libraries fail in every way that the doubles know: the
// pair is refused, with the code and the name of the call or with the word for
// what the bytes were.
func TestFaultTrial(t *testing.T) {
	tally := faulttest.New(t)
	const read = "cuFileRead"
	for name, c := range map[string]struct {
		call, fault string // the fault is of this call
		code        int
		name        string
		check       string
		keeps       bool // what is lost, or not let go, is not freed
	}{
		"registration 5027":          {"cuFileHandleRegister", "5027", 5027, "CU_FILE_HANDLE_NOT_REGISTERED", checkRegister, false},
		"registration 5030":          {"cuFileHandleRegister", "5030", 5030, "CU_FILE_INTERNAL_ERROR", checkRegister, false},
		"registration 5008":          {"cuFileHandleRegister", "5008", 5008, "CU_FILE_IO_NOT_SUPPORTED", checkRegister, false},
		"driver 5001":                {"cuFileDriverOpen", "5001", 5001, "CU_FILE_DRIVER_NOT_INITIALIZED", checkCuFile, false},
		"buffers 5036":               {"cuFileBufRegister", "5036", 5036, "CU_FILE_GPU_MEMORY_PINNING_FAILED", checkRegister, false},
		"buffer limit":               {"cuFileBufRegister", "limit:300000", 5036, "CU_FILE_GPU_MEMORY_PINNING_FAILED", checkRegister, false},
		"out of memory":              {"cuMemAlloc_v2", "2@2", 2, "CUDA_ERROR_OUT_OF_MEMORY", checkRegister, false},
		"pinning refused":            {"cuMemHostRegister_v2", "2@2", 2, "CUDA_ERROR_OUT_OF_MEMORY", checkRegister, false},
		"short":                      {read, "short", 0, nameShortRead, checkReads, false},
		"nothing":                    {read, "zero", 0, nameShortRead, checkReads, false},
		"too much":                   {read, "over", 5030, "CU_FILE_INTERNAL_ERROR", checkReads, false},
		"stale":                      {read, "stale", 0, nameStale, checkReads, false},
		"half":                       {read, "half", 0, nameHalfLanded, checkReads, false},
		"half, the last":             {read, "half@4+1", 0, nameHalfLanded, checkReads, false},
		"one bit":                    {read, "flip@2+1", 0, nameWrongBytes, checkReads, false},
		"off by a page":              {read, "shift", 0, nameMisplaced, checkReads, false},
		"beside":                     {read, "neighbour", 0, nameStale, checkReads, false},
		"late":                       {read, "late,late=300000", 0, nameLate, checkReads, false},
		"-1 and 5027":                {read, "errno:5027", 5027, "CU_FILE_HANDLE_NOT_REGISTERED", checkReads, false},
		"-1 and EIO":                 {read, "errno:5", 5, "EIO", checkReads, false},
		"-5010":                      {read, "-5010", 5010, "CU_FILE_NVFS_DRIVER_ERROR", checkReads, false},
		"-EIO":                       {read, "-5", 5, "EIO", checkReads, false},
		"in the second round":        {read, "stale@6+1", 0, nameStale, checkRewrite, false},
		"device lost":                {read, "lost:719", 5011, "CU_FILE_CUDA_DRIVER_ERROR", checkReads, true},
		"compat mode cannot be left": {"cuFileSetParameterBool", "5026", 0, nameCompatMode, checkCuFile, false},
		"not to be read back":        {"cuFileGetParameterBool", "5030", 0, nameCompatMode, checkCuFile, false},
		"counters break off":         {"cuFileGetStatsL3", "5030@3", 0, nameNoCounters, checkReads, false},
		"counters not started":       {"cuFileStatsStart", "5030", 0, nameNoCounters, checkReads, false},
		"no properties":              {"cuFileDriverGetProperties", "5001", 5001, "CU_FILE_DRIVER_NOT_INITIALIZED", checkCuFile, false},
		"copies back flip a bit":     {"cuMemcpyDtoHAsync_v2", "flip@15+1", 0, nameWrongBytes, checkReads, false},
		"fill fails":                 {"cuMemsetD8Async", "700@12", 700, "CUDA_ERROR_ILLEGAL_ADDRESS", checkReads, true},
		"deregistration fails":       {"cuFileBufDeregister", "5030", 5030, "CU_FILE_INTERNAL_ERROR", checkEnd, true},
	} {
		t.Run(name, func(t *testing.T) {
			fault := tally.Try(c.call + "=" + c.fault)
			d := gputest.Build(t)
			d.Configure(c.call + "=" + c.fault)
			v := tryHere(t, d, nil)
			if d.Fired(c.call) > 0 {
				fault.Fire()
			}
			if v.State != gpu.VerdictRefused || v.Code != c.code || v.Name != c.name || v.Reason == "" {
				t.Fatalf("%v: %+v, want %d %s", v, v.Checks, c.code, c.name)
			}
			if last := v.Checks[len(v.Checks)-1]; last.Passed || last.Name != c.check {
				t.Errorf("it ended with %+v, want %s", last, c.check)
			}
			if v.Tried != (c.check == checkReads || c.check == checkRewrite || c.check == checkEnd) {
				t.Errorf("tried %t, with %s", v.Tried, c.check)
			}
			if err := checkVerdict(&v); err != nil {
				t.Error(err)
			}
			d.Idle()
			if !c.keeps {
				d.Check(t)
			}
			fault.Survive()
		})
	}
}

// TestTrialEndsInProof: a trial that is told to end while the driver compiles
// leaves the context to it, and to the end of the process.
func TestTrialEndsInProof(t *testing.T) {
	d := gputest.Build(t, gputest.Lenient())
	d.Configure("cuModuleLoadDataEx=hang")
	r := requestFor(t, d)
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan gpu.Verdict, 1)
	go func() { done <- newTrial(r, func(message) {}).run(ctx) }()
	d.WaitHanging(1)
	cancel(errors.New("told to end"))
	v := <-done
	if v.Name != nameInterrupted || !strings.Contains(v.Reason, "told to end") || v.Tried {
		t.Errorf("%v", v)
	}
	if len(d.Leaks()) == 0 {
		t.Error("the context was given back under the call")
	}
	d.Release()
	// The proof goes on, finds its context, and ends with this call.
	for end := time.Now().Add(time.Minute); d.Calls("cuModuleUnload") == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%q", d.Leaks())
		}
	}
	if found := d.Violations(); len(found) > 0 {
		t.Errorf("%q", found)
	}
}

// TestTrialSettings: what is wrong with the place, not with a call.
func TestTrialSettings(t *testing.T) {
	for name, c := range map[string]struct {
		setting string
		change  func(*testing.T, *request)
		code    int
		name    string
		says    string
	}{
		"neither nvidia-fs nor peer to peer":             {"route=none", nil, 5001, "CU_FILE_DRIVER_NOT_INITIALIZED", "nvidia-fs"},
		"compat mode, and a library that says it is off": {"route=none,compat=0,cuFileSetParameterBool=5026", nil, 0, nameHostRoute, "by POSIX calls"},
		"no counters":          {"cufile=1140", nil, 0, nameNoCounters, "CUDA 13.0"},
		"writes without order": {"ordering=0,flush=0", nil, 0, nameNoOrder, "flush"},
		"no such GPU":          {"", func(_ *testing.T, r *request) { r.GPU = testGPU }, 0, nameNoGPU, "CUDA_VISIBLE_DEVICES"},
		"no GPU":               {"cuDeviceGetCount=100", nil, 100, "CUDA_ERROR_NO_DEVICE", "visible"},
		"no directory":         {"", func(_ *testing.T, r *request) { r.Dir += "/none" }, 0, nameKey, "no such file"},
		"no udev":              {"", func(t *testing.T, r *request) { r.Root = t.TempDir() }, 0, nameNoUdev, "/run/udev"},
		"no libcufile":         {"", func(_ *testing.T, r *request) { r.CuFilePath += "x" }, 0, nameNoLibrary, "libcufile"},
		"no libcuda":           {"", func(_ *testing.T, r *request) { r.CUDAPath += "x" }, 0, nameNoLibrary, "libcuda"},
		"its folder is there":  {"", func(t *testing.T, r *request) { mkdir(t, filepath.Join(r.Dir, r.Scratch)) }, 17, "EEXIST", "file exists"},
	} {
		t.Run(name, func(t *testing.T) {
			d := gputest.Build(t)
			r0 := uuidOf(t, d.Open(t), 0)
			if c.setting != "" {
				d.Configure(c.setting)
			}
			r := request{
				Protocol: protocol, Nonce: "n", GPU: r0, Dir: t.TempDir(), Scratch: "sealstone-canary-0123456789abcdef.tmp",
				LogDir: t.TempDir(), CUDAPath: d.CUDAPath, CuFilePath: d.CuFilePath,
				IOBytesMax: MinIOBytesMax, TimeoutMs: 60000, Root: bareMetal(t),
			}
			if c.change != nil {
				c.change(t, &r)
			}
			tr := newTrial(r, func(message) {})
			tr.settle = d.Idle
			v := tr.run(context.Background())
			if v.State != gpu.VerdictRefused || v.Code != c.code || v.Name != c.name || !strings.Contains(v.Reason, c.says) {
				t.Errorf("%v, want %d %s with %q", v, c.code, c.name, c.says)
			}
			d.Check(t)
		})
	}
}

func mkdir(t *testing.T, name string) {
	t.Helper()
	if err := os.Mkdir(name, 0o700); err != nil {
		t.Fatal(err)
	}
}

// TestTrialOldLibrary: a cuFile without a function that the trial cannot do
// without is refused, by name.
func TestTrialOldLibrary(t *testing.T) {
	for _, c := range []struct{ function, name string }{
		{"cuFileGetParameterBool", nameCompatMode},
		{"cuFileSetParameterBool", nameCompatMode},
		{"cuFileSetParameterString", nameOldLibrary},
		{"cuFileGetStatsL3", nameNoCounters},
		{"cuFileSetStatsLevel", nameNoCounters},
		{"cuFileRead", nameOldLibrary},
		{"cuFileHandleRegister", nameOldLibrary},
		{"cuMemsetD8Async", nameOldLibrary},
	} {
		t.Run(c.function, func(t *testing.T) {
			d := gputest.Build(t, gputest.Without(c.function))
			v := tryHere(t, d, nil)
			if v.State != gpu.VerdictRefused || v.Name != c.name {
				t.Errorf("%v, want %s", v, c.name)
			}
			d.Check(t)
		})
	}
}

// TestKernelIsUsed: a kernel that is proven and then answers nothing refuses
// the pair. A copy back alone would not have seen it.
func TestKernelIsUsed(t *testing.T) {
	d := gputest.Build(t)
	// The proof takes two rounds of two launches.
	d.Configure("cuLaunchKernel=skip@5")
	v := tryHere(t, d, nil)
	if v.State != gpu.VerdictRefused || v.Name != nameKernel {
		t.Errorf("%v: %+v", v, v.Checks)
	}
	d.Check(t)
}
