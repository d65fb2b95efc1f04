package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/sealstone/sealstone/internal/faults/faulttest"
	"github.com/sealstone/sealstone/internal/vfs"
)

// repairCrashes are the damages of which the repair is crashed, by name.
var repairCrashes = []string{"all at once", "tombstones, and the index is lost", "both copies of STORE, in other places", "a sealed segment missing"}

// TestFaultRepairCrash crashes a repair before each of its operations. What it
// leaves can be repaired, comes to the same end, and nothing that was gone is
// back.
func TestFaultRepairCrash(t *testing.T) {
	v := newVictim(t)
	tally := faulttest.New(t)
	modes, every := []vfs.CrashOptions{killed, plainCut}, uint64(17)
	if fullTests {
		modes, every = append(modes, namesCuts()[:2]...), 1
	} else if testing.Short() {
		modes, every = modes[1:], 41
	}
	for _, c := range repairCases {
		if !slices.Contains(repairCrashes, c.name) {
			continue
		}
		fs := damagedClone(t, v, c)
		for _, w := range repairWrecks(t, fs, modes, every) {
			f := tally.Try(c.name + ", " + w.name)
			f.Fire()
			checkWreck(t, v, c, w)
			if t.Failed() {
				t.Fatalf("%s, %s", c.name, w.name)
			}
			f.Survive()
		}
		tally.Settle()
	}
}

// repairWrecks repairs a store and returns what crashes would have left.
func repairWrecks(t *testing.T, fs *vfs.Mem, modes []vfs.CrashOptions, every uint64) (out []wreck) {
	t.Helper()
	var mu sync.Mutex
	n := uint64(0)
	hooked := vfs.WithHook(fs, func(op vfs.Op) error {
		if !op.Mutates() {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if n++; n%every != 0 {
			return nil
		}
		for i, m := range modes {
			out = append(out, wreck{fs.CrashClone(m), fmt.Sprintf("crash %d before %v", i, op)})
		}
		return nil
	})
	mustRepair(t, hooked, victimOptions(nil))
	if len(out) == 0 {
		t.Fatal("nothing was crashed")
	}
	return out
}

// checkWreck repairs what a crash left and looks at the store. A crash behind
// the last step leaves nothing to repair.
func checkWreck(t *testing.T, v *victimStore, c repairCase, w wreck) {
	t.Helper()
	mustRepair(t, w.fs, victimOptions(nil))
	if r := mustVerify(t, w.fs); r.Damaged != 0 {
		t.Errorf("damage is left: %v", r.Damage)
	}
	vd := v.examine(w.fs)
	if len(vd.wrong) > 0 || !slices.Equal(vd.lost(), c.lost) {
		t.Errorf("wrong %v, lost %v, want %v lost: %v", vd.wrong, vd.lost(), c.lost, vd.reported)
	}
}

// TestRepairInterrupted: one that is told to stop can be run again.
func TestRepairInterrupted(t *testing.T) {
	v := newVictim(t)
	for _, c := range repairCases {
		if c.name != "all at once" {
			continue
		}
		fs := damagedClone(t, v, c)
		for stop := 1; ; stop++ {
			ctx, cancel := context.WithCancel(context.Background())
			calls := 0
			o := RepairOptions{MaxQuarantined: -1, Confirm: func(*RepairReport) (bool, error) {
				if stop == 1 {
					cancel()
				}
				return true, nil
			}, Progress: func(what string, _, _ int64) {
				if calls++; stop > 1 && calls == stop*2 {
					cancel()
				}
			}}
			_, err := repair(ctx, "mem", o, private(victimOptions(nil), fs))
			cancel()
			if err == nil {
				break
			}
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("stop %d: %v", stop, err)
			}
		}
		checkWreck(t, v, c, wreck{fs, "interrupted"})
	}
}

// TestFaultRepairError: an operation that fails ends the repair with its error,
// and the next one comes to the end.
func TestFaultRepairError(t *testing.T) {
	v := newVictim(t)
	tally := faulttest.New(t)
	every := uint64(11)
	if fullTests {
		every = 1
	} else if testing.Short() {
		every = 47
	}
	for _, c := range repairCases {
		if c.name != "all at once" {
			continue
		}
		total := uint64(0)
		mustRepair(t, numbered(damagedClone(t, v, c), func(n uint64) error { total = n; return nil }), victimOptions(nil))
		for at := every; at < total*9/10; at += every { // what Pebble does varies
			fs := damagedClone(t, v, c)
			f := tally.Try(fmt.Sprintf("an error at change %d of %d", at, total))
			hooked := numbered(fs, func(n uint64) error {
				if n != at {
					return nil
				}
				f.Fire()
				return syscall.EIO
			})
			_, err := repair(context.Background(), "mem", RepairOptions{MaxQuarantined: -1}, private(victimOptions(nil), hooked))
			checkWreck(t, v, c, wreck{fs, "an error"})
			if t.Failed() {
				t.Fatalf("error at change %d; the repair said %v", at, err)
			}
			f.Survive()
		}
	}
}

// damagedClone is a damaged copy of a store, durably so.
func damagedClone(t *testing.T, v *victimStore, c repairCase) *vfs.Mem {
	t.Helper()
	fs := v.clone()
	c.damage(t, v, fs)
	return fs.CrashClone(killed)
}

// numbered numbers the operations that change something.
func numbered(fs vfs.FS, do func(n uint64) error) vfs.FS {
	var mu sync.Mutex
	n := uint64(0)
	return vfs.WithHook(fs, func(op vfs.Op) error {
		if !op.Mutates() {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		n++
		return do(n)
	})
}
