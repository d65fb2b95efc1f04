package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// faultyRig is a rig whose file system fails what a test chooses.
type faultyRig struct {
	*rig
	fail atomic.Pointer[func(vfs.Op) error]
}

func newFaultyRig(t *testing.T) *faultyRig {
	f := &faultyRig{rig: &rig{t: t, mem: vfs.NewMem(), at: map[string]func(){}}}
	o := modelOptions(vfs.WithHook(f.mem, func(op vfs.Op) error {
		if fn := f.fail.Load(); fn != nil {
			return (*fn)(op)
		}
		return nil
	}))
	f.s = mustOpen(t, o)
	f.n = mustSpace(t, f.s)
	return f
}

// failing makes operations of a kind on files under a directory fail.
func (f *faultyRig) failing(kind vfs.OpKind, dir string) {
	fn := func(op vfs.Op) error {
		if op.Kind == kind && strings.HasPrefix(op.Name, dir+"/") && !strings.HasSuffix(op.Name, ".tmp") {
			return syscall.EIO
		}
		return nil
	}
	f.fail.Store(&fn)
}

// failingLate is failing, but what is reported as failed is done.
func (f *faultyRig) failingLate(kind vfs.OpKind, dir string) {
	fn := func(op vfs.Op) error {
		if op.Kind == kind && strings.HasPrefix(op.Name, dir+"/") && op.Length != disk.TombstoneSlotBytes {
			return &vfs.LateError{Err: syscall.EIO}
		}
		return nil
	}
	f.fail.Store(&fn)
}

func (f *faultyRig) mended() { f.fail.Store(nil) }

func (f *faultyRig) wantReadOnly() {
	f.t.Helper()
	if h := f.s.Health(); h.State != HealthReadOnly || len(h.Reasons) == 0 {
		f.t.Fatalf("health %+v, want read-only with a reason", h)
	}
	if p := putOne(f.n, modelBlock(9, 3)); p.Status != StatusShed || !errors.Is(p.Err, ErrReadOnly) {
		f.t.Fatalf("put into a read-only store: %v %v", p.Status, p.Err)
	}
}

func (f *faultyRig) resume() {
	f.t.Helper()
	f.s.tryResume(f.s.o.private.now())
	if h := f.s.Health(); h.State != HealthOK {
		f.t.Fatalf("health after the device was mended: %+v", h)
	}
}

func TestLaw5FailedSync(t *testing.T) {
	for _, dir := range []string{segsToo, logToo} {
		t.Run(dir, func(t *testing.T) {
			f := newFaultyRig(t)
			f.put(0, 0)
			f.flush()
			f.put(1, 1)
			f.failing(vfs.OpSync, dir)
			if err := f.s.Flush(context.Background()); err == nil {
				t.Fatal("flush over a failing device succeeded")
			}
			f.wantReadOnly()
			f.want(0, 0)
			f.absent(1) // withdrawn: a second fsync would prove nothing
			everything := func(op vfs.Op) error {
				if op.Mutates() {
					return syscall.EIO
				}
				return nil
			}
			f.fail.Store(&everything)
			if err := f.s.resume(context.Background()); err == nil {
				t.Fatal("resumed on a device that fails")
			}
			f.wantReadOnly()
			f.mended()
			f.resume()
			f.want(0, 0)
			f.absent(1)
			f.putNew(1, 2)
			f.want(1, 2)
			f.flush()
			f.cut(nil)
			f.want(0, 0)
			f.want(1, 2)
			f.kill(indexDir)
			f.want(0, 0)
			f.want(1, 2)
			mustClose(t, f.s)
		})
	}
}

func TestResumeAfterFailedLogWrite(t *testing.T) {
	f := newFaultyRig(t)
	f.put(0, 0)
	f.put(1, 1) // logged, not durable: it must be logged anew
	f.drop(0)
	f.put(3, 3)
	f.failing(vfs.OpWrite, logToo)
	if p := putOne(f.n, modelBlock(2, 2)); p.Status != StatusIOError {
		t.Fatalf("put over a failing log: %v %v", p.Status, p.Err)
	}
	f.wantReadOnly()
	f.want(1, 1)
	f.mended()
	f.resume()
	f.absent(0)
	f.want(1, 1)
	f.want(3, 3)
	f.putNew(2, 0)
	f.putNew(0, 1)
	f.flush()
	f.cut(nil)
	for k, c := range map[int]int{0: 1, 1: 1, 2: 0, 3: 3} {
		f.want(k, c)
	}
	mustClose(t, f.s)
}

// TestResumeOverAFailingSegment: a segment whose sync fails while the store
// tries to go on is given up, and does not hold up the next try; tries that
// fail leave no more files than the log has room for.
func TestResumeOverAFailingSegment(t *testing.T) {
	f := newFaultyRig(t)
	f.put(0, 0)
	f.flush()
	f.put(1, 1)
	f.failing(vfs.OpWrite, logToo)
	if p := putOne(f.n, modelBlock(2, 2)); p.Status != StatusIOError {
		t.Fatalf("put over a failing log: %v %v", p.Status, p.Err)
	}
	f.failing(vfs.OpSync, segsToo)
	for range 2 * logFilesMax {
		_ = f.s.resume(context.Background())
		names, err := f.mem.List(logDir)
		if err != nil || len(names) > logFilesMax {
			t.Fatalf("%d log files: %v", len(names), err)
		}
	}
	f.mended()
	if f.s.Health().State != HealthOK {
		f.resume()
	}
	f.want(0, 0)
	f.absent(1) // its sync failed: withdrawn
	f.putNew(1, 2)
	f.flush()
	f.cut(nil)
	f.want(0, 0)
	f.want(1, 2)
	mustClose(t, f.s)
}

func TestResumeFinishesAnEviction(t *testing.T) {
	for _, point := range []string{"evict:drained", "evict:moved", "evict:applied"} {
		t.Run(point, func(t *testing.T) {
			f := newFaultyRig(t)
			f.put(0, 0)
			f.flush()
			f.roll()
			f.put(1, 1)
			f.s.o.private.points = func(p string) {
				if p == point {
					fn := func(op vfs.Op) error {
						if op.Mutates() && !strings.HasSuffix(op.Name, ".sst") {
							return syscall.EIO
						}
						return nil
					}
					f.fail.Store(&fn)
				}
			}
			if _, err := f.s.EvictOnce(context.Background()); err == nil {
				t.Fatal("evicted over a failing device")
			}
			f.s.o.private.points = func(string) {}
			f.mended()
			f.resume()
			if point != "evict:applied" { // else it was finished before anything new
				f.evict()
			}
			f.absent(0)
			f.putNew(0, 2)
			f.kill(indexDir)
			f.want(0, 2)
			mustClose(t, f.s)
		})
	}
}

// TestResumeAtEveryFailure fails each operation of a short history in turn,
// lets the store go on, and then cuts the power.
func TestResumeAtEveryFailure(t *testing.T) {
	fired := 0
	for k := uint64(1); k < 120; k++ {
		if failOnce(t, k) {
			fired++
		}
	}
	if fired < 60 {
		t.Fatalf("only %d failures came about", fired)
	}
}

func failOnce(t *testing.T, k uint64) bool {
	t.Helper()
	f := newFaultyRig(t)
	count, hit := uint64(0), ""
	fn := func(op vfs.Op) error {
		// The index has its own tests: its failure ends the store.
		if !op.Mutates() || strings.HasPrefix(op.Name, indexDir) {
			return nil
		}
		if count++; count == k {
			hit = op.String()
			return syscall.EIO
		}
		return nil
	}
	f.fail.Store(&fn)
	rng := rand.New(rand.NewPCG(k, 3))
	for i := range 12 {
		_ = putOne(f.n, modelBlock(i%modelKeys, rng.IntN(modelContents)))
		switch i {
		case 3, 8:
			_ = f.n.Drop(context.Background(), [][]byte{hashOf(i - 1)})
		case 5:
			_ = f.s.Flush(context.Background())
		case 9:
			f.roll()
			_, _ = f.s.EvictOnce(context.Background())
		}
	}
	f.mended()
	where := fmt.Sprintf("operation %d failed: %s", k, hit)
	// A failed write shows at the next sync, which then goes on by itself.
	err := errors.New("none yet")
	for range 3 {
		f.s.resumeDue = f.s.o.private.now()
		f.s.tryResume(f.s.o.private.now())
		_ = putOne(f.n, modelBlock(7, 1))
		if err = f.s.Flush(context.Background()); err == nil {
			break
		}
	}
	if err != nil && !strings.Contains(hit, ".del") { // a sidecar that failed is not written again
		t.Fatalf("%s: the store did not go on: %v", where, err)
	}
	if err == nil {
		found := map[int]int{}
		for i := range modelKeys {
			if c, status := readContent(f.n, i); status == StatusOK {
				found[i] = c
			} else if status != StatusMiss {
				t.Fatalf("%s: key %d: %v", where, i, status)
			}
		}
		checkIndex(t, f.s, where)
		f.cut(nil)
		for i, c := range found {
			if got, status := readContent(f.n, i); status != StatusOK || got != c {
				t.Fatalf("%s: key %d: %v %d after a power cut, was %d", where, i, status, got, c)
			}
		}
	}
	mustClose(t, f.s)
	return hit != ""
}
