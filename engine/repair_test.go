package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/internal/faults/faulttest"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

func mustRepair(t testing.TB, fs vfs.FS, o Options) *RepairReport {
	t.Helper()
	r, err := repair(context.Background(), "mem", RepairOptions{MaxQuarantined: -1}, private(o, fs))
	if err != nil {
		t.Fatalf("repair: %v", err)
	}
	return r
}

// repairCase is one damage to a victimStore, and what a repair makes of it.
type repairCase struct {
	name   string
	damage func(t *testing.T, v *victimStore, fs *vfs.Mem)
	kinds  []RepairKind // of the actions
	lost   []int        // blocks that are misses afterwards
	left   []DamageKind // what verify still finds
}

func flipIn(name func(v *victimStore) string, off int64) func(*testing.T, *victimStore, *vfs.Mem) {
	return func(t *testing.T, v *victimStore, fs *vfs.Mem) { flipByte(t, fs, name(v), off) }
}

func removeFile(name func(v *victimStore) string) func(*testing.T, *victimStore, *vfs.Mem) {
	return func(t *testing.T, v *victimStore, fs *vfs.Mem) {
		if err := fs.RemoveAll(name(v)); err != nil {
			t.Fatal(err)
		}
	}
}

func file(name string) func(*victimStore) string { return func(*victimStore) string { return name } }

func sealedSegment(v *victimStore) string { return disk.SegmentName(v.segments[0]) }
func openSegment(v *victimStore) string   { return disk.SegmentName(v.segments[1]) }
func sealedSidecar(v *victimStore) string { return disk.SidecarName(v.segments[0]) }
func openSidecar(v *victimStore) string   { return disk.SidecarName(v.segments[1]) }

// inBlock damages a block's extent at an offset from its header's end.
func inBlock(id int, off int64) func(*testing.T, *victimStore, *vfs.Mem) {
	return func(t *testing.T, v *victimStore, fs *vfs.Mem) {
		e := v.entries[id].Home()
		flipByte(t, fs, disk.SegmentName(e.Address.Segment), e.Address.Offset()+int64(e.HeaderPages)*disk.PageBytes+off)
	}
}

func several(all ...func(*testing.T, *victimStore, *vfs.Mem)) func(*testing.T, *victimStore, *vfs.Mem) {
	return func(t *testing.T, v *victimStore, fs *vfs.Mem) {
		for _, d := range all {
			d(t, v, fs)
		}
	}
}

func inFooter(off int64) func(*testing.T, *victimStore, *vfs.Mem) {
	return func(t *testing.T, v *victimStore, fs *vfs.Mem) {
		start, end := v.footerRange(t)
		if off < 0 {
			start = end
		}
		flipByte(t, fs, sealedSegment(v), start+off)
	}
}

func inIndexTable(t *testing.T, v *victimStore, fs *vfs.Mem) {
	tables := filesUnder(t, fs, indexDir, ".sst")
	flipByte(t, fs, tables[len(tables)-1], 20)
}

func inWholeLog(t *testing.T, v *victimStore, fs *vfs.Mem) {
	for _, name := range filesUnder(t, fs, logDir, ".wal") {
		flipByte(t, fs, name, 100)
	}
}

func resized(name func(*victimStore) string, delta int64) func(*testing.T, *victimStore, *vfs.Mem) {
	return func(t *testing.T, v *victimStore, fs *vfs.Mem) {
		f, err := fs.Open(name(v), vfs.ReadWrite)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		i, err := f.Stat()
		if err == nil {
			err = f.Truncate(max(i.SizeBytes+delta, 0))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

var inSealed, inOpen = []int{1, 2, 3, 4, 5, 8}, []int{6, 7} // 8 shares the bytes of 3

var repairCases = []repairCase{
	{"a copy of STORE", flipIn(file("STORE"), 99), []RepairKind{RepairCopy}, nil, nil},
	{"a copy of NAMESPACES missing", removeFile(file("NAMESPACES.2")), []RepairKind{RepairCopy}, nil, nil},
	{"both copies of STORE, in other places", several(flipIn(file("STORE"), 99), flipIn(file("STORE.2"), 60)), []RepairKind{RepairMetadata}, nil, nil},
	{"both copies of NAMESPACES, in other places", several(flipIn(file("NAMESPACES"), 99), flipIn(file("NAMESPACES.2"), 60)), []RepairKind{RepairMetadata}, nil, nil},
	{"the log", inWholeLog, []RepairKind{RepairLog, RepairIndex}, nil, nil},
	{"a table of the index", inIndexTable, []RepairKind{RepairIndex}, nil, nil},
	{"the index missing", removeFile(file(indexDir)), []RepairKind{RepairIndex}, nil, nil},
	{"the index marked as damaged", func(t *testing.T, v *victimStore, fs *vfs.Mem) { writeFileTo(t, fs, indexDir+"/DAMAGED", "test") }, []RepairKind{RepairIndex}, nil, nil},
	{"the header page of a sealed segment", flipIn(sealedSegment, 40), []RepairKind{RepairHeader}, nil, nil},
	{"the header page of an open segment", flipIn(openSegment, 64), []RepairKind{RepairHeader}, nil, nil},
	{"a footer", inFooter(100), []RepairKind{RepairFooter}, nil, nil},
	{"a footer, and the index is lost", several(inFooter(100), removeFile(file(indexDir))), []RepairKind{RepairFooter, RepairIndex}, nil, nil},
	{"a trailer", inFooter(-20), []RepairKind{RepairFooter}, nil, nil},
	{"tombstones of a sealed segment", flipIn(sealedSidecar, 20), []RepairKind{RepairTombstones}, nil, nil},
	{"tombstones of an open segment", flipIn(openSidecar, 530), []RepairKind{RepairTombstones}, nil, nil},
	{"tombstones missing", removeFile(openSidecar), []RepairKind{RepairTombstones}, nil, nil},
	{"tombstones, and the index is lost", several(flipIn(openSidecar, 530), removeFile(file(indexDir))), []RepairKind{RepairIndex, RepairTombstones}, []int{6, 7, 8}, nil},
	{"a chunk", inBlock(4, 70000), []RepairKind{RepairQuarantine}, []int{4}, nil},
	{"a chunk that others share", inBlock(3, 10), []RepairKind{RepairQuarantine}, []int{3, 5, 8}, nil},
	{"the header of an extent", inBlock(2, -4000), []RepairKind{RepairQuarantine}, []int{2}, nil},
	{"two blocks of two segments, and the index is lost", several(inBlock(2, 1), inBlock(7, 1), removeFile(file(indexDir))), []RepairKind{RepairIndex, RepairQuarantine}, []int{2, 7}, nil},
	{"the fill behind a plane", inBlock(1, 3000), nil, nil, []DamageKind{DamagePadding}},
	{"the own header of an alias", inBlock(5, -4000), nil, nil, []DamageKind{DamageAlias}},
	{"a sealed segment missing", removeFile(sealedSegment), []RepairKind{RepairForget}, inSealed, nil},
	{"an open segment missing", removeFile(openSegment), []RepairKind{RepairForget}, append(inOpen, 8), nil},
	{"a sealed segment cut by a page", resized(sealedSegment, -4096), []RepairKind{RepairFooter}, nil, nil},
	{"a sealed segment cut to nothing", resized(sealedSegment, -1<<30), []RepairKind{RepairHeader, RepairFooter, RepairQuarantine}, inSealed, nil},
	{"a sealed segment with zeros behind it", resized(sealedSegment, 8192), []RepairKind{RepairFooter}, nil, nil},
	{"all at once", several(flipIn(file("STORE"), 99), inFooter(100), flipIn(openSidecar, 530), inBlock(4, 9), flipIn(sealedSegment, 40)),
		[]RepairKind{RepairCopy, RepairFooter, RepairHeader, RepairTombstones, RepairQuarantine}, []int{4}, nil},
}

func writeFileTo(t testing.TB, fs vfs.FS, name, text string) {
	t.Helper()
	if err := putFile(fs, name, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

// TestFaultRepair: after a repair the store opens and is sound, every block
// that was not damaged is served and none that was gone is back, and the next
// repair has nothing to do.
func TestFaultRepair(t *testing.T) {
	v := newVictim(t)
	tally := faulttest.New(t)
	for _, c := range repairCases {
		t.Run(c.name, func(t *testing.T) {
			f := tally.Try(c.name)
			fs := v.clone()
			c.damage(t, v, fs)
			f.Fire()
			dry := fs.CrashClone(vfs.CrashOptions{KeepAll: true})
			plan, err := repair(context.Background(), "mem", RepairOptions{DryRun: true, MaxQuarantined: -1}, private(victimOptions(nil), fs))
			if err != nil {
				t.Fatal(err)
			}
			wantSameTree(t, dry, fs)
			r := mustRepair(t, fs, victimOptions(nil))
			if len(plan.Actions) != len(r.Actions) {
				t.Errorf("the plan: %v\nwhat was done: %v", plan.Actions, r.Actions)
			}
			checkRepair(t, c, r)
			checkMended(t, v, c, fs)
			if !t.Failed() {
				f.Survive()
			}
		})
	}
}

func checkRepair(t *testing.T, c repairCase, r *RepairReport) {
	t.Helper()
	kinds := map[RepairKind]bool{}
	for _, a := range r.Actions {
		kinds[a.Kind] = true
		if !a.Done || a.What == "" || a.Why == "" || a.File == "" {
			t.Errorf("action %+v", a)
		}
	}
	for _, k := range c.kinds {
		if !kinds[k] {
			t.Errorf("no action %q: %v", k, r.Actions)
		}
		delete(kinds, k)
	}
	if len(kinds) > 0 {
		t.Errorf("not asked for: %v: %v", kinds, r.Actions)
	}
	var left []DamageKind
	for _, d := range r.Left {
		left = append(left, d.Kind)
	}
	if !slices.Equal(left, c.left) {
		t.Errorf("left: %v", r.Left)
	}
	if (len(r.Actions) > 0) != r.Repaired || r.Repaired != (r.Kept != "") {
		t.Errorf("repaired %v, kept %q", r.Repaired, r.Kept)
	}
	if r.LostBlocks < int64(len(c.lost)) {
		t.Errorf("%d blocks said to be lost, %v are", r.LostBlocks, c.lost)
	}
}

func checkMended(t *testing.T, v *victimStore, c repairCase, fs *vfs.Mem) {
	t.Helper()
	left := 0
	for _, d := range mustVerify(t, fs).Damage {
		if !slices.Contains(c.left, d.Kind) {
			t.Errorf("verify still finds %v", d)
		}
		left++
	}
	if left != len(c.left) {
		t.Errorf("verify finds %d, want %v", left, c.left)
	}
	before := fs.CrashClone(vfs.CrashOptions{KeepAll: true})
	if r := mustRepair(t, fs, victimOptions(nil)); len(r.Actions) > 0 || r.Kept != "" {
		t.Errorf("a second repair: %v", r.Actions)
	}
	wantSameTree(t, before, fs)
	for _, lose := range []bool{false, true} { // also when the index is lost later
		if lose {
			if err := fs.RemoveAll(indexDir); err != nil {
				t.Fatal(err)
			}
		}
		vd := v.examine(fs)
		if len(vd.wrong) > 0 || !slices.Equal(vd.lost(), c.lost) && !(lose && subset(c.lost, vd.lost()) && len(c.left) > 0) {
			t.Errorf("index lost %v: wrong %v, lost %v, want %v lost; %v", lose, vd.wrong, vd.lost(), c.lost, vd.reported)
		}
	}
}

// TestRepairHealthy: there is nothing to do to a sound store, nor to one that
// was killed.
func TestRepairHealthy(t *testing.T) {
	v := newVictim(t)
	for name, fs := range map[string]*vfs.Mem{"closed": v.fs, "killed": v.killed(t).fs} {
		before := fs.CrashClone(vfs.CrashOptions{KeepAll: true})
		r := mustRepair(t, fs, victimOptions(nil))
		if len(r.Actions) != 0 || len(r.Left) != 0 || r.Kept != "" || r.Repaired {
			t.Errorf("%s: %+v", name, r)
		}
		wantSameTree(t, before, fs)
	}
}

// TestRepairHopeless: what cannot be had again is said, and nothing changed.
func TestRepairHopeless(t *testing.T) {
	v := newVictim(t)
	for _, names := range [][]string{{"STORE", "STORE.2"}, {"NAMESPACES", "NAMESPACES.2"}} {
		fs := v.clone()
		for _, n := range names {
			if err := fs.Remove(n); err != nil {
				t.Fatal(err)
			}
		}
		before := fs.CrashClone(vfs.CrashOptions{KeepAll: true})
		r, err := repair(context.Background(), "mem", RepairOptions{}, private(victimOptions(nil), fs))
		if !errors.Is(err, ErrDamaged) || r == nil || len(r.Left) < 2 || !strings.Contains(r.Refused, "set-aside") {
			t.Errorf("%v: %+v, %v", names, r, err)
		}
		wantSameTree(t, before, fs)
	}
}

// TestRepairTooMuch: a path that returns bad bytes for everything does not
// empty a store.
func TestRepairTooMuch(t *testing.T) {
	v := newVictim(t)
	before := v.clone()
	fs := vfs.WithReadFilter(v.fs, func(name string, off int64, p []byte) {
		if strings.HasSuffix(name, ".seg") {
			for i := range p {
				if at := off + int64(i); at >= disk.PageBytes && at%disk.PageBytes == 1 {
					p[i] ^= 0x10
				}
			}
		}
	})
	r, err := repair(context.Background(), "mem", RepairOptions{MaxQuarantined: 3}, private(victimOptions(nil), fs))
	if !errors.Is(err, ErrTooMuchDamage) || r.Refused == "" {
		t.Fatalf("%+v, %v", r, err)
	}
	wantSameTree(t, before, v.fs)
}

// TestRepairAsksFirst: the plan is shown, and a no is a no.
func TestRepairAsksFirst(t *testing.T) {
	v := newVictim(t)
	inBlock(4, 100)(t, v, v.fs)
	before := v.clone()
	asked := 0
	o := RepairOptions{Confirm: func(r *RepairReport) (bool, error) {
		asked++
		if len(r.Actions) != 1 || r.LostBlocks != 1 || r.LostRawBytes != 100000 || len(r.Namespaces) != 1 {
			t.Errorf("plan %+v", r)
		}
		return false, nil
	}}
	if _, err := repair(context.Background(), "mem", o, private(victimOptions(nil), v.fs)); err != nil || asked != 1 {
		t.Errorf("asked %d times, %v", asked, err)
	}
	wantSameTree(t, before, v.fs)
	o.Confirm = func(*RepairReport) (bool, error) { // while it is thought over
		mustClose(t, mustOpen(t, victimOptions(v.fs)))
		return true, nil
	}
	if _, err := repair(context.Background(), "mem", o, private(victimOptions(nil), v.fs)); err == nil || !strings.Contains(err.Error(), "since the plan was made") {
		t.Errorf("the store was opened in between: %v", err)
	}
}
