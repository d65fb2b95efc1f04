package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/tools/internal/bench"
	"github.com/sealstone/sealstone/tools/internal/demo"
)

func TestDemo(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	status, out, errs := run(t, "demo", "--json", "-")
	var r demo.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || status != exitOK || r.Broken != 0 || r.Held < 10 {
		t.Errorf("status %d, %v, %d held, %d broken, %s", status, err, r.Held, r.Broken, errs)
	}
	for _, p := range r.Promises {
		if !p.Held {
			t.Errorf("broken: %s: %s", p.Name, p.Outcome)
		}
	}
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestDemoRefuses: what the demonstration does not use it does not remove.
func TestDemoRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "mine")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{dir, file} {
		status, _, errs := run(t, "demo", "--dir", d)
		if status != exitError || !strings.Contains(errs, "directory cannot be used") {
			t.Errorf("demo in %s: status %d, %q", d, status, errs)
		}
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

func TestPrintDemo(t *testing.T) {
	var b bytes.Buffer
	printDemo(&b, &demo.Report{Held: 1, Broken: 1, Seconds: 4.4, Promises: []demo.Promise{
		{Name: "a flipped bit is a miss", How: "one bit of block 5 flipped in its segment", Held: true,
			Outcome: "block 5: Corrupt: chunk 1 of 3: sum 067ae933f21a39b3, the header says da487820c6f99afa; 11 of 12 blocks right"},
		{Name: "a cut segment costs only what it held", How: "the segment cut in the middle of block 8",
			Outcome: "block 8: served, though damaged or dropped"},
	}})
	golden(t, "demo", b.String())
}

func TestBench(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	status, out, errs := run(t, "bench", "--dir", dir, "--block-size", "64KiB", "--bytes", "1MiB", "--batch", "4",
		"--rounds", "2", "--concurrency", "2", "--capacity", "256MiB", "--json", "-")
	var r bench.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || status != exitOK || errs != "" {
		t.Fatalf("status %d, %v\n%s\n%s", status, err, out, errs)
	}
	for i, x := range r.Results {
		if x.Workload != bench.Workloads[i] || x.Failed != 0 || x.Wrong != 0 || x.CallsPerSecond <= 0 {
			t.Errorf("%+v", x)
		}
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the store was left behind")
	}
	status, _, errs = run(t, "bench", "--dir", t.TempDir())
	if status != exitError || !strings.Contains(errs, "exists") {
		t.Errorf("an existing directory: status %d, %q", status, errs)
	}
	status, _, errs = run(t, "bench", "sleep", "--dir", dir)
	if status != exitError || !strings.Contains(errs, `no workload "sleep"`) {
		t.Errorf("an unknown workload: status %d, %q", status, errs)
	}
}

func TestPrintBench(t *testing.T) {
	var b bytes.Buffer
	printBench(&b, &bench.Report{BlockBytes: 1 << 20, BatchBlocks: 16, Concurrency: 1, Rounds: 3, RoundBytes: 1 << 30, Results: []bench.Result{
		{Workload: bench.Offload, GiBPerSecond: 1.234, CPUSecondsPerGiB: 0.5, CallsPerSecond: 80, P50US: 12000, P99US: 20000},
		{Workload: bench.Match, CallsPerSecond: 50000, P50US: 20, P99US: 90, Failed: 3, Wrong: 0},
	}})
	golden(t, "bench", b.String())
}
