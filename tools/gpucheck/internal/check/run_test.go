package check

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sealstone/sealstone/gpu"
	"github.com/sealstone/sealstone/gpu/driver"
	"github.com/sealstone/sealstone/gpu/gputest"
)

// doubles makes doubles with one fault or setting, for children too, and a small
// run on them.
func doubles(t *testing.T, spec string) (*gputest.Doubles, Config) {
	t.Helper()
	// Copies from memory that is not pinned are measured here, and rightly
	// counted as violations elsewhere.
	d := gputest.Build(t, gputest.Lenient())
	d.Configure(spec)
	for _, kv := range d.Env() {
		name, value, _ := strings.Cut(kv, "=")
		t.Setenv(name, value)
	}
	return d, Config{
		Dir: t.TempDir(), Libraries: d.Options(), Self: []string{os.Args[0]},
		SizesBytes: []int64{64 << 10, 1 << 20}, MeasureFor: time.Nanosecond, Blocks: 2,
	}
}

// runOn runs and checks what holds whatever the machine is: nothing is left in
// the directory, and the report is whole.
func runOn(t *testing.T, d *gputest.Doubles, c Config) *Report {
	t.Helper()
	r, err := Run(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(c.Dir); err != nil || len(left) != 0 {
		t.Errorf("left in the directory: %v, %v", left, err)
	}
	for _, v := range d.Violations() {
		if !strings.Contains(v, "not pinned") {
			t.Error("violation: " + v)
		}
	}
	if got := broken(r.Steps); got != r.Broken {
		t.Errorf("%d steps are broken, the report says %d", got, r.Broken)
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	// An empty list comes back as nil and the other way round.
	again, err := json.Marshal(back)
	if err != nil || !bytes.Equal(again, b) {
		t.Errorf("the JSON comes back as\n%s, was\n%s: %v", again, b, err)
	}
	return r
}

// step is the step of that name, of the first GPU.
func (r *Report) step(t *testing.T, name string) Step {
	t.Helper()
	i := slices.IndexFunc(r.Steps, func(s Step) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("no step %q in %+v", name, r.Steps)
	}
	return r.Steps[i]
}

// On a healthy machine every step is done, and the report has its figures.
func TestRunOnDoubles(t *testing.T) {
	d, c := doubles(t, "devices=2")
	var steps []string
	c.Progress = func(s string) { steps = append(steps, s) }
	r := runOn(t, d, c)
	for _, s := range r.Steps {
		if s.State != StateDone {
			t.Errorf("%+v", s)
		}
	}
	if len(steps) != len(r.Steps) {
		t.Errorf("told of %d steps of %d", len(steps), len(r.Steps))
	}
	if leaks := d.Leaks(); len(leaks) != 0 {
		t.Errorf("leaks: %q", leaks)
	}
	if r.CUDA.Version != 13000 || r.CuFile.Version != 1190 || r.Compat == nil || r.Compat.Read != "equal" || r.Compat.Counters == nil {
		t.Errorf("libraries: %+v, %+v, %+v", r.CUDA, r.CuFile, r.Compat)
	}
	if len(r.GPUs) != 2 {
		t.Fatalf("%d GPUs", len(r.GPUs))
	}
	for _, g := range r.GPUs {
		if g.Kernel == nil || g.Kernel.Vectors == 0 || g.Kernel.Wrong == 0 || g.Kernel.Wrong >= g.Kernel.Vectors {
			t.Errorf("kernel: %+v", g.Kernel)
		}
		var what []string
		for _, s := range slices.Concat(g.KernelSpeed, g.Copies, g.StoreSpeed) {
			what = append(what, s.What)
			if s.Bytes <= 0 || s.Repetitions < repetitionsMin || s.GBs <= 0 {
				t.Errorf("%+v", s)
			}
		}
		want := []string{
			"one launch", "8 launches in a row", "one launch, unaligned", "one launch", "8 launches in a row", "one launch, unaligned",
			"pageable to device", "pageable to host", "pageable to device", "pageable to host",
			"pinned to device", "pinned to host", "pinned to device", "pinned to host",
			"store to GPU, host bounce", "store to GPU, any path",
		}
		if diff := cmp.Diff(want, what); diff != "" {
			t.Error(diff)
		}
		// Whether the canary may try anything depends on this machine.
		if g.Verdict == nil || g.Verdict.State == gpu.VerdictUnknown || g.Route == "" {
			t.Errorf("verdict: %v, route %q", g.Verdict, g.Route)
		}
	}
	if len(r.Scenarios) != 2*3+1 {
		t.Errorf("%d scenarios", len(r.Scenarios))
	}
	for _, s := range r.Scenarios {
		if !s.Held || s.Outcome == "" {
			t.Errorf("%+v", s)
		}
	}
	var table bytes.Buffer
	r.Print(&table)
	for _, want := range []string{"Double GPU 0", "Double GPU 1", "one launch", "report 1", "report 2", "0 broken", "version 13.0"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table does not say %q:\n%s", want, &table)
		}
	}
}

// Each fault shows in its step, with code and name, and does not keep the others
// from being done.
func TestRunShowsFaults(t *testing.T) {
	type outcome struct {
		step  string
		state State
		says  string
	}
	cases := []struct {
		spec string
		want []outcome
	}{
		{"cuModuleLoadDataEx=222", []outcome{
			{"verify kernel", StateNotAvailable, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"}, {"kernel speed", StateNotAvailable, "not proven"},
			{"founding scenarios", StateDone, ""},
		}},
		{"cuLaunchKernel=liar", []outcome{{"verify kernel", StateBroken, "kernel computed"}, {"founding scenarios", StateDone, ""}}},
		{"cuInit=100", []outcome{{"libcuda", StateNotAvailable, "CUDA_ERROR_NO_DEVICE"}}},
		{"cuDevicePrimaryCtxRetain=2", []outcome{{"device 0", StateNotAvailable, "CUDA_ERROR_OUT_OF_MEMORY"}}},
		{"cuMemHostRegister_v2=801", []outcome{{"copies", StateNotAvailable, "801"}, {"close", StateDone, ""}}},
		{"cuMemcpyDtoHAsync_v2=flip", []outcome{{"copies", StateBroken, "not the same"}}},
		{"cuMemcpyHtoDAsync_v2=2@40", []outcome{{"founding scenarios", StateNotAvailable, "CUDA_ERROR_OUT_OF_MEMORY"}}},
	}
	if testing.Short() {
		cases = cases[1:5]
	}
	for _, c := range cases {
		t.Run(c.spec, func(t *testing.T) {
			d, config := doubles(t, "devices=1,"+c.spec)
			r := runOn(t, d, config)
			for _, want := range c.want {
				if s := r.step(t, want.step); s.State != want.state || !strings.Contains(s.Reason, want.says) {
					t.Errorf("%+v, want %s with %q", s, want.state, want.says)
				}
			}
		})
	}
}

// What cuFile refuses is told in its own words, and the store reads through the
// host.
func TestRunWithoutDirectPath(t *testing.T) {
	d, c := doubles(t, "devices=1,cuFileHandleRegister=5027")
	r := runOn(t, d, c)
	if r.Compat == nil || !strings.Contains(r.Compat.Read, "5027") || !strings.Contains(r.Compat.Read, "HANDLE_NOT_REGISTERED") {
		t.Errorf("%+v", r.Compat)
	}
	if s := r.step(t, "founding scenarios"); s.State != StateDone || !strings.Contains(r.Scenarios[0].Outcome, "host-bounce") {
		t.Errorf("%+v, %+v", s, r.Scenarios)
	}
}

func TestRunWithoutCuFile(t *testing.T) {
	d, c := doubles(t, "devices=1")
	c.Libraries.CuFilePath = filepath.Join(t.TempDir(), "libcufile.so.0")
	r := runOn(t, d, c)
	if r.CuFile.State != "absent" || r.CuFile.Reason == "" || r.Broken != 0 {
		t.Errorf("%+v, %d broken", r.CuFile, r.Broken)
	}
	if s := r.step(t, "founding scenarios"); s.State != StateDone {
		t.Errorf("%+v", s)
	}
	if v := r.GPUs[0].Verdict; v == nil || v.State != gpu.VerdictRefused {
		t.Errorf("verdict %v", v)
	}
}

// A driver that does not come back ends the run all the same, and the report
// says where.
func TestRunEndsThoughTheDriverHangs(t *testing.T) {
	for _, call := range []string{"cuMemGetInfo_v2", "cuModuleLoadDataEx", "cuStreamSynchronize"} {
		t.Run(call, func(t *testing.T) {
			d, c := doubles(t, "devices=1")
			d.Set(call, gputest.Fault{Kind: gputest.Hang})
			c.Timeout, c.grace = 300*time.Millisecond, time.Millisecond
			r := runOn(t, d, c)
			d.Clear()
			d.Release()
			// What was left behind ends now, before the doubles do.
			for deadline := time.Now().Add(time.Minute); goleak.Find() != nil; {
				if time.Now().After(deadline) {
					t.Fatal(goleak.Find())
				}
			}
			last := r.Steps[len(r.Steps)-1]
			if last.State != StateNotAvailable || !strings.Contains(last.Reason, "not tried") && !strings.Contains(last.Reason, "did not return") {
				t.Errorf("%+v", last)
			}
			if !slices.ContainsFunc(r.Steps, func(s Step) bool { return strings.Contains(s.Reason, "300ms are over") }) {
				t.Errorf("%+v", r.Steps)
			}
		})
	}
}

// Nothing is there, on any system.
func TestRunWithoutDriver(t *testing.T) {
	r, err := Run(context.Background(), Config{Dir: t.TempDir(), Libraries: driver.Options{CUDAPath: filepath.Join(t.TempDir(), "libcuda.so.1")}})
	if err != nil || len(r.Steps) != 1 || r.Steps[0].State != StateNotAvailable || r.CUDA.State != "absent" || r.CUDA.Reason == "" {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestFlipStored(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "segments", "1.seg")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("..block.."), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := flipStored(dir, []byte("other")); err == nil {
		t.Error("a block that is not there was found")
	}
	if err := flipStored(dir, []byte("block")); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "..blnck.." {
		t.Errorf("%q, %v", b, err)
	}
}
