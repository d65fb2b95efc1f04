package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/tiers/disk"
)

// sampleProbe is a report with something of everything.
func sampleProbe() probeReport {
	return probeReport{"/mnt/nvme/store", &engine.ProbeReport{
		Paths: []disk.ProbePath{
			{Name: disk.PathUring, State: disk.PathRefused, Errno: "EPERM", Reason: "a seccomp profile, as container runtimes set by default, or a security module refuses io_uring (uring: set up a ring of 4 entries: operation not permitted)"},
			{Name: disk.PathPread, State: disk.PathProven, AlignmentBytes: 512, ReadMiBs: 2036.9, WriteMiBs: 1542.06, CPUSecondsPerGiB: 0.2354},
			{Name: disk.PathBuffered, State: disk.PathProven, AlignmentBytes: 1, ReadMiBs: 1492.99},
		},
		Chosen: disk.PathPread, ChosenBecause: "it reads fastest, 2037 MiB/s",
		Filesystem: disk.ProbeFilesystem{Type: "ext4", DeviceID: "259:1", LogicalSectorBytes: 512, PhysicalSectorBytes: 4096, TotalBytes: 1 << 40, AvailableBytes: 1 << 38},
		Direct:     disk.ProbeDirect{Told: true, ToldMemBytes: 512, ToldOffsetBytes: 512, MemBytes: 512, OffsetBytes: 512, LengthBytes: 512},
		Uring: disk.ProbeUring{Flags: []string{"single-issuer", "defer-taskrun"}, Setup: true, Operations: []disk.ProbeOperation{
			{Name: "nop", OK: true}, {Name: "read_fixed", Errno: "ENOMEM", Reason: "cannot allocate memory"},
		}},
		File:   disk.ProbeFile{Preallocates: true, PreallocationKept: true, HolesReadZero: true, FindsHoles: true, SyncUs: 36.02},
		Limits: disk.ProbeLimits{MemlockBytes: 8 << 20, OpenFiles: 1024, CgroupMemoryBytes: -1, NUMANodes: 1},
		Notes:  []string{"direct writes go through the page cache on this file system (btrfs with checksums does so); direct reads do not"},
		Warnings: []string{
			"nfs is a network file system: locks, fsync and latency are those of a server; put the store on a local disk",
		},
		Kernel: "6.18.0", BootID: "5f5c1f0e-0000-0000-0000-000000000000", Time: time.Unix(1700000000, 0).UTC(), TookMs: 182.9,
	}}
}

func TestPrintProbe(t *testing.T) {
	nothing := probeReport{strings.Repeat("/long", 30), &engine.ProbeReport{
		Paths: []disk.ProbePath{
			{Name: disk.PathUring, State: disk.PathUntried, Reason: "no space left on device", Errno: "ENOSPC"},
			{Name: disk.PathPread, State: disk.PathRefused, Reason: "no answer within 10s (at: write and read past the page cache)"},
			{Name: disk.PathBuffered, State: disk.PathRefused, Reason: "buffered write: input/output error", Errno: "EIO"},
		},
		ChosenBecause: "no path is proven",
		Limits:        disk.ProbeLimits{MemlockBytes: -1, OpenFiles: -1, CgroupMemoryBytes: 512 << 20, NUMANodes: 2},
	}}
	for name, r := range map[string]probeReport{"probe": sampleProbe(), "probe_nothing": nothing} {
		var b strings.Builder
		printProbe(&b, r)
		checkWidth(t, name, b.String())
		golden(t, name, b.String())
	}
	b, err := json.MarshalIndent(sampleProbe(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "probe_json", string(b)+"\n")
}

// TestProbe runs the command on a directory, on a closed store and on one that
// is open.
func TestProbe(t *testing.T) {
	store := sampleStore(t)
	open, err := engine.Open(store, engine.Options{CapacityBytes: 256 << 20, MaxBlockBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{t.TempDir(), store, sampleStore(t)} {
		before, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "report.json")
		status, out, errs := run(t, "probe", dir, "--json", file)
		if status != exitOK || errs != "" || !strings.Contains(out, "\nchosen: ") {
			t.Fatalf("status %d, %q, %q", status, out, errs)
		}
		checkWidth(t, "probe", out)
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var r struct {
			Paths []struct {
				Name, State, Reason, Errno *string
				AlignmentBytes             *int64   `json:"alignment_bytes"`
				ReadMiBs                   *float64 `json:"read_mib_s"`
			}
			Chosen string
		}
		if err := json.Unmarshal(b, &r); err != nil || len(r.Paths) != 3 || r.Chosen == "" {
			t.Fatalf("%v: %s", err, b)
		}
		for _, p := range r.Paths {
			if p.Name == nil || p.State == nil || p.Reason == nil || p.Errno == nil || p.AlignmentBytes == nil || p.ReadMiBs == nil {
				t.Errorf("a path lacks a field: %s", b)
			} else if *p.Name == r.Chosen && (*p.State != "proven" || *p.ReadMiBs <= 0) {
				t.Errorf("chosen %s is %s and reads %v MiB/s", r.Chosen, *p.State, *p.ReadMiBs)
			}
		}
		after, err := os.ReadDir(dir)
		if err != nil || len(after) != len(before) {
			t.Errorf("%d names in %s, %d before, %v", len(after), dir, len(before), err)
		}
	}
	if err := open.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestProbeHere(t *testing.T) {
	t.Chdir(t.TempDir())
	status, out, errs := run(t, "probe", "--json", "-", "--quiet")
	if status != exitOK || errs != "" || !json.Valid([]byte(out)) || !strings.Contains(out, `"dir": "."`) {
		t.Errorf("status %d, %q, %q", status, out, errs)
	}
}

func TestProbeRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   []string
		status int
		text   string
	}{
		{[]string{filepath.Join(file, "none")}, exitError, "not a directory"},
		{[]string{file}, exitError, "not a directory"},
		{[]string{file + "x"}, exitError, "no such file or directory"},
		{[]string{"a", "b"}, exitUsage, "at most one argument, the directory; got 2"},
		{[]string{".", "--timeout", "-1s"}, exitUsage, "--timeout must be more than 0"},
		{[]string{".", "--timeout", "soon"}, exitUsage, "--timeout"},
	} {
		status, out, errs := run(t, append([]string{"probe"}, c.args...)...)
		if status != c.status || out != "" || !strings.Contains(errs, c.text) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%v: status %d, %q, %q; want %d, %q", c.args, status, out, errs, c.status, c.text)
		}
	}
}
