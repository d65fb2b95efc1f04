package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/faults/faulttest"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

func mustRebuild(t testing.TB, fs vfs.FS, o Options) *RebuildReport {
	t.Helper()
	r, err := rebuildStore(context.Background(), "mem", RebuildOptions{}, private(o, fs))
	if err != nil {
		t.Fatalf("rebuild: %v", err)
	}
	return r
}

// private are the private options of o on another file system.
func private(o Options, fs vfs.FS) privateOptions {
	o.private.fs = fs
	return o.private
}

// indexOf lists what the index of a closed store holds.
func indexOf(t *testing.T, o Options) map[index.Key]index.Entry {
	t.Helper()
	all := map[index.Key]index.Entry{}
	s := mustOpen(t, o)
	defer mustClose(t, s)
	if s.rebuilds != 0 {
		t.Fatalf("the index had to be rebuilt: %v", s.Events(0))
	}
	checkIndex(t, s, "")
	err := s.idx.Keys(context.Background(), func(k index.KeyEntry) error {
		all[k.Key] = k.Entry
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestRebuildOffline: the rebuilt index of an undamaged store is the index.
func TestRebuildOffline(t *testing.T) {
	v := newVictim(t)
	want := indexOf(t, victimOptions(v.clone()))
	r := mustRebuild(t, v.fs, victimOptions(nil))
	if r.Segments != 2 || r.Blocks != int64(len(want)) || r.LeftOut.Dropped != 1 || r.LogDamage != "" {
		t.Errorf("report: %+v", r)
	}
	if r.Extents != r.Blocks+r.LeftOut.Dropped {
		t.Errorf("extents do not add up: %+v", r)
	}
	if got := indexOf(t, victimOptions(v.clone())); !maps.Equal(got, want) {
		t.Errorf("rebuilt %v\nwant %v", got, want)
	}
	wantSound(t, v, "rebuilt")
	wantClean(t, v.fs)
}

// wantSound opens a store and wants all of its blocks and none that is gone.
func wantSound(t testing.TB, v *victimStore, where string) {
	t.Helper()
	vd := v.examine(v.clone())
	if len(vd.wrong) > 0 || len(vd.lost()) > 0 || len(vd.status) != len(v.blocks) {
		t.Errorf("%s: wrong %v, lost %v, reported %v", where, vd.wrong, vd.lost(), vd.reported)
	}
}

// TestRebuildOfflineHistories: after random histories, crashes in them
// included, a rebuild comes to what the index held.
func TestRebuildOfflineHistories(t *testing.T) {
	seeds := 20
	if fullTests {
		seeds = 1000
	} else if testing.Short() {
		seeds = 4
	}
	tally := faulttest.New(t)
	for seed := range uint64(seeds) {
		rng := rand.New(rand.NewPCG(seed, 7))
		fs, how := crashVerified(t, rng, vfs.NewMem())
		mustClose(t, mustOpen(t, smallSegments(fs))) // recovers
		want := indexOf(t, smallSegments(fs))
		mustRebuild(t, fs, smallSegments(nil))
		for k, e := range indexOf(t, smallSegments(fs)) {
			if w, ok := want[k]; !ok || w.Seq != e.Seq || w.Content != e.Content {
				t.Fatalf("seed %d, %s: key %x is %+v after the rebuild, was %+v", seed, how, k.Hash, e, w)
			}
			delete(want, k)
		}
		for k, e := range want {
			if e.Seq >= floorIn(t, fs, k.Namespace) {
				t.Fatalf("seed %d, %s: key %x, %+v, is lost", seed, how, k.Hash, e)
			}
		}
		tally.Seeds(1)
	}
}

func floorIn(t testing.TB, fs vfs.FS, namespace uint32) uint64 {
	t.Helper()
	s := mustOpen(t, smallSegments(fs))
	defer mustClose(t, s)
	return s.floorLocked(namespace)
}

// historyOf makes a store in which keys are stored (1 and 2, 3 an alias), put
// again after a drop (4), moved (5), dropped (6), quarantined (7), of an older
// epoch (8), and evicted (9).
func historyOf(t *testing.T) *rig {
	r := newRig(t)
	r.put(8, 8)
	r.bump()
	r.put(9, 9)
	r.put(5, 5)
	r.roll()
	r.put(1, 1)
	r.put(4, 4)
	r.put(7, 7)
	r.flush()
	r.touch(5)
	r.evict()
	r.put(2, 2)
	r.alias(3, 1)
	r.drop(4)
	r.put(4, 14)
	r.put(6, 6)
	r.drop(6)
	r.quarantine(7)
	r.flush()
	mustClose(t, r.s)
	r.open()
	return r
}

// wantHistory is what must hold of historyOf whatever befell its index.
func wantHistory(r *rig) {
	r.t.Helper()
	for k, content := range map[int]int{1: 1, 2: 2, 3: 1, 4: 14, 5: 5} {
		r.want(k, content)
	}
	for _, k := range []int{6, 7, 8, 9} {
		r.absent(k)
	}
}

// TestFaultRebuildCrash crashes an offline rebuild before each of its
// operations: the next Open has an index, the old or the new one or its own,
// and nothing that was gone is back.
func TestFaultRebuildCrash(t *testing.T) {
	modes := []vfs.CrashOptions{killed, plainCut, namesCuts()[0]}
	if fullTests {
		modes = append(modes, namesCuts()[1:]...)
	} else if testing.Short() {
		modes = modes[:1]
	}
	r := historyOf(t)
	wantHistory(r)
	tally := faulttest.New(t)
	r.losses = []string{""}
	r.only = func(op vfs.Op) bool { return fullTests || !strings.HasPrefix(op.Name, newIndexDir) || op.Index%7 == 0 }
	r.crashAnywhere(modes, func() {
		mustClose(t, r.s)
		fs := vfs.WithHook(r.mem, func(op vfs.Op) error { r.hook.run(op); return nil })
		if _, err := rebuildStore(context.Background(), "mem", RebuildOptions{}, private(modelOptions(nil), fs)); err != nil {
			t.Fatal(err)
		}
	}, func(again *rig) {
		f := tally.Try(again.where)
		f.Fire()
		wantHistory(again)
		again.put(9, 19) // what is gone can be put again
		again.want(9, 19)
		for _, dir := range []string{newIndexDir, oldIndexDir} {
			if _, err := again.mem.Stat(dir); !vfs.IsNotExist(err) {
				t.Errorf("%s%s stays: %v", again.where, dir, err)
			}
		}
		f.Survive()
	})
}

// TestRebuildOfflineInterrupted: one that is given up leaves the old index in
// place.
func TestRebuildOfflineInterrupted(t *testing.T) {
	v := newVictim(t)
	for _, when := range []int64{1, 3, 6} {
		ctx, cancel := context.WithCancelCause(context.Background())
		cause := errors.New("told to stop")
		var reads atomic.Int64 // segments are opened side by side
		fs := vfs.WithHook(v.fs, func(op vfs.Op) error {
			if op.Kind == vfs.OpRead && strings.HasPrefix(op.Name, "segments/") {
				if reads.Add(1) == when {
					cancel(cause)
				}
			}
			return nil
		})
		_, err := rebuildStore(ctx, "mem", RebuildOptions{BytesPerSecond: 1 << 40}, private(victimOptions(nil), fs))
		if !errors.Is(err, cause) && !errors.Is(err, context.Canceled) {
			t.Fatalf("read %d: %v", when, err)
		}
		indexOf(t, victimOptions(v.clone())) // was not rebuilt
		wantSound(t, v, fmt.Sprintf("interrupted at read %d", when))
	}
}

// TestRebuildOfflineRefuses: directories that are none of its business stay
// as they are.
func TestRebuildOfflineRefuses(t *testing.T) {
	empty := vfs.NewMem()
	if _, err := rebuildStore(context.Background(), "mem", RebuildOptions{}, private(victimOptions(nil), empty)); !errors.Is(err, ErrNoStore) {
		t.Errorf("empty directory: %v", err)
	}
	wantSameTree(t, vfs.NewMem(), empty)
	v := newVictim(t)
	s := mustOpen(t, victimOptions(v.fs))
	if _, err := rebuildStore(context.Background(), "mem", RebuildOptions{}, private(victimOptions(nil), v.fs)); !errors.Is(err, ErrLocked) {
		t.Errorf("open store: %v", err)
	}
	mustClose(t, s)
	both := v.clone()
	for _, name := range []string{"STORE", "STORE.2"} {
		flipByte(t, both, name, 60)
	}
	before := both.CrashClone(vfs.CrashOptions{KeepAll: true})
	if _, err := rebuildStore(context.Background(), "mem", RebuildOptions{}, private(victimOptions(nil), both)); !errors.Is(err, ErrDamaged) {
		t.Errorf("no STORE: %v", err)
	}
	wantSameTree(t, before, both)
}

// TestRebuildOfflineDamagedLog: the log is none that could be used, and the
// segments are all there is.
func TestRebuildOfflineDamagedLog(t *testing.T) {
	v := newVictim(t).killed(t)
	for _, name := range filesUnder(t, v.fs, logDir, ".wal") {
		flipByte(t, v.fs, name, 4096+20)
	}
	r := mustRebuild(t, v.fs, victimOptions(nil))
	if r.LogDamage == "" {
		t.Errorf("the log's damage is not said: %+v", r)
	}
	wantSound(t, v, "rebuilt with a damaged log")
	wantClean(t, v.fs)
}

// TestRebuildDistrustsSidecar: with the tombstones of a segment damaged, none
// of its blocks is taken in, nor an older copy elsewhere of one of them.
func TestRebuildDistrustsSidecar(t *testing.T) {
	r := newRig(t)
	r.put(1, 1)
	r.put(2, 2)
	r.roll()
	r.put(3, 3)
	r.flush()
	at := r.entry(1).Address.Segment
	mustClose(t, r.s)
	patch(t, r.mem, disk.SidecarName(at), 100, func(p []byte) { p[0] ^= 1 }, 1)
	rep := mustRebuild(t, r.mem, modelOptions(nil))
	if rep.LeftOut.Distrusted != 2 || rep.Blocks != 1 || !strings.Contains(strings.Join(rep.Notes, " "), disk.SidecarName(at)+" is damaged") {
		t.Errorf("report %+v", rep)
	}
	r.open()
	r.absent(1)
	r.absent(2)
	r.want(3, 3)
	mustClose(t, r.s)
}
