package index

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sealstone/sealstone/internal/vfs"
)

// gate holds operations on tables and manifests up while it is shut.
type gate struct {
	mu    sync.Mutex
	shut  chan struct{} // nil: open
	waits atomic.Int64
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = make(chan struct{})
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		close(g.shut)
		g.shut = nil
	}
}

func (g *gate) hook(op vfs.Op) error {
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	if shut != nil {
		g.waits.Add(1)
		<-shut
	}
	return nil
}

// short is a context that ends soon: what hangs must end with it.
func short(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// TestWedgedFileSystem: the disk answers nothing any more. No call waits
// longer than its context, also when every worker is stuck and the queue is
// full; and when the disk comes back, so does the index.
func TestWedgedFileSystem(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	var g gate
	mem := vfs.NewMem()
	d, err := reopened(testContext(t), mem, vfs.WithHook(mem, g.hook))
	if err != nil {
		t.Fatal(err)
	}
	setApplied(t, d, 5000)
	g.close()
	defer g.open()
	if err := d.Flush(short(t)); !errors.Is(err, ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("flush: %v", err)
	}
	var wg sync.WaitGroup
	for range workers + queueLength + 8 {
		wg.Go(func() {
			if _, err := d.Get(short(t), []Key{keyOf(2)}, false); !errors.Is(err, ErrBusy) {
				t.Errorf("get: %v", err)
			}
		})
	}
	wg.Wait()
	if g.waits.Load() == 0 {
		t.Fatal("nothing waited for the disk")
	}
	// On a busy machine some of those contexts ended before their calls were
	// queued: more calls fill the queue.
	bound := testContext(t)
	for err = nil; err == nil || !strings.Contains(err.Error(), "queue full"); {
		if _, err = d.Get(short(t), []Key{keyOf(1)}, false); !errors.Is(err, ErrBusy) {
			t.Fatalf("get with a full queue: %v", err)
		}
		if bound.Err() != nil {
			t.Fatalf("the queue does not fill: %v", err)
		}
	}
	if s := d.Stats(short(t)); s.DiskBytes != 0 {
		t.Errorf("stats of a wedged index: %+v", s)
	}
	if err := d.Err(); err != nil {
		t.Errorf("slow is not failed: %v", err)
	}
	g.open()
	if _, ok := lookup(t, d, keyOf(5000)); !ok {
		t.Error("the key is gone")
	}
	wantApplied(t, d, 5000, durableAfterFlush(t, d))
	mustClose(t, d)
}

func durableAfterFlush(t *testing.T, d *DB) uint64 {
	t.Helper()
	if err := d.Flush(testContext(t)); err != nil {
		t.Fatal(err)
	}
	got, err := d.DurableApplied(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestWriteStall: the memtables are full and can not be flushed. Updates end
// with their contexts.
func TestWriteStall(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	var g gate
	mem := vfs.NewMem()
	d := mustCreate(t, vfs.WithHook(mem, g.hook))
	g.close()
	defer g.open()
	busy := false
	for i := 0; i < 100_000 && !busy; i += 100 {
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		err := fill(ctx, d, i, i+100)
		cancel()
		if err != nil && !errors.Is(err, ErrBusy) {
			t.Fatal(err)
		}
		// On a busy machine an update may come late for no other reason.
		busy = err != nil && d.Stalled()
	}
	if !busy {
		t.Fatal("memory without end")
	}
	if !d.Stalled() {
		t.Error("a stall is not told")
	}
	if found, err := d.Get(testContext(t), []Key{keyOf(1)}, false); err != nil || !found[0].OK {
		t.Errorf("get beside a stall: %v, %v", found, err)
	}
	g.open()
	if err := fill(testContext(t), d, 0, 1); err == nil && d.Stalled() {
		t.Error("the stall has not ended")
	}
	mustClose(t, d)
}

// TestCloseWedged: Close gives up with its context, and nobody can use the
// index after that.
func TestCloseWedged(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	var g gate
	mem := vfs.NewMem()
	d := mustCreate(t, vfs.WithHook(mem, g.hook))
	setApplied(t, d, 10)
	g.close()
	defer g.open()
	if err := d.Close(short(t)); !errors.Is(err, ErrBusy) {
		t.Fatalf("close: %v", err)
	}
	if _, err := d.Get(testContext(t), []Key{keyOf(1)}, false); !errors.Is(err, ErrClosed) {
		t.Errorf("get after a close that gave up: %v", err)
	}
	g.open()
	d.pool.wg.Wait() // the abandoned close goes on, and ends
}

// TestOpenWedged: so does Open.
func TestOpenWedged(t *testing.T) {
	var g gate
	mem := vfs.NewMem()
	mustClose(t, mustCreate(t, mem))
	fs := vfs.WithHook(mem, func(op vfs.Op) error {
		if op.Name == "index" && op.Kind == vfs.OpStat {
			return nil // the caller's own look
		}
		return g.hook(op)
	})
	g.close()
	defer g.open()
	if _, err := Open(short(t), testOptions(fs)); !errors.Is(err, ErrBusy) {
		t.Fatalf("open: %v", err)
	}
}

// TestPanicInACall fails the index and not the process.
func TestPanicInACall(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	var told atomic.Int64
	o := testOptions(vfs.NewMem())
	o.OnFail = func(string) { told.Add(1) }
	d, err := Create(testContext(t), o)
	if err != nil {
		t.Fatal(err)
	}
	err = d.Update(testContext(t), map[uint64]int64{}, func(*Batch) error { panic("as Pebble might") })
	if !errors.Is(err, ErrFailed) || !strings.Contains(err.Error(), "as Pebble might") {
		t.Errorf("update: %v", err)
	}
	if _, err := d.Get(testContext(t), nil, false); !errors.Is(err, ErrFailed) || told.Load() != 1 {
		t.Errorf("get: %v, told %d times", err, told.Load())
	}
	if err := d.Close(testContext(t)); !errors.Is(err, ErrFailed) {
		t.Errorf("close: %v", err)
	}
	_ = d.db.Close() // what Close leaves alone
}

// TestCancelledContext: a call whose context has ended takes no effect that
// its caller would not be told of.
func TestCancelledContext(t *testing.T) {
	d := mustCreate(t, vfs.NewMem())
	defer mustClose(t, d)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range 50 {
		if _, err := d.Get(ctx, []Key{keyOf(1)}, false); err != nil && !errors.Is(err, ErrBusy) {
			t.Fatalf("get: %v", err)
		}
	}
	if _, err := d.Get(testContext(t), []Key{keyOf(1)}, false); err != nil {
		t.Fatal(err)
	}
}
