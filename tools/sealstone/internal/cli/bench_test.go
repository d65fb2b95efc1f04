package cli

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sealstone/sealstone/tools/internal/bench"
)

// smallBench are arguments that keep a run short.
func smallBench(args ...string) []string {
	return append([]string{"bench", "--block-size", "64KiB", "--bytes", "1MiB", "--batch", "4",
		"--rounds", "2", "--capacity", "256MiB"}, args...)
}

// decoded is a report as somebody else's program reads it.
func decoded(t *testing.T, text string) map[string]any {
	t.Helper()
	var r map[string]any
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return r
}

func TestBench(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	picture := filepath.Join(t.TempDir(), "bench.svg")
	status, out, errs := run(t, smallBench("--dir", dir, "--json", "-", "--plot", picture)...)
	if status != exitOK || errs != "" {
		t.Fatalf("status %d\n%s\n%s", status, out, errs)
	}
	results := decoded(t, out)["results"].([]any)
	for i, name := range []string{bench.Offload, bench.Onboard, bench.Match} {
		x := results[i].(map[string]any)
		if x["workload"] != name || x["failed"] != 0.0 || x["wrong"] != 0.0 || x["calls_per_s"].(float64) <= 0 || x["path"] == "" {
			t.Errorf("%+v", x)
		}
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the store was left behind")
	}
	src, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(bytes.NewReader(src)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the plot: %v", err)
		}
	}
	for _, word := range []string{"offload: rate of each round", "match: latency of a call"} {
		if !bytes.Contains(src, []byte(word)) {
			t.Errorf("the plot has no %q", word)
		}
	}
}

// TestBenchInDirectory: what was in the directory stays, and nothing is added.
func TestBenchInDirectory(t *testing.T) {
	dir := t.TempDir()
	mine := filepath.Join(dir, "mine")
	if err := os.WriteFile(mine, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	status, out, errs := run(t, smallBench("offload", "--dir", dir, "--workload", "ranges")...)
	if status != exitOK || !strings.Contains(out, "offload") || !strings.Contains(out, "ranges") {
		t.Errorf("status %d, %q, %q", status, out, errs)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestBenchOne: the report of a single workload is one flat object.
func TestBenchOne(t *testing.T) {
	fakeFio(t)
	status, out, errs := run(t, smallBench("--dir", t.TempDir(), "--workload", "onboard", "--compare-fio", "--json", "-")...)
	if status != exitOK {
		t.Fatalf("status %d, %s", status, errs)
	}
	r := decoded(t, out)
	for _, name := range []string{"verified_mib_s", "fio_mib_s", "ratio_to_fio", "cpu_seconds_per_gib", "fio_cpu_seconds_per_gib",
		"hash_gib_s", "ratio_to_roofline", "depth_mean", "p50_us", "p99_us"} {
		if v, ok := r[name].(float64); !ok || v <= 0 {
			t.Errorf("%s is %v", name, r[name])
		}
	}
	if r["path"] == "" || r["workload"] != "onboard" || r["block_size_bytes"] != 65536.0 || r["results"] != nil {
		t.Errorf("%v", r)
	}
}

// fakeFio stands in for fio in PATH.
func fakeFio(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	script := `#!/bin/sh
[ "$1" = --version ] && { echo fio-3.33; exit 0; }
echo '{"jobs":[{"job_runtime":1000,"usr_cpu":4,"sys_cpu":6,
"read":{"io_bytes":1073741824,"runtime":1000,"bw_bytes":1073741824},"write":{"io_bytes":1073741824,"runtime":1000,"bw_bytes":1073741824}}]}'
`
	if err := os.WriteFile(filepath.Join(dir, "fio"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
}

func TestBenchRefuses(t *testing.T) {
	store := t.TempDir()
	if err := os.WriteFile(filepath.Join(store, "STORE"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", t.TempDir())
	for _, c := range []struct {
		text string
		args []string
	}{
		{`no workload "sleep"`, []string{"--dir", t.TempDir(), "--workload", "sleep"}},
		{"is a store", []string{"--dir", store}},
		{"no such file", []string{"--dir", filepath.Join(t.TempDir(), "a", "b")}},
		{"only .svg can be drawn", []string{"--dir", t.TempDir(), "--plot", "x.png"}},
		{"plot: open", []string{"--dir", t.TempDir(), "--plot", filepath.Join(t.TempDir(), "a", "x.svg")}},
		{"apt install fio", []string{"--dir", t.TempDir(), "--compare-fio"}},
		{`path "teleport"`, []string{"--dir", t.TempDir(), "--path", "teleport"}},
		{"cannot make a depth of 64", []string{"--dir", t.TempDir(), "--depth", "64", "--concurrency", "1"}},
	} {
		status, out, errs := run(t, smallBench(c.args...)...)
		if status != exitError || out != "" || !strings.Contains(errs, c.text) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%v: status %d, %q, %q; want %q", c.args, status, out, errs, c.text)
		}
	}
}

func benchReport() *bench.Report {
	return &bench.Report{
		Setup: bench.Setup{BlockBytes: 1 << 20, BatchBlocks: 64, Concurrency: 2, Depth: 64, Rounds: 5, RoundBytes: 4 << 30, FioVersion: "fio-3.33"},
		Results: []bench.Result{
			{Workload: bench.Onboard, Path: "uring", PathReason: "the fastest of those that are proven", MiBPerSecond: 12345.6, MiBPerSecondMin: 11999, MiBPerSecondMax: 12999,
				CPUSecondsPerGiB: 0.1234, CallsPerSecond: 192, Percentiles: bench.Percentiles{P50US: 12000, P99US: 20000}, DepthMean: 62.3,
				Beside: &bench.Beside{FioMiBPerSecond: 12999, FioEngine: "io_uring", RatioToFio: 0.9512, RatioToFioMin: 0.9, RatioToFioMax: 1.01,
					HashGiBPerSecond: 25.5, RatioToRoofline: 1.2, CPURatio: 1.1},
				Latency: &bench.Latency{Percentiles: bench.Percentiles{P50US: 300, P90US: 400, P99US: 512, P999US: 600, MaxUS: 900},
					Fio: &bench.Percentiles{P50US: 250, P90US: 300, P99US: 400}, FioEngine: "io_uring", P99ToFio: 1.28}},
			{Workload: bench.Match, Path: "uring", PathReason: "the fastest of those that are proven", CallsPerSecond: 50000, Percentiles: bench.Percentiles{P50US: 20, P99US: 90},
				Failed: 3, Statuses: map[string]int64{"OK": 253, "Miss": 3}, FirstError: "engine: miss",
				Notes: []string{"zram0 is compressed memory: figures are those of the processor, not of a device; random bytes do not compress"}},
		}}
}

func TestPrintBench(t *testing.T) {
	var b bytes.Buffer
	printBench(&b, benchReport())
	golden(t, "bench", b.String())
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	b.Reset()
	r := benchReport()
	r.DurationS, r.Results[0].Beside, r.Results[0].Latency = 10, nil, nil
	printBench(&b, r)
	if out := b.String(); !strings.Contains(out, "5 rounds of 10 s") || strings.Contains(out, "beside") {
		t.Error(out)
	}
}

// TestBenchJSON: the shape of the report, for one workload and for two.
func TestBenchJSON(t *testing.T) {
	r := benchReport()
	two, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	r.Results = r.Results[:1]
	one, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "bench_json", string(one)+"\n"+string(two)+"\n")
}

func TestBenchCharts(t *testing.T) {
	r := benchReport()
	curve := bench.Curve{{Percent: 50, US: 10}, {Percent: 100, US: 20}}
	r.Results[0].Latency.Curve, r.Results[0].Latency.FioCurve, r.Results[0].Curve = curve, curve, curve
	r.Results[0].RoundRates = []bench.Round{{MiBPerSecond: 5, FioMiBPerSecond: 6}, {MiBPerSecond: 7, FioMiBPerSecond: 8}}
	charts := benchCharts(r)
	var titles []string
	for _, c := range charts {
		titles = append(titles, c.Title)
	}
	if got := strings.Join(titles, "|"); got != "onboard: rate of each round|onboard: latency of a call|onboard: one block at a time|match: latency of a call" {
		t.Error(got)
	}
	if s := charts[0].Series; len(s) != 2 || s[1].Name != "fio io_uring" || s[1].Points[1].Y != 8 || s[0].Points[1].X != 2 {
		t.Errorf("%+v", s)
	}
	if s := charts[2].Series; len(s) != 2 || len(s[1].Points) != 2 {
		t.Errorf("%+v", s)
	}
}
