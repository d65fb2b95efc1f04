package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sealstone/sealstone/internal/vfs"
)

func deadAt(pages ...uint32) []Tombstone {
	var ts []Tombstone
	for _, p := range pages {
		ts = append(ts, Tombstone{Kind: TombstoneDead, Page: p, Seq: uint64(p) * 10, Namespace: 3})
	}
	return ts
}

// TestTombstones: what was appended is read back, by this volume and by the
// next; each append is one sync.
func TestTombstones(t *testing.T) {
	var syncs atomic.Int64
	mem := vfs.NewMem()
	hooked := vfs.WithHook(mem, func(op vfs.Op) error {
		if op.Kind == vfs.OpSync && op.Name == SidecarName(1) {
			syncs.Add(1)
		}
		return nil
	})
	v := openTestVolume(t, testOptions(hooked))
	w := create(t, v, 1)
	syncs.Store(0)
	must(t, v.AppendTombstones(1, deadAt(1, 2, 3, 4, 5, 6)))
	must(t, v.AppendTombstones(1, nil))
	must(t, v.AppendTombstones(1, deadAt(7)))
	if n := syncs.Load(); n != 2 {
		t.Errorf("%d syncs for two appends", n)
	}
	must(t, w.Close())
	// Durable as soon as it is answered.
	next := openTestVolume(t, testOptions(mem.CrashClone(vfs.CrashOptions{})))
	must(t, next.AppendTombstones(1, deadAt(8)))
	got, err := next.ReadTombstones(1)
	must(t, err)
	if diff := cmp.Diff(deadAt(1, 2, 3, 4, 5, 6, 7, 8), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := v.AppendTombstones(9, deadAt(1)); !errors.Is(err, ErrNoSegment) {
		t.Errorf("no segment: %v", err)
	}
	if err := v.AppendTombstones(1, []Tombstone{{Kind: 9, Page: 1}}); !errors.Is(err, ErrInvalid) {
		t.Errorf("bad kind: %v", err)
	}
}

// TestTombstonesConcurrent: appends for one segment do not overwrite each
// other.
func TestTombstonesConcurrent(t *testing.T) {
	eachFS(t, func(t *testing.T, fs vfs.FS) {
		v := openTestVolume(t, testOptions(fs))
		must(t, create(t, v, 1).Close())
		var wg sync.WaitGroup
		for g := range uint32(4) {
			wg.Go(func() {
				for n := range uint32(10) {
					if err := v.AppendTombstones(1, deadAt(1+g*100+n, 51+g*100+n)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		ts, err := v.ReadTombstones(1)
		must(t, err)
		seen := map[uint32]bool{}
		for _, x := range ts {
			seen[x.Page] = true
		}
		if len(ts) != 80 || len(seen) != 80 {
			t.Errorf("%d tombstones of %d pages", len(ts), len(seen))
		}
	})
}

// TestSidecarRenewed: a sidecar of which a write or sync failed is not written
// or synced again, though it was closed in between. A new one takes its place,
// with what was durable, and until that can be made the answer is ErrPoisoned.
// A power cut at any step leaves what was durable.
func TestSidecarRenewed(t *testing.T) {
	for _, kind := range []vfs.OpKind{vfs.OpWrite, vfs.OpSync} {
		for _, renewal := range []vfs.OpKind{vfs.OpOpen, vfs.OpCreate, vfs.OpWrite, vfs.OpSync, vfs.OpRename, vfs.OpSyncDir} {
			t.Run(fmt.Sprint(kind, " and ", renewal), func(t *testing.T) { sidecarRenewed(t, kind, renewal) })
		}
	}
}

func sidecarRenewed(t *testing.T, kind, renewal vfs.OpKind) {
	var fail, failRenewal, failed, watching atomic.Bool
	mem := vfs.NewMem()
	hooked := vfs.WithHook(mem, func(op vfs.Op) error {
		if watching.Load() && op.Mutates() {
			cut := openTestVolume(t, testOptions(mem.CrashClone(vfs.CrashOptions{})))
			if ts, err := cut.ReadTombstones(1); err != nil || len(ts) == 0 || ts[0].Page != 1 {
				t.Errorf("a power cut before %v: %v, %v", op, ts, err)
			}
		}
		switch {
		case op.Kind == kind && op.Name == SidecarName(1) && fail.CompareAndSwap(true, false):
			failed.Store(true)
			return syscall.EIO
		case op.Name == SidecarName(1) && failed.Load() && (op.Kind == vfs.OpWrite || op.Kind == vfs.OpSync):
			t.Errorf("%v of a sidecar that failed", op)
		case op.Kind == vfs.OpRename && op.NewName == SidecarName(1) && (renewal != vfs.OpRename || !failRenewal.Load()):
			failed.Store(false)
		}
		if failRenewal.Load() && op.Kind == renewal && strings.HasPrefix(SidecarName(1)+renewalSuffix, op.Name) {
			return syscall.EIO
		}
		return nil
	})
	o := testOptions(hooked)
	o.MaxOpenFiles = MinOpenFiles
	v := openTestVolume(t, o)
	for id := range uint64(2 * MinOpenFiles) {
		must(t, create(t, v, id).Close())
	}
	must(t, v.AppendTombstones(1, deadAt(1)))
	fail.Store(true)
	wantPoisoned(t, v.AppendTombstones(1, deadAt(2)))
	for id := range uint64(2 * MinOpenFiles) {
		if id != 1 {
			must(t, v.AppendTombstones(id, deadAt(3)))
		}
	}
	failRenewal.Store(true)
	if err := v.AppendTombstones(1, deadAt(4)); err != nil {
		wantPoisoned(t, err)
	}
	failRenewal.Store(false)
	watching.Store(true)
	must(t, v.AppendTombstones(1, deadAt(5)))
	watching.Store(false)
	for _, at := range []*Volume{v, openTestVolume(t, testOptions(mem.CrashClone(vfs.CrashOptions{})))} {
		ts, err := at.ReadTombstones(1)
		if err != nil || ts[0].Page != 1 || ts[len(ts)-1].Page != 5 {
			t.Errorf("tombstones %v, %v", ts, err)
		}
		if len(at.Strange()) != 0 {
			t.Errorf("left behind: %v", at.Strange())
		}
	}
}

// TestSyncTombstones: what only the page cache had survives a power cut after
// it; a failure poisons the sidecar, and the next append renews it.
func TestSyncTombstones(t *testing.T) {
	var fail atomic.Bool
	mem := vfs.NewMem()
	v := openTestVolume(t, testOptions(vfs.WithHook(mem, func(op vfs.Op) error {
		if op.Kind == vfs.OpSync && op.Name == SidecarName(1) && fail.Load() {
			return syscall.EIO
		}
		return nil
	})))
	must(t, create(t, v, 1).Close())
	must(t, v.SyncTombstones(1)) // none yet
	must(t, v.AppendTombstones(1, deadAt(1)))
	p := make([]byte, TombstoneSlotBytes)
	must(t, EncodeTombstone(p, deadAt(2)[0], 1, FirstTombstoneSlot+1, FirstTombstoneSlot+1, v.o.Key))
	f, err := mem.Open(SidecarName(1), vfs.ReadWrite)
	must(t, err)
	must(t, writeFull(f, p, TombstoneOffset(FirstTombstoneSlot+1))) // by a run that was killed
	must(t, f.Close())
	killed := openTestVolume(t, testOptions(mem))
	must(t, killed.SyncTombstones(1))
	cut := openTestVolume(t, testOptions(mem.CrashClone(vfs.CrashOptions{})))
	if ts, err := cut.ReadTombstones(1); err != nil || len(ts) != 2 {
		t.Errorf("after the power cut: %v, %v", ts, err)
	}
	fail.Store(true)
	wantPoisoned(t, v.SyncTombstones(1))
	fail.Store(false)
	wantPoisoned(t, v.SyncTombstones(1)) // is not tried again on that file
	must(t, v.AppendTombstones(1, deadAt(3)))
	must(t, v.SyncTombstones(1))
	if err := v.SyncTombstones(7); !errors.Is(err, ErrNoSegment) {
		t.Errorf("no such segment: %v", err)
	}
}

// TestSidecarRenewalLeft: a renewal that a crash cut short goes when the volume
// is opened.
func TestSidecarRenewalLeft(t *testing.T) {
	mem := vfs.NewMem()
	v := openTestVolume(t, testOptions(mem))
	must(t, create(t, v, 1).Close())
	must(t, v.AppendTombstones(1, deadAt(1)))
	f, err := mem.Open(renewalName(1), vfs.Create)
	must(t, err)
	must(t, f.Close())
	v = openTestVolume(t, testOptions(mem))
	if ts, err := v.ReadTombstones(1); err != nil || len(ts) != 1 || len(v.Strange()) != 0 {
		t.Errorf("%v, %v, strange %v", ts, err, v.Strange())
	}
	if _, err := mem.Stat(renewalName(1)); !vfs.IsNotExist(err) {
		t.Errorf("the renewal is still there: %v", err)
	}
}

// TestSidecarMissing: a sidecar that is lost, or empty after a crash, is made
// again.
func TestSidecarMissing(t *testing.T) {
	mem := vfs.NewMem()
	v := openTestVolume(t, testOptions(mem))
	for id := range uint64(3) {
		must(t, create(t, v, id).Close())
	}
	must(t, mem.Remove(SidecarName(0)))
	for id, size := range map[uint64]int64{1: 0, 2: 100} {
		f, err := mem.Open(SidecarName(id), vfs.Create|vfs.Trunc)
		must(t, err)
		must(t, f.Truncate(size))
		must(t, f.Close())
	}
	next := openTestVolume(t, testOptions(mem.CrashClone(vfs.CrashOptions{KeepAll: true})))
	if _, err := next.ReadTombstones(0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v, want %v", err, fs.ErrNotExist)
	}
	for id := range uint64(3) {
		must(t, next.AppendTombstones(id, deadAt(5)))
		ts, err := next.ReadTombstones(id)
		if err != nil || len(ts) != 1 {
			t.Errorf("segment %d: %v, %v", id, ts, err)
		}
		if info, _ := next.Segment(id); !info.HasSidecar {
			t.Errorf("segment %d has no sidecar", id)
		}
	}
}

// TestSidecarDamaged: damage is reported with the sound tombstones, and does
// not keep new ones out.
func TestSidecarDamaged(t *testing.T) {
	mem := vfs.NewMem()
	v := openTestVolume(t, testOptions(mem))
	must(t, create(t, v, 1).Close())
	must(t, v.AppendTombstones(1, deadAt(1, 2, 3)))
	f, err := mem.Open(SidecarName(1), vfs.ReadWrite)
	must(t, err)
	_, err = f.WriteAt([]byte{0xff}, TombstoneOffset(FirstTombstoneSlot+1))
	must(t, err)
	must(t, f.Close())
	next := openTestVolume(t, testOptions(mem.CrashClone(vfs.CrashOptions{KeepAll: true})))
	must(t, next.AppendTombstones(1, deadAt(4)))
	ts, err := next.ReadTombstones(1)
	var c *CorruptError
	if !errors.As(err, &c) || c.File != SidecarName(1) || c.Offset/TombstoneSlotBytes != FirstTombstoneSlot+1 {
		t.Errorf("error: %v", err)
	}
	if diff := cmp.Diff(deadAt(1, 3, 4), ts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
