package disk

import (
	"errors"
	"io/fs"
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

// TestSidecarPoisoned: after a failed write or sync a sidecar takes nothing
// more, though it was closed in between; others do.
func TestSidecarPoisoned(t *testing.T) {
	for _, kind := range []vfs.OpKind{vfs.OpWrite, vfs.OpSync} {
		var fail atomic.Bool
		hooked := vfs.WithHook(vfs.NewMem(), func(op vfs.Op) error {
			if op.Kind == kind && op.Name == SidecarName(1) && fail.CompareAndSwap(true, false) {
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
		wantPoisoned(t, v.AppendTombstones(1, deadAt(4)))
		ts, err := v.ReadTombstones(1)
		if err != nil || len(ts) == 0 || ts[0].Page != 1 {
			t.Errorf("%v: what was synced before: %v, %v", kind, ts, err)
		}
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
