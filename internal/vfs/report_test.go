package vfs

import (
	"testing"

	"pgregory.net/rapid"
)

// TestCrashReport holds every kind of change against its count.
func TestCrashReport(t *testing.T) {
	m := NewMem()
	must(t, m.Mkdir("dir"))
	f := open(t, m, "a")
	open(t, m, "b")
	open(t, m, "c")
	syncDirs(t, m, ".")
	write(t, f, 0, "x")
	must(t, f.Truncate(3))
	must(t, f.Preallocate(0, 8))
	must(t, m.Rename("b", "d"))
	must(t, m.Remove("c"))
	open(t, m, "dir/e")
	must(t, m.Mkdir("dir/f"))

	if _, r := m.Crash(CrashOptions{KeepAll: true}); r != (CrashReport{}) {
		t.Errorf("the end of the process lost or kept: %v", r)
	}
	_, lost := m.Crash(CrashOptions{})
	if want := (CrashReport{WritesLost: 1, SizesLost: 2, RenamesLost: 1, RemovalsLost: 1, FilesLost: 1, DirsLost: 1}); lost != want {
		t.Errorf("nothing survives: %v, want %v", lost, want)
	}
	_, kept := m.Crash(CrashOptions{KeepBytes: 1, KeepNames: 1})
	if want := (CrashReport{WritesKept: 1, SizesKept: 2, RenamesKept: 1, RemovalsKept: 1, FilesKept: 1, DirsKept: 1}); kept != want {
		t.Errorf("all survives: %v, want %v", kept, want)
	}
	_, names := m.Crash(CrashOptions{KeepNames: 1})
	if names.Reordered != 4 || names.WritesLost != 1 || names.RenamesKept != 1 {
		t.Errorf("four changes of names survive three older ones of bytes: %v", names)
	}
	_, file := m.Crash(CrashOptions{KeepFile: func(name string) bool { return name == "a" }})
	if file.WritesKept != 1 || file.SizesKept != 2 || file.RenamesLost != 1 {
		t.Errorf("one file survives: %v", file)
	}
}

func TestCrashReportTorn(t *testing.T) {
	m := NewMem()
	f := open(t, m, "a")
	syncDirs(t, m, ".")
	write(t, f, 0, string(make([]byte, 64<<10)))
	var sum CrashReport
	for seed := range uint64(50) {
		for _, sector := range []int{512, 4096} {
			_, r := m.Crash(CrashOptions{Seed: seed, KeepBytes: 0.5, TornSectorBytes: sector})
			if r.Total() != 1 || sector == 512 && r.Torn4096 > 0 || sector == 4096 && r.Torn512 > 0 {
				t.Fatalf("seed %d, sectors of %d: %v", seed, sector, r)
			}
			sum.Add(r)
		}
	}
	if sum.Torn512 < 10 || sum.Torn4096 < 10 || sum.Total() != 100 {
		t.Errorf("100 crashes: %v", sum)
	}
	if missing := sum.Missing(); len(missing) == 0 || missing[0] != "sizes kept" {
		t.Errorf("a tree without names or sizes misses %q", missing)
	}
}

// TestCrashReportModel: whatever was done and drawn, each unsynced change of
// names is counted once (bytes only of files that are found), and none is
// called reordered when all or none survived.
func TestCrashReportModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := NewMem()
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			randomOp(t, m)
		}
		keep := rapid.SampledFrom([]float64{0, 0.5, 1}).Draw(t, "keep")
		_, r := m.Crash(CrashOptions{Seed: rapid.Uint64().Draw(t, "seed"), KeepBytes: keep, KeepNames: keep, TornSectorBytes: 512})
		kept := r.FilesKept + r.DirsKept + r.RenamesKept + r.RemovalsKept
		lost := r.FilesLost + r.DirsLost + r.RenamesLost + r.RemovalsLost
		if kept+lost != len(m.pending) {
			t.Fatalf("%d changes of names: %v", len(m.pending), r)
		}
		switch {
		case keep == 0 && (kept > 0 || r.WritesKept+r.SizesKept+r.Torn512+r.Reordered > 0),
			keep == 1 && (lost > 0 || r.WritesLost+r.SizesLost+r.Torn512+r.Reordered > 0):
			t.Fatalf("kept with probability %v: %v", keep, r)
		}
	})
}
