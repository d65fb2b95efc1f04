package engine

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/sealstone/sealstone/internal/vfs"
)

// soon is a deadline for calls that are expected to run into it.
const soon = 20 * time.Millisecond

func withSoon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	t.Cleanup(cancel)
	return ctx
}

// stalledStore is a store with 8 blocks on a device that can be stalled.
func stalledStore(t *testing.T, kind vfs.OpKind, prefix string) (*Store, *Namespace, *stallFS, *vfs.Mem) {
	t.Helper()
	mem := vfs.NewMem()
	fs := newStallFS(mem, kind, prefix)
	o := liveOptions(fs)
	s := mustOpen(t, o)
	n := mustSpace(t, s)
	for id := range 8 {
		mustPut(t, n, blockOf(id, 0, raceSize))
	}
	mustFlush(t, s)
	return s, n, fs, mem
}

// TestStalledRead is law 2 with a device that does not answer: a get is
// Timeout by its deadline, its memory is never written to afterwards, not even
// when the device answers at last; and then the same blocks are hits.
func TestStalledRead(t *testing.T) {
	checkLeaks(t)
	s, n, fs, mem := stalledStore(t, vfs.OpRead, "segments/")
	fs.stall(t)
	const gets = 100
	dst := make([][]byte, gets)
	before := runtime.NumGoroutine()
	var wg sync.WaitGroup
	for i := range gets {
		p, b := getParts(i%8, raceSize)
		dst[i] = p
		ctx := withSoon(t)
		wg.Go(func() {
			if r := n.Get(ctx, []GetBlock{b}, GetOptions{})[0]; r.Status != StatusTimeout || r.Err == nil {
				t.Errorf("get %d: %v %v", i, r.Status, r.Err)
			}
			for j := range p { // ours again: the race detector sees a late writer
				p[j] = 0xa5
			}
		})
	}
	wg.Wait()
	if s.o.ReadWorkers == 0 || fs.seen.Load() == 0 {
		t.Fatal("no read was stalled")
	}
	if now, most := runtime.NumGoroutine(), before+4*gets+s.o.ReadWorkers; now > most {
		t.Errorf("%d goroutines, %d before", now, before)
	}
	// What needs no segment is answered all the same.
	if st := n.Has(context.Background(), [][]byte{hashOf(0), hashOf(99)}); st[0] != StatusOK || st[1] != StatusMiss {
		t.Errorf("has: %v", st)
	}
	mustPut(t, n, blockOf(100, 0, raceSize))

	ctx := withSoon(t)
	if err := s.Close(ctx); !errors.Is(err, ErrClosing) {
		t.Fatalf("close on a stalled device: %v", err)
	}
	wantLocked(t, mem)
	fs.release()
	mustClose(t, s)
	for i, p := range dst {
		if !untouched(p) {
			t.Fatalf("the destination of get %d was written after its Timeout", i)
		}
	}
	s = mustOpen(t, testOptions(mem))
	defer mustClose(t, s)
	wantBlock(t, mustSpace(t, s), 0, 0, raceSize)
	wantBlock(t, mustSpace(t, s), 100, 0, raceSize)
}

// TestStalledReadRecovers: the blocks are hits again in the same store, and
// no buffer is lost.
func TestStalledReadRecovers(t *testing.T) {
	s, n, fs, _ := stalledStore(t, vfs.OpRead, "segments/")
	defer mustClose(t, s)
	fs.stall(t)
	for id := range 4 {
		p, b := getParts(id, raceSize)
		if r := n.Get(withSoon(t), []GetBlock{b}, GetOptions{})[0]; r.Status != StatusTimeout || !untouched(p) {
			t.Fatalf("get %d: %v %v", id, r.Status, r.Err)
		}
	}
	if st := s.Stats(); st.InflightBytes == 0 {
		t.Error("the memory of reads in the kernel was given back")
	}
	fs.release()
	for id := range 4 {
		wantBlock(t, n, id, 0, raceSize)
	}
	wantNoBuffers(t, s)
	if st := s.Stats(); st.GetStatus[StatusTimeout] != 4 || st.GetStatus[StatusOK] != 4 || st.Quarantined != 0 {
		t.Errorf("stats: %v, %d quarantined", st.GetStatus, st.Quarantined)
	}
}

// TestBatchTimesOutByBlock: of one batch some blocks can be answered and some
// can not; each has its own status.
func TestBatchTimesOutByBlock(t *testing.T) {
	s, n, fs, _ := stalledStore(t, vfs.OpRead, "segments/")
	defer mustClose(t, s)
	fs.stall(t)
	p, b := getParts(0, raceSize)
	q, absent := getParts(99, raceSize)
	r := n.Get(withSoon(t), []GetBlock{b, absent}, GetOptions{})
	if r[0].Status != StatusTimeout || r[1].Status != StatusMiss || !untouched(p) || !untouched(q) {
		t.Errorf("statuses %v %v", r[0].Status, r[1].Status)
	}
	fs.release()
}

// TestStalledWrite: a put on a device that does not answer is Timeout by its
// deadline; later it is wholly visible or not at all, and its memory is not
// read any more.
func TestStalledWrite(t *testing.T) {
	for _, where := range []string{"segments/", "wal/"} {
		t.Run(where, func(t *testing.T) {
			checkLeaks(t)
			s, n, fs, mem := stalledStore(t, vfs.OpWrite, where)
			fs.stall(t)
			b := blockOf(50, 0, raceSize)
			if r := n.Put(withSoon(t), []PutBlock{b}, PutOptions{})[0]; r.Status != StatusTimeout || r.Err == nil {
				t.Fatalf("put: %v %v", r.Status, r.Err)
			}
			if fs.seen.Load() == 0 {
				t.Fatal("no write was stalled")
			}
			for _, pl := range b.Planes {
				for _, sp := range pl.Spans {
					clear(sp)
				}
			}
			// Another put of the key, and questions about it, can leave too.
			if r := n.Put(withSoon(t), []PutBlock{blockOf(50, 1, raceSize)}, PutOptions{})[0]; r.Status != StatusTimeout {
				t.Errorf("second put: %v %v", r.Status, r.Err)
			}
			if st := n.Has(withSoon(t), [][]byte{hashOf(50)})[0]; st == StatusOK {
				t.Error("has: the block is visible before its put was logged")
			}
			if l, err := n.Match(withSoon(t), [][]byte{hashOf(50)}); err == nil && l.Blocks() != 0 {
				t.Error("match: the block is visible before its put was logged")
			}
			ctx := withSoon(t)
			if err := s.Close(ctx); !errors.Is(err, ErrClosing) {
				t.Fatalf("close on a stalled device: %v", err)
			}
			fs.release()
			mustClose(t, s)
			s = mustOpen(t, testOptions(mem))
			defer mustClose(t, s)
			p, r := getBlock(t, mustSpace(t, s), 50, raceSize)
			if v := variantOf(50, p, 2); r.Status == StatusOK && v < 0 {
				t.Fatal("WRONG BYTES with status OK")
			} else if r.Status != StatusOK && r.Status != StatusMiss {
				t.Fatalf("get: %v %v", r.Status, r.Err)
			}
		})
	}
}

// TestCloseOnStalledSync: a Close that ran into its context while a sync hung
// can be called again, and then all is durable and nothing was an error.
func TestCloseOnStalledSync(t *testing.T) {
	checkLeaks(t)
	s, n, fs, mem := stalledStore(t, vfs.OpSync, "segments/")
	fs.stall(t)
	mustPut(t, n, blockOf(60, 0, raceSize))
	for range 2 {
		if err := s.Close(withSoon(t)); !errors.Is(err, ErrClosing) {
			t.Fatalf("close on a stalled sync: %v", err)
		}
		wantLocked(t, mem)
	}
	fs.release()
	mustClose(t, s)
	s = mustOpen(t, testOptions(mem))
	defer mustClose(t, s)
	wantBlock(t, mustSpace(t, s), 60, 0, raceSize)
}

// TestStalledSync: a durable put waits for its sync only as long as its
// context lasts, and is there.
func TestStalledSync(t *testing.T) {
	s, n, fs, _ := stalledStore(t, vfs.OpSync, "segments/")
	defer mustClose(t, s)
	fs.stall(t)
	r := n.Put(withSoon(t), []PutBlock{blockOf(50, 0, raceSize)}, PutOptions{Durable: true})[0]
	if r.Status != StatusTimeout {
		t.Fatalf("put: %v %v", r.Status, r.Err)
	}
	wantBlock(t, n, 50, 0, raceSize) // written, if not durable
	if r := n.Drop(withSoon(t), [][]byte{hashOf(0)})[0]; r.Status != StatusTimeout {
		t.Errorf("drop: %v %v", r.Status, r.Err)
	}
	if err := s.Flush(withSoon(t)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("flush: %v", err)
	}
	fs.release()
	mustFlush(t, s)
	if r := n.Put(context.Background(), []PutBlock{blockOf(51, 0, raceSize)}, PutOptions{Durable: true})[0]; r.Status != StatusOK || !r.Durable {
		t.Errorf("put after the stall: %+v", r)
	}
}

// TestStalledIndex: the device of the index does not answer. Nothing hangs,
// and Close gives up by its context.
func TestStalledIndex(t *testing.T) {
	mem := vfs.NewMem()
	fs := newStallFS(mem, vfs.OpWrite, indexDir+"/")
	o := liveOptions(fs)
	o.CallTimeout = 200 * time.Millisecond
	s := mustOpen(t, o)
	n := mustSpace(t, s)
	fs.stall(t)
	for id := range 200 { // some of them may be shed
		if r := putOne(n, blockOf(id, 0, 20000)); r.Status == statusNone {
			t.Fatal("no status")
		}
	}
	_ = s.Flush(withSoon(t))
	p, b := getParts(199, 20000)
	if r := n.Get(withSoon(t), []GetBlock{b}, GetOptions{})[0]; r.Status == StatusOK && variantOf(199, p, 1) != 0 {
		t.Fatal("WRONG BYTES with status OK")
	}
	s.Stats()
	fs.release()
	if err := s.Close(context.Background()); err != nil && !errors.Is(err, ErrIndexFailed) && s.Health().State == HealthOK {
		t.Errorf("close: %v", err)
	}
}

// TestCallTimeoutBounds: without a deadline of its own a call has the default
// one.
func TestCallTimeoutBounds(t *testing.T) {
	fs := newStallFS(vfs.NewMem(), vfs.OpRead, "segments/")
	o := liveOptions(fs)
	s := mustOpen(t, o)
	n := mustSpace(t, s)
	mustPut(t, n, blockOf(0, 0, raceSize))
	mustClose(t, s)
	o.CallTimeout = soon
	s = mustOpen(t, o)
	n = mustSpace(t, s)
	fs.stall(t)
	wantStatus(t, n, 0, raceSize, StatusTimeout)
	fs.release()
	s.o.CallTimeout = hangTimeout
	wantBlock(t, n, 0, 0, raceSize)
	mustClose(t, s)
}

// TestManyStalledOperations: past the bound of operations under way further
// ones wait for their turn only as long as their context lasts.
func TestManyStalledOperations(t *testing.T) {
	checkLeaks(t)
	s, n, fs, _ := stalledStore(t, vfs.OpRead, "segments/")
	fs.stall(t)
	var wg sync.WaitGroup
	for i := range opsMax + 50 {
		_, b := getParts(i%8, raceSize)
		ctx := withSoon(t)
		wg.Go(func() {
			if r := n.Get(ctx, []GetBlock{b}, GetOptions{})[0]; r.Status != StatusTimeout && r.Status != StatusMiss {
				t.Errorf("get %d: %v %v", i, r.Status, r.Err)
			}
		})
	}
	wg.Wait()
	if running := s.slots.running(); running > opsMax {
		t.Errorf("%d operations run", running)
	}
	if st := fs.stalled.Load(); st > int64(s.o.ReadWorkers) {
		t.Errorf("%d reads in the kernel, ReadWorkers is %d", st, s.o.ReadWorkers)
	}
	fs.release()
	eventually(t, "all operations have ended", func() bool { return s.slots.running() == 0 })
	wantBlock(t, n, 1, 0, raceSize)
	wantNoBuffers(t, s)
	mustClose(t, s)
}
