package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/engine/layout"
)

// onDisk hides what differs between file systems and machines.
var onDisk = regexp.MustCompile(`(?m)(^on disk +|^  (?:segments|log|index|quarantine) +)\S.*$`)

func TestStats(t *testing.T) {
	dir := sampleStore(t)
	status, out, errs := run(t, "stats", dir)
	if status != exitOK || errs != "" {
		t.Errorf("status %d, %q", status, errs)
	}
	checkWidth(t, "stats", out)
	golden(t, "stats", normalise(onDisk.ReplaceAllString(out, "$1*")))
	status, out, _ = run(t, "stats", dir, "--json")
	var st engine.StoreStats
	if err := json.Unmarshal([]byte(out), &st); err != nil || status != exitOK || st.Totals.Blocks != 3 || st.Totals.SharedBlocks != 1 {
		t.Errorf("status %d, %v, %s", status, err, out)
	}
}

// TestPrintStatsWidth: large figures and long names stay within a terminal.
func TestPrintStatsWidth(t *testing.T) {
	st := &engine.StoreStats{
		Dir: strings.Repeat("dir/", 40), Segments: 9999, DiskBytes: 10 << 40, FilesystemBytes: 99 << 40, AvailableBytes: 9 << 40,
		Rebuild: strings.Repeat("reason ", 20), Warnings: []string{strings.Repeat("warning ", 30)},
	}
	h := engine.HeldBytes{Blocks: 12_345_678, SharedBlocks: 1_234_567, RawBytes: 999 << 40, StoredBytes: 999 << 40, DeadBytes: 999 << 40, Ratio: 12.345}
	st.Namespaces = []engine.NamespaceStats{{Number: 4_000_000_000, Epoch: 123, Tenant: strings.Repeat("t", 50), Model: strings.Repeat("m", 90), RootHash: strings.Repeat("ab", 32), HeldBytes: h}}
	for range 10 {
		st.ByAge = append(st.ByAge, engine.SegmentGroup{Segments: 999, FileBytes: 999 << 40, LiveBytes: 999 << 40, DeadBytes: 999 << 40})
	}
	st.ByFill = [10]engine.SegmentGroup(st.ByAge)
	var b strings.Builder
	printStats(&b, st)
	checkWidth(t, "stats", b.String())
	for _, want := range []string{"oldest", "newest", "90 to 100 %", "warning: ", "next open: "} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in:\n%s", want, b.String())
		}
	}
}

func TestLayouts(t *testing.T) {
	dir := sampleStore(t)
	status, out, errs := run(t, "layouts", dir)
	if status != exitOK || errs != "" {
		t.Errorf("status %d, %q", status, errs)
	}
	checkWidth(t, "layouts", out)
	if _, other, _ := run(t, "inspect", "layouts", dir); out != other {
		t.Errorf("layouts differs from inspect layouts:\n%s", out)
	}
}

func TestLayoutsDiff(t *testing.T) {
	dir := sampleStore(t)
	l := layout.Opaque("other")
	l.TP = layout.Parallel{Size: 8, Rank: 3}
	l.Extra = map[string]string{"block_pool": "hybrid"}
	plain, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	tmp := t.TempDir()
	write := func(name string, p []byte) string {
		path := filepath.Join(tmp, name)
		if err := os.WriteFile(path, p, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := write("a.json", plain)
	wrapped := write("b.json", []byte(`{"number": 7, "layout": `+string(plain)+`}`))
	for _, c := range []struct {
		args   []string
		status int
		text   string
	}{
		{[]string{"--dir", dir, "1", "1"}, exitOK, "no difference"},
		{[]string{dir + ":1", "1", "--dir", dir}, exitOK, "no difference"},
		{[]string{file, wrapped}, exitOK, "no difference"},
		{[]string{dir + ":1", file}, exitDifferent, "fields differ"},
		{[]string{dir + ":9", file}, exitError, "has no namespace 9"},
		{[]string{"1", file}, exitUsage, "name its store with --dir"},
		{[]string{file}, exitUsage, "want 2 arguments"},
		{[]string{file, file + "x"}, exitError, "no such file"},
		{[]string{write("c.json", []byte(`{"modle": "x"}`)), file}, exitError, "modle"},
		{[]string{write("d.json", []byte(`{"model": "x"}`)), file}, exitDifferent, "problem: "},
	} {
		status, out, errs := run(t, append([]string{"layouts", "diff"}, c.args...)...)
		if status != c.status || !strings.Contains(out+errs, c.text) {
			t.Errorf("%v: status %d, %s%s; want %d and %q", c.args, status, out, errs, c.status, c.text)
		}
	}
	_, out, _ := run(t, "layouts", "diff", dir+":1", file)
	checkWidth(t, "layouts diff", out)
	golden(t, "layouts_diff", regexp.MustCompile(`(?m)^([AB] ).*$`).ReplaceAllString(out, "$1*"))
	var r layoutsDiff
	status, out, _ := run(t, "layouts", "diff", dir+":1", file, "--json")
	if err := json.Unmarshal([]byte(out), &r); err != nil || status != exitDifferent || r.Equal || len(r.Differences) < 4 || len(r.FingerprintA) != 32 {
		t.Errorf("status %d, %v, %s", status, err, out)
	}
	status, out, _ = run(t, "layouts", "diff", "--help")
	if status != exitOK || !strings.Contains(out, exitHelp) || !strings.Contains(out, "\nEXAMPLES\n  sealstone layouts diff") {
		t.Errorf("help: %d, %s", status, out)
	}
	checkWidth(t, "layouts diff --help", out)
}
