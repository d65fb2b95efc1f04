package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/tools/internal/replay"
)

// writeTrace makes a Mooncake trace of n requests that share a root; every
// second one continues the one before it.
func writeTrace(t *testing.T, n int) string {
	t.Helper()
	var b strings.Builder
	chain, next := []int{0}, 1
	for i := range n {
		if i%2 == 0 {
			chain = []int{0}
		}
		for range 5 {
			chain = append(chain, next)
			next++
		}
		ids, err := json.Marshal(chain)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, `{"timestamp": %d, "hash_ids": %s}`+"\n", i, ids)
	}
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// reportOf reads a report as its readers do: by the names of its keys.
func reportOf(t *testing.T, path string) map[string]any {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestReplay(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "report.json")
	status, out, errs := run(t, "replay", writeTrace(t, 40), "--dir", filepath.Join(dir, "store"),
		"--block-size", "70000", "--capacity", "256MiB", "--concurrency", "2", "--json", file)
	if status != exitOK || errs != "" || !strings.Contains(out, "0 wrong bytes") {
		t.Fatalf("status %d\n%s\n%s", status, out, errs)
	}
	r := reportOf(t, file)
	for _, key := range []string{
		"trace", "format", "requests", "block_size_bytes", "capacity_bytes", "hit_rate", "hit_rate_infinite",
		"verified_bytes", "wrong_bytes", "write_amplification", "disk_bytes_max", "match_p50_us", "match_p99_us",
		"get_p50_us", "get_p99_us", "put_p50_us", "put_p99_us", "shed", "statuses", "seconds",
	} {
		if _, ok := r[key]; !ok {
			t.Errorf("the report lacks %q", key)
		}
	}
	if _, killed := r["acknowledged"]; killed {
		t.Error("a report without a kill speaks of one")
	}
	if r["requests"] != 40.0 || r["wrong_bytes"] != 0.0 || r["format"] != "mooncake" || r["hit_rate"].(float64) <= 0 {
		t.Errorf("report %v", r)
	}
	if most := r["disk_bytes_max"].(float64); most <= 0 || most > r["capacity_bytes"].(float64) {
		t.Errorf("disk_bytes_max %v", most)
	}
	if a := r["write_amplification"].(float64); a < 1 || a > 10 {
		t.Errorf("write_amplification %v", a)
	}

	// A second time over the same store all is there.
	status, _, errs = run(t, "replay", r["trace"].(string), "--dir", filepath.Join(dir, "store"),
		"--block-size", "70000", "--capacity", "256MiB", "--quiet", "--json", file)
	if status != exitOK || errs != "" {
		t.Fatalf("again: status %d, %s", status, errs)
	}
	if again := reportOf(t, file); again["hit_rate"] != 1.0 || again["put_bytes"] != 0.0 {
		t.Errorf("again: hit rate %v, put %v bytes", again["hit_rate"], again["put_bytes"])
	}
}

func TestReplayKill(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "report.json")
	status, out, errs := run(t, "replay", writeTrace(t, 200), "--dir", filepath.Join(dir, "store"), "--block-size", "64KiB",
		"--capacity", "512MiB", "--kill-after", "100", "--drop-every", "40", "--json", file)
	if status != exitOK || errs != "" {
		t.Fatalf("status %d\n%s\n%s", status, out, errs)
	}
	r := reportOf(t, file)
	for key, want := range map[string]float64{"reopen_missing": 0, "reopen_wrong": 0, "resurrected": 0, "wrong_bytes": 0, "requests": 200} {
		if got, ok := r[key].(float64); !ok || got != want {
			t.Errorf("%s = %v, want %v", key, r[key], want)
		}
	}
	for _, key := range []string{"acknowledged", "reopen_found", "dropped", "reopen_ms"} {
		if got, ok := r[key].(float64); !ok || got <= 0 {
			t.Errorf("%s = %v, want more than 0", key, r[key])
		}
	}
	if _, ok := r["unacknowledged_found"]; !ok {
		t.Error("the report lacks unacknowledged_found")
	}
}

func TestReplayBadInput(t *testing.T) {
	dir := t.TempDir()
	cut := filepath.Join(dir, "cut.jsonl")
	if err := os.WriteFile(cut, []byte(`{"timestamp": 0, "hash_ids": [1]}`+"\n"+`{"timestamp": 1, "ha`), 0o600); err != nil {
		t.Fatal(err)
	}
	good := writeTrace(t, 2)
	for _, c := range []struct {
		args []string
		text string
	}{
		{[]string{filepath.Join(dir, "absent"), "--dir", filepath.Join(dir, "s1")}, "no such file"},
		{[]string{cut, "--dir", filepath.Join(dir, "s2")}, "cut.jsonl: line 2 (byte 54): not a request; the file seems to be cut here"},
		{[]string{good, "--dir", filepath.Join(dir, "s3"), "--block-size", "0"}, "block size of 0 bytes"},
		{[]string{good, "--dir", filepath.Join(dir, "s4"), "--block-size", "65MiB"}, "block size of 68157440 bytes"},
		{[]string{good, "--dir", filepath.Join(dir, "s5"), "--capacity", "1MiB"}, "capacity"},
		{[]string{good, "--dir", filepath.Join(dir, "absent", "s6")}, "no such file"},
		{[]string{good, "--dir", good}, "directory"},
		{[]string{good, "--dir", filepath.Join(dir, "s7"), "--kill-after", "2"}, "kill-after 2"},
	} {
		status, out, errs := run(t, append([]string{"replay"}, c.args...)...)
		if status != exitError || out != "" || !strings.Contains(errs, c.text) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%v: status %d, %q, %q; want %q", c.args, status, out, errs, c.text)
		}
	}
}

// TestReplayLocked: a store in use is told apart from every other error.
func TestReplayLocked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s, err := replay.OpenEngine(t.Context(), replay.Config{Dir: dir, BlockBytes: 4096, CapacityBytes: 256 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	for _, more := range [][]string{nil, {"--kill-after", "1"}} {
		status, _, errs := run(t, append([]string{"replay", writeTrace(t, 2), "--dir", dir}, more...)...)
		if status != exitLocked || !strings.Contains(errs, "LOCK") || strings.Count(errs, "\n") != 1 {
			t.Errorf("%v: status %d, %q; want %d", more, status, errs, exitLocked)
		}
	}
}

func TestPrintReplay(t *testing.T) {
	r := &replay.Report{
		Trace: "/a/trace.jsonl", Format: "mooncake", Requests: 1500, BlockBytes: 65536, CapacityBytes: 1 << 29, Blocks: 41702,
		HitRate: 0.1386, HitRateInfinite: 0.2654, VerifiedBytes: 378732544, PutBytes: 2347368448, WriteAmplification: 1.135,
		DiskBytesMax: 463183872, MatchP50US: 50.6, MatchP99US: 1421.5, GetP50US: 186.6, GetP99US: 12420.7, PutP50US: 3145.4,
		PutP99US: 54908.3, Evicted: 29625, Seconds: 15.076, Problems: []string{"request 5 block 3 (id 8): OK with 1 wrong bytes, the first at 77"},
		Statuses: replay.Statuses{Get: map[string]int64{"OK": 5779, "Miss": 1}, Put: map[string]int64{"OK": 35923}},
		KillReport: &replay.KillReport{KilledAfter: 700, KilledInPut: true, Acknowledged: 15374, Dropped: 160, ReopenFound: 15374,
			ReopenMS: 424.9},
	}
	var b strings.Builder
	printReplay(&b, r)
	golden(t, "replay", b.String())
	wide := slices.ContainsFunc(strings.Split(b.String(), "\n"), func(l string) bool { return len([]rune(l)) > 80 && !strings.HasPrefix(l, "problem") })
	if wide {
		t.Error("the table is wider than 80 columns")
	}
}
