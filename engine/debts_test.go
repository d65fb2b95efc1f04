package engine

import (
	"context"
	"strings"
	"syscall"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
)

// TestLaw3Debts: what a failure left on disk does not come back past a drop, or
// go away past a put, that was answered later.
func TestLaw3Debts(t *testing.T) {
	cases := map[string]struct {
		fail func(f *faultyRig) // which leaves key 1 with content 1, or not
	}{
		"a put whose log record was withdrawn": {func(f *faultyRig) {
			f.put(1, 1)
			f.failing(vfs.OpSync, logToo)
			if err := f.s.Flush(context.Background()); err == nil {
				f.t.Fatal("flush over a failing log")
			}
		}},
		"a durable put whose log record was withdrawn": {func(f *faultyRig) {
			f.failing(vfs.OpSync, logToo)
			r := f.n.Put(context.Background(), []PutBlock{modelBlock(1, 1)}, PutOptions{Durable: true})[0]
			if r.Status != StatusIOError { // unknown: it was visible, so it was not shed
				f.t.Fatalf("durable put over a failing log: %v %v", r.Status, r.Err)
			}
		}},
		"a put whose log record was not written": {func(f *faultyRig) {
			f.failing(vfs.OpWrite, logToo)
			if p := putOne(f.n, modelBlock(1, 1)); p.Status != StatusIOError {
				f.t.Fatalf("put over a failing log: %v %v", p.Status, p.Err)
			}
		}},
		"a write that was done and reported as failed": {func(f *faultyRig) {
			f.failingLate(vfs.OpWrite, segsToo)
			if p := putOne(f.n, modelBlock(1, 1)); p.Status != StatusIOError {
				f.t.Fatalf("put over a failing segment: %v %v", p.Status, p.Err)
			}
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFaultyRig(t)
			f.put(0, 0)
			f.flush()
			c.fail(f)
			f.mended()
			f.resume()
			f.absent(1)
			if d := f.n.Drop(context.Background(), [][]byte{hashOf(1)})[0]; d.Status != StatusMiss {
				t.Fatalf("drop of what failed: %v %v", d.Status, d.Err)
			}
			f.kill(indexDir)
			f.absent(1)
			f.want(0, 0)
			mustClose(t, f.s)
		})
	}
}

// TestLaw3DebtsOfDrops: a drop whose tombstone stands, or may stand, is
// finished before a put of its key is answered.
func TestLaw3DebtsOfDrops(t *testing.T) {
	cases := map[string]func(f *faultyRig){
		"its record was withdrawn":   func(f *faultyRig) { f.failing(vfs.OpSync, logToo) },
		"its record was not written": func(f *faultyRig) { f.failing(vfs.OpWrite, logToo) },
		"its tombstone may stand":    func(f *faultyRig) { f.failingLate(vfs.OpSync, segsToo) },
	}
	for name, fail := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFaultyRig(t)
			f.put(0, 0)
			f.flush()
			fail(f)
			if d := f.n.Drop(context.Background(), [][]byte{hashOf(0)})[0]; d.Status != StatusIOError {
				t.Fatalf("drop on a failing device: %v %v", d.Status, d.Err)
			}
			f.mended()
			f.resume()
			f.absent(0)
			f.putNew(0, 1)
			f.flush()
			f.kill(indexDir)
			f.want(0, 1)
			mustClose(t, f.s)
		})
	}
}

// TestLaw3DropCutShort: a drop, or a quarantine, of which a crash left the
// tombstone alone, is finished by Open. A put that is answered then is not lost
// by a rebuild.
func TestLaw3DropCutShort(t *testing.T) {
	for name, do := range map[string]func(*rig){
		"drop":       func(r *rig) { r.drop(0) },
		"quarantine": func(r *rig) { r.quarantine(0) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.put(0, 0)
			r.flush()
			r.roll()
			r.alias(1, 0)
			r.flush()
			var clone *vfs.Mem
			r.hook.set(func(op vfs.Op) {
				if clone == nil && op.Kind == vfs.OpWrite && op.Name[:len(logDir)] == logDir {
					clone = r.mem.CrashClone(killed) // behind the tombstone, before the record
				}
			})
			do(r)
			r.hook.set(nil)
			r.become(clone)
			r.absent(0)
			if name == "drop" {
				r.want(1, 0) // shares the bytes, which stay
			} else {
				r.absent(1)
			}
			r.putNew(0, 1)
			r.flush()
			r.kill(indexDir)
			r.want(0, 1)
			mustClose(t, r.s)
		})
	}
}

// TestLaw3RefusedAndUnburied: a put whose write failed, and whose extent could
// not be marked as dead, may turn up after a crash. It is not called refused.
func TestLaw3RefusedAndUnburied(t *testing.T) {
	f := newFaultyRig(t)
	f.put(0, 0)
	f.flush()
	left := 2 // the extent, and its tombstone
	fn := func(op vfs.Op) error {
		if op.Kind != vfs.OpWrite || !strings.HasPrefix(op.Name, segsToo+"/") || left == 0 {
			return nil
		}
		left--
		return &vfs.LateError{Err: syscall.ENOSPC}
	}
	f.fail.Store(&fn)
	if p := putOne(f.n, modelBlock(1, 1)); p.Status != StatusIOError || left != 0 {
		t.Fatalf("put: %v %v, %d operations did not fail", p.Status, p.Err, left)
	}
	f.mended()
	f.resume()
	f.putNew(1, 2)
	f.kill(indexDir)
	f.want(0, 0)
	mustClose(t, f.s)
}
