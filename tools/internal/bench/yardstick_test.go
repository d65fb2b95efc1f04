package bench

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealstone/sealstone/tools/internal/fio"
)

// fakeFio puts a program named fio alone into PATH, which reports 1 GiB/s, a
// latency of 1 ms and 10 % of a processor, and appends its arguments to a file.
func fakeFio(t *testing.T, refuses string) (calls func() []string) {
	t.Helper()
	dir := t.TempDir()
	script := `#!/bin/sh
PATH=/bin:/usr/bin
[ "$1" = --version ] && { echo fio-3.33; exit 0; }
echo "$*" >>` + dir + `/calls
case "$*" in *ioengine=` + refuses + `*) echo "not here" >&2; exit 1;; esac
part='"io_bytes":1073741824,"runtime":1000,"bw_bytes":1073741824,"lat_ns":{"percentile":{"50.000000":1000000,"99.000000":1000000}}'
echo '{"jobs":[{"job_runtime":1000,"usr_cpu":4,"sys_cpu":6,"read":{'$part'},"write":{'$part'}}]}'
`
	if err := os.WriteFile(filepath.Join(dir, "fio"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	return func() []string {
		b, err := os.ReadFile(filepath.Join(dir, "calls"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(string(b)), "\n")
	}
}

func count(calls []string, words ...string) (n int) {
	for _, c := range calls {
		all := true
		for _, w := range words {
			all = all && strings.Contains(c, w)
		}
		if all {
			n++
		}
	}
	return n
}

func TestCompareFio(t *testing.T) {
	calls := fakeFio(t, "libaio")
	w := &world{path: "pread"}
	c := smallConfig(t, w)
	c.Workloads, c.CompareFio, c.Latency = []string{Onboard}, true, false
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	got := r.Results[0]
	if got.Beside == nil || got.FioMiBPerSecond != 1024 || got.FioCPUSecondsPerGiB != 0.1 || got.HashGiBPerSecond <= 0 {
		t.Fatalf("%+v", got.Beside)
	}
	if got.RatioToFio <= 0 || got.RatioToRoofline <= got.RatioToFio || got.FioSameEngine != fio.EnginePsync || r.FioVersion != "fio-3.33" {
		t.Errorf("%+v", got.Beside)
	}
	if len(got.Notes) == 0 || !strings.Contains(strings.Join(got.Notes, " "), "cannot use libaio here") {
		t.Errorf("why libaio was not used is not said: %v", got.Notes)
	}
	// One to fill; two trials of io_uring (18 blocks for one job and for two)
	// and of psync; three rounds of the best and of psync. Blocks of 9000 bytes
	// are read as whole pages.
	all := calls()
	if count(all, "--rw=write", "--size=221184") != 1 || count(all, "--rw=randread", "io_uring", "--bs=12288") != 2*2+3 || count(all, "--rw=randread", "psync") != 2*1+3 {
		t.Errorf("%d calls:\n%s", len(all), strings.Join(all, "\n"))
	}
	empty(t, c, w)
}

func TestCompareFioByWorkload(t *testing.T) {
	calls := fakeFio(t, "none")
	w := &world{path: "buffered"}
	c := smallConfig(t, w)
	c.Workloads, c.CompareFio, c.Planes, c.Rounds = Workloads, true, 3, 1
	c.BlockBytes, c.Bytes = 3*4096, 18*3*4096
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range r.Results {
		if beside := x.Workload != Mixed && x.Workload != Match; (x.Beside != nil) != beside {
			t.Errorf("%s: %+v", x.Workload, x.Beside)
		}
	}
	all := calls()
	if count(all, "--rw=randread", "--bs=4096") == 0 { // of ranges: one plane of three
		t.Error("ranges were not compared with requests of their size")
	}
	if count(all, "--direct=1") != 0 {
		t.Error("fio went past the page cache beside a store that does not")
	}
	empty(t, c, w)
}

func TestLatency(t *testing.T) {
	calls := fakeFio(t, "none")
	w := &world{path: "uring"}
	c := smallConfig(t, w)
	c.Workloads, c.CompareFio, c.Latency, c.Rounds = []string{Onboard}, true, true, 1
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	l := r.Results[0].Latency
	if l == nil || l.P50US <= 0 || l.Fio == nil || l.Fio.P99US != 1000 || l.P99ToFio <= 0 || l.FioEngine != fio.EngineUring {
		t.Fatalf("%+v", l)
	}
	if count(calls(), "--iodepth=1", "--numjobs=1", "--runtime=1000ms", "io_uring") != 1 {
		t.Errorf("no single requests of fio:\n%s", strings.Join(calls(), "\n"))
	}
	if got := r.Results[0]; got.Wrong != 0 || got.Failed != 0 {
		t.Errorf("%+v", got)
	}
}

func TestCompareFioFails(t *testing.T) {
	w := &world{path: "pread"}
	c := smallConfig(t, w)
	c.CompareFio = true
	t.Setenv("PATH", t.TempDir())
	if _, err := Run(t.Context(), c); !errors.Is(err, fio.ErrNotFound) {
		t.Errorf("no fio: %v", err)
	}
	fakeFio(t, "") // every engine
	if _, err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "not here") {
		t.Errorf("an fio that can do nothing: %v", err)
	}
	empty(t, c, w)
}

// TestRealStoreAndFio runs the engine and fio on a small amount of data: the
// report has every figure, whatever they are.
func TestRealStoreAndFio(t *testing.T) {
	if _, err := fio.Find(t.Context()); err != nil {
		t.Skip("there is no fio here: ", err)
	}
	c := Config{
		Dir: t.TempDir(), BlockBytes: 64 << 10, Bytes: 4 << 20, BatchBlocks: 8, Rounds: 1,
		Workloads: []string{Onboard}, CompareFio: true, judgeFrom: time.Hour,
	}
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range r.Results {
		if x.Failed != 0 || x.Wrong != 0 || x.MiBPerSecond <= 0 || x.Path == "" {
			t.Errorf("%+v", x)
		}
		if b := x.Beside; b == nil || b.FioMiBPerSecond <= 0 || b.RatioToFio <= 0 || b.RatioToRoofline <= 0 {
			t.Errorf("%s: %+v", x.Workload, b)
		}
	}
	left, err := os.ReadDir(c.Dir)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
