package engine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// measuredOptions is a small store in a real directory, whose segments are large
// enough for speed to be measured.
func measuredOptions() Options {
	o := testOptions(nil)
	o.CapacityBytes, o.SegmentBytes = 64*mib, 4*mib
	return o
}

// openReal opens a store in dir, for what Open found out, and closes it.
func openReal(t *testing.T, dir string, o Options) *ProbeReport {
	t.Helper()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, s)
	if st := s.Stats(); st.Probe == nil || st.Probe.Summary() != s.ProbeReport().Summary() {
		t.Errorf("stats: %+v", st.Probe)
	}
	return s.ProbeReport()
}

func readReport(t *testing.T, dir string) *ProbeReport {
	t.Helper()
	p, err := os.ReadFile(filepath.Join(dir, probeFile))
	if err != nil {
		t.Fatal(err)
	}
	r, err := disk.DecodeProbe(p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func writeReport(t *testing.T, dir string, r *ProbeReport) {
	t.Helper()
	p, err := disk.EncodeProbe(r)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, probeFile), p, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestProbeKept: figures are kept and used again on the same ground; what is
// proven never comes from the file.
func TestProbeKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	first := openReal(t, dir, measuredOptions())
	if first.Filesystem.DeviceID == "" {
		t.Skip("the system does not tell the device of a file")
	}
	kept := readReport(t, dir)
	if kept.Summary() != first.Summary() || kept.Path(first.Chosen).ReadMiBs <= 0 {
		t.Fatalf("kept %s, want %s", kept.Summary(), first.Summary())
	}
	const doctored = 1e6
	for i := range kept.Paths {
		kept.Paths[i].ReadMiBs, kept.Paths[i].CPUSecondsPerGiB = doctored+float64(i), 0.1
	}
	writeReport(t, dir, kept)
	if again := openReal(t, dir, measuredOptions()); again.Path(disk.PathBuffered).ReadMiBs < doctored {
		t.Errorf("measured again: %s", again.Summary())
	}
	for name, change := range map[string]func(r *ProbeReport){
		"another device":           func(r *ProbeReport) { r.Filesystem.DeviceID = "1:1" },
		"another kernel":           func(r *ProbeReport) { r.Kernel += "x" },
		"another boot":             func(r *ProbeReport) { r.BootID += "x" },
		"another state of a path":  func(r *ProbeReport) { r.Paths[2].State = disk.PathRefused },
		"a path was not measured":  func(r *ProbeReport) { r.Paths[2].ReadMiBs = 0 },
		"another kind":             func(r *ProbeReport) { r.Filesystem.Type = "minix" },
		"another state of another": func(r *ProbeReport) { r.Paths[1].State = disk.PathUntried },
	} {
		changed := kept.Clone()
		change(changed)
		writeReport(t, dir, changed)
		got := openReal(t, dir, measuredOptions())
		for _, p := range got.Paths {
			if p.ReadMiBs >= doctored || p.State != first.Path(p.Name).State {
				t.Errorf("%s: %s is %s, %.0f MiB/s", name, p.Name, p.State, p.ReadMiBs)
			}
		}
		if now := readReport(t, dir); now.Path(disk.PathBuffered).ReadMiBs >= doctored || !now.SameGround(first) {
			t.Errorf("%s: kept %s", name, now.Summary())
		}
	}
}

// TestProbeFileDamaged: whatever lies under the name of the report, the store
// opens, and the report is replaced where that can be done.
func TestProbeFileDamaged(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	openReal(t, dir, measuredOptions())
	name := filepath.Join(dir, probeFile)
	good, err := os.ReadFile(name)
	if err != nil {
		t.Skip("the system does not tell the device of a file")
	}
	for what, content := range map[string]string{
		"empty": "", "garbage": "\x00\xff{", "cut": string(good[:len(good)/2]), "no report": `{"format_version":1}`,
		"newer": strings.Replace(string(good), `"format_version": 1`, `"format_version": 9`, 1),
		"long":  string(good) + strings.Repeat(" ", disk.MaxProbeBytes),
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := openReal(t, dir, measuredOptions()); r.Chosen == "" {
			t.Errorf("%s: nothing chosen", what)
		}
		readReport(t, dir)
	}
	// A directory can not be replaced by a file: then nothing is kept.
	if err := errors.Join(os.Remove(name), os.MkdirAll(filepath.Join(name, "x"), 0o700)); err != nil {
		t.Fatal(err)
	}
	openReal(t, dir, measuredOptions())
	if _, err := os.Stat(name + ".tmp"); !os.IsNotExist(err) {
		t.Errorf("%v: the temporary file is left", err)
	}
	// A report must not be looked for behind a link.
	if err := errors.Join(os.RemoveAll(name), os.Symlink("/dev/zero", name)); err != nil {
		t.Fatal(err)
	}
	openReal(t, dir, measuredOptions())
	readReport(t, dir)
}

// TestProbeLeftovers: what a killed probe left is no strange file, and goes.
func TestProbeLeftovers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	openReal(t, dir, measuredOptions())
	for _, n := range []string{"sealstone-probe.tmp", "sealstone-probe-3.tmp", "PROBE.tmp"} {
		if err := os.WriteFile(filepath.Join(dir, n), make([]byte, 8192), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := measuredOptions()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range s.Events(0) {
		if e.Kind == EventStrangeFile {
			t.Error(e)
		}
	}
	mustClose(t, s)
	if _, err := os.Stat(filepath.Join(dir, "sealstone-probe.tmp")); !os.IsNotExist(err) {
		t.Errorf("%v: the scratch file is left", err)
	}
	if _, err := Probe(context.Background(), dir, 0, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "sealstone-probe-3.tmp")); !os.IsNotExist(err) {
		t.Errorf("%v: the other scratch file is left", err)
	}
}

// TestLaw6ForcedPath: a path that is asked for is used if it is proven, and else
// Open says why not.
func TestLaw6ForcedPath(t *testing.T) {
	noDirect := vfs.NewMem()
	noDirect.SetDirectRefused(true)
	for _, tc := range []struct {
		fs     vfs.FS
		path   PathChoice
		refuse string // part of the message; empty: it opens
	}{
		{vfs.NewMem(), "", ""},
		{vfs.NewMem(), PathAuto, ""},
		{vfs.NewMem(), PathPread, ""},
		{vfs.NewMem(), PathBuffered, ""},
		{vfs.NewMem(), PathUring, "uring is untried in mem: there are no descriptors"},
		{noDirect, PathAuto, ""},
		{noDirect, PathBuffered, ""},
		{noDirect, PathPread, ": vfs: direct I/O not supported here; leave the choice"},
	} {
		o := testOptions(tc.fs)
		o.Path = tc.path
		s, err := Open("mem", o)
		if tc.refuse != "" {
			if !errors.Is(err, ErrPathRefused) || !strings.Contains(err.Error(), tc.refuse) || !strings.Contains(err.Error(), `"sealstone probe"`) {
				t.Errorf("%s: %v, want %q", tc.path, err, tc.refuse)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tc.path, err)
			continue
		}
		r := s.ProbeReport()
		if tc.path != "" && tc.path != PathAuto && PathChoice(r.Chosen) != tc.path {
			t.Errorf("%s: chosen %s", tc.path, r.Chosen)
		}
		if tc.path == PathBuffered && s.Stats().PathReason == "" {
			t.Error("direct I/O is used though the buffered path is forced")
		}
		n := mustSpace(t, s)
		mustPut(t, n, blockOf(1, 0, 9000))
		wantBlock(t, n, 1, 0, 9000)
		mustClose(t, s)
	}
	o := testOptions(vfs.NewMem())
	o.Path = "fast"
	if _, err := Open("mem", o); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "auto, uring, pread, buffered") {
		t.Errorf("an unknown path: %v", err)
	}
}

// TestForcedPathReal: all that is proven in a real directory can be forced.
func TestForcedPathReal(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	r := openReal(t, dir, measuredOptions())
	for _, p := range r.Paths {
		o := measuredOptions()
		o.Path = PathChoice(p.Name)
		if p.State == disk.PathProven {
			if got := openReal(t, dir, o); got.Chosen != p.Name {
				t.Errorf("%s: chosen %s", p.Name, got.Chosen)
			}
		} else if _, err := Open(dir, o); !errors.Is(err, ErrPathRefused) {
			t.Errorf("%s is %s: %v", p.Name, p.State, err)
		}
	}
}

// TestProbeReadOnly: a store opened read-only is tried by reading, and nothing
// is written.
func TestProbeReadOnly(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, testOptions(mem))
	n := mustSpace(t, s)
	mustPut(t, n, blockOf(1, 0, 9000))
	mustClose(t, s)
	o := testOptions(vfs.WithHook(mem, func(op vfs.Op) error {
		if op.Mutates() && op.Kind != vfs.OpLock {
			t.Errorf("%v", op)
		}
		return nil
	}))
	o.ReadOnly = true
	s = mustOpen(t, o)
	defer mustClose(t, s)
	if r := s.ProbeReport(); !r.ReadOnly || !r.Proven(disk.PathPread) || !r.Proven(disk.PathBuffered) {
		t.Error(r.Summary())
	}
}

// TestProbeEvent: one line says what was found, and what did not come back as
// written keeps the store from writing.
func TestProbeEvent(t *testing.T) {
	var lie sync.Map
	fs := vfs.WithReadFilter(vfs.NewMem(), func(name string, _ int64, p []byte) {
		if _, on := lie.Load("on"); on && disk.IsProbeScratch(name) {
			p[0] ^= 1
		}
	})
	probes := func(s *Store) (lines []string) {
		for _, e := range s.Events(0) {
			if e.Kind == EventProbe {
				lines = append(lines, e.Message)
			}
		}
		return lines
	}
	s := mustOpen(t, testOptions(fs))
	if got := probes(s); len(got) != 1 || !strings.HasPrefix(got[0], "paths: uring untried") || !strings.Contains(got[0], "; chosen pread: ") {
		t.Errorf("events %q", got)
	}
	if h := s.Health(); h.State != HealthOK {
		t.Errorf("%+v", h)
	}
	mustClose(t, s)
	lie.Store("on", true)
	s = mustOpen(t, testOptions(fs))
	defer mustClose(t, s)
	if got := probes(s); len(got) != 1 || !strings.Contains(got[0], "; none chosen: ") {
		t.Errorf("events %q", got)
	}
	if h := s.Health(); h.State != HealthReadOnly || !strings.Contains(strings.Join(h.Reasons, " "), "give back what was written") {
		t.Errorf("%+v", h)
	}
	if _, err := s.Namespace(t.Context(), testLayout(), "tenant", NamespaceOptions{}); !errors.Is(err, ErrReadOnly) {
		t.Errorf("a new namespace: %v", err)
	}
}

// TestOpenFullDisk: a store on a full disk opens and serves; its paths are
// proven by reading.
func TestOpenFullDisk(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, testOptions(mem))
	n := mustSpace(t, s)
	mustPut(t, n, blockOf(1, 0, 9000))
	mustClose(t, s)
	fs := vfs.WithHook(mem, func(op vfs.Op) error {
		if disk.IsProbeScratch(op.Name) && op.Kind == vfs.OpWrite {
			return syscall.ENOSPC
		}
		return nil
	})
	s = mustOpen(t, testOptions(fs))
	defer mustClose(t, s)
	if r := s.ProbeReport(); !r.ReadOnly || r.Chosen != disk.PathPread {
		t.Error(r.Summary())
	}
	wantBlock(t, mustSpace(t, s), 1, 0, 9000)
}

func TestProbeDirectory(t *testing.T) {
	dir := t.TempDir()
	var steps, total int64
	r, err := Probe(context.Background(), dir, time.Minute, func(done, of int64) { steps, total = done, of })
	if err != nil {
		t.Fatal(err)
	}
	if !r.Proven(disk.PathBuffered) || r.Chosen == "" || steps != total || total == 0 {
		t.Errorf("%d of %d steps, %s", steps, total, r.Summary())
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Probe(ctx, dir, 0, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	if _, err := Probe(context.Background(), filepath.Join(dir, "none"), 0, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 0 {
		t.Errorf("left %v, %v", names, err)
	}
}
