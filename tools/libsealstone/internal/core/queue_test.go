package core

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sealstone/sealstone/engine"
)

// stall blocks every call until it is opened or the call's time is over, as a
// device does that hangs below a store that keeps its deadlines.
type stall struct{ gate chan struct{} }

func newStall() *stall { return &stall{make(chan struct{})} }

func (s *stall) do(ctx context.Context, _ Op) engine.Status {
	select {
	case <-s.gate:
		return engine.StatusOK
	case <-ctx.Done():
		return engine.StatusTimeout
	}
}

func (s *stall) open() { close(s.gate) }

// TestQueueCompletesOnce: every job that was accepted completes exactly once,
// whatever the mix of operations, sizes and drains, and in the end nothing is
// held.
func TestQueueCompletesOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := newFake(t, nil, func(o *options) {
			o.queueOperations = rapid.IntRange(1, 20).Draw(rt, "limit")
			o.workers = rapid.IntRange(1, 6).Draw(rt, "workers")
		})
		submitted, seen := map[uint64]int{}, map[uint64]int{}
		collect := func(most, room int) int {
			taken, needed, e := f.Drain(f.store, most, room)
			if e != nil {
				rt.Fatal(e)
			}
			for _, c := range taken {
				if seen[c.ID]++; len(c.Results) != submitted[c.ID] || c.Status != OK || int(c.OKs) != submitted[c.ID] {
					rt.Fatalf("completion %+v of %d items", c, submitted[c.ID])
				}
				room -= len(c.Results)
			}
			if room < 0 || len(taken) > most || (len(taken) > 0) && needed != 0 {
				rt.Fatalf("%d taken, room %d, needed %d", len(taken), room, needed)
			}
			return len(taken)
		}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			op := Op(rapid.IntRange(1, 5).Draw(rt, "op"))
			n := rapid.IntRange(0, 5).Draw(rt, "items")
			id, e := f.Submit(f.store, f.ns, &Job{Op: op, Items: itemsOf(n)})
			switch {
			case e == nil:
				submitted[id] = n
			case e.Status != Shed:
				rt.Fatal(e)
			}
			if rapid.Bool().Draw(rt, "drain") {
				collect(rapid.IntRange(1, 4).Draw(rt, "most"), rapid.IntRange(0, 8).Draw(rt, "room"))
			}
		}
		if e := f.WaitIdle(f.store, time.Minute); e != nil {
			rt.Fatal(e)
		}
		for collect(3, 5) > 0 {
		}
		for id := range submitted {
			if seen[id] != 1 {
				rt.Fatalf("operation %d: %d completions", id, seen[id])
			}
		}
		if st := f.queue().stats(); len(seen) != len(submitted) || st.Open != 0 || st.Bytes != 0 || st.Undrained != 0 || st.Running != 0 {
			rt.Fatalf("%d of %d seen, %+v", len(seen), len(submitted), st)
		}
		f.close()
	})
}

// TestQueueShedsByBothBounds: over either bound a submit is refused, counted,
// and leaves nothing; what is drained makes room.
func TestQueueShedsByBothBounds(t *testing.T) {
	hold := newStall()
	f := newFake(t, hold.do, func(o *options) { o.queueOperations, o.queueBytes = 3, 1<<20 })
	big := &Job{Op: OpPut, Items: []Item{{Hash: make([]byte, 16), Parts: []Part{{Spans: []Span{spanOf(make([]byte, 2<<20))}}}}}}
	if _, e := f.Submit(f.store, f.ns, big); e != nil {
		t.Errorf("alone, an operation may be larger than the bound: %v", e)
	}
	if _, e := f.Submit(f.store, f.ns, &Job{Op: OpExists, Items: itemsOf(1)}); e == nil || e.Status != Shed {
		t.Errorf("over the bytes: %v", e)
	}
	hold.open()
	f.all(1)
	f.sp.do = nil
	for range 3 {
		f.submit(OpExists, 1)
	}
	if e := f.WaitIdle(f.store, time.Minute); e != nil {
		t.Fatal(e)
	}
	if _, e := f.Submit(f.store, f.ns, &Job{Op: OpExists}); e == nil || e.Status != Shed {
		t.Errorf("completed and not drained still counts: %v", e)
	}
	if st := f.queue().stats(); st.Shed != 2 || st.Submitted != 4 || st.Open != 3 {
		t.Errorf("%+v", st)
	}
	f.all(1)
	f.submit(OpExists, 1)
	f.all(3)
	f.close()
}

// TestStalledStoreStaysFlat is law 4: a device hangs, the host goes on to
// submit, more than it drains. Memory, threads and
// goroutines stay what they were, no submit blocks, and each accepted one
// completes by its deadline.
func TestStalledStoreStaysFlat(t *testing.T) {
	hold := newStall()
	f := newFake(t, hold.do, func(o *options) { o.queueOperations, o.workers = 256, 8 })
	submits := 300_000
	if os.Getenv("SEALSTONE_FULL") == "1" {
		submits = 1_000_000 // as the C test does
	}
	accepted := 0
	fill := func(n int) {
		for i := range n {
			_, e := f.Submit(f.store, f.ns, &Job{Op: Op(1 + i%5), Items: itemsOf(2), Timeout: time.Millisecond})
			switch {
			case e == nil:
				accepted++
			case e.Status != Shed:
				t.Fatal(e)
			}
			if i%97 == 0 {
				taken, _, _ := f.Drain(f.store, 64, 1<<20)
				accepted -= len(taken)
			}
		}
	}
	figures := func() (int, uint64) {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return runtime.NumGoroutine(), m.HeapInuse
	}
	fill(20_000)
	goroutines, heap := figures()
	fill(submits)
	if g, h := figures(); g > goroutines+300 || h > heap+(16<<20) {
		t.Errorf("%d goroutines and %d bytes, were %d and %d", g, h, goroutines, heap)
	}
	for _, c := range f.all(accepted) {
		for _, r := range c.Results {
			if r.Status != Timeout {
				t.Fatalf("operation %d: %v", c.ID, r.Status)
			}
		}
	}
	if st := f.queue().stats(); st.Shed == 0 || st.Expired == 0 || st.Open != 0 {
		t.Errorf("%+v", st)
	}
	hold.open()
	f.close()
}

// TestReadsThatHangHoldUpNoLookup: no class of operations has all workers.
func TestReadsThatHangHoldUpNoLookup(t *testing.T) {
	hold := newStall()
	f := newFake(t, func(ctx context.Context, op Op) engine.Status {
		if op == OpGet {
			return hold.do(ctx, op)
		}
		return engine.StatusOK
	})
	for range 10 {
		f.submit(OpGet, 1)
	}
	exists, put := f.submit(OpExists, 1), f.submit(OpPut, 1)
	got := f.all(2)
	ids := []uint64{got[0].ID, got[1].ID}
	slices.Sort(ids)
	if !slices.Equal(ids, []uint64{exists, put}) {
		t.Errorf("%v came first, want %d and %d", ids, exists, put)
	}
	hold.open()
	f.all(10)
	f.close()
}

// TestWorkersAreBounded, also with one alone, which must starve no class.
func TestWorkersAreBounded(t *testing.T) {
	for _, workers := range []int{1, 3} {
		var mu sync.Mutex
		f := newFake(t, func(context.Context, Op) engine.Status {
			mu.Lock()
			defer mu.Unlock()
			return engine.StatusOK
		}, func(o *options) { o.workers = workers; o.queueOperations = 100 })
		for i := range 60 {
			f.submit(Op(1+i%5), 1)
		}
		f.all(60)
		if f.sp.most > workers {
			t.Errorf("%d at a time, want at most %d", f.sp.most, workers)
		}
		for op := OpPut; op <= OpDrop; op++ {
			if f.sp.calls[op] != 12 {
				t.Errorf("operation %d: %d calls, want 12", op, f.sp.calls[op])
			}
		}
		f.close()
	}
}

// TestPanicIsOneJobsEnd: a bug below answers Internal for that operation, is
// kept in health, and the others go on.
func TestPanicIsOneJobsEnd(t *testing.T) {
	f := newFake(t, func(_ context.Context, op Op) engine.Status {
		if op == OpTouch {
			panic("on purpose")
		}
		return engine.StatusOK
	})
	bad, good := f.submit(OpTouch, 2), f.submit(OpGet, 1)
	for _, c := range f.all(2) {
		want := map[uint64]Status{bad: Internal, good: OK}[c.ID]
		if c.Status != want {
			t.Errorf("operation %d: %v, want %v", c.ID, c.Status, want)
		}
	}
	text, e := f.Reason(f.store, bad, 1)
	_, health, _ := f.Health(f.store)
	if e != nil || !contains(text, "on purpose") || !contains(string(health), "on purpose") {
		t.Errorf("reason %q %v, health %s", text, e, health)
	}
	f.close()
}

// TestReasons: kept for the latest that were drained, within bounds.
func TestReasons(t *testing.T) {
	var r reasonRing
	for i := range reasonsKept + 10 {
		r.add(reason{uint64(i), 7, fmt.Sprintf("%0600d", i)})
	}
	if len(r.ring) != reasonsKept {
		t.Errorf("%d kept", len(r.ring))
	}
	for op, want := range map[uint64]bool{0: false, 9: false, 10: true, reasonsKept + 9: true} {
		if text, ok := r.find(op, 7); ok != want || len(text) > reasonTextMax {
			t.Errorf("operation %d: kept %v, %d bytes", op, ok, len(text))
		}
	}
	if _, ok := r.find(20, 6); ok {
		t.Error("another item's reason")
	}
}

// TestDrainWithoutRoom: completions are taken whole, and the first that does
// not fit says what it needs.
func TestDrainWithoutRoom(t *testing.T) {
	f := newFake(t, nil)
	for _, n := range []int{2, 5, 0} {
		f.submit(OpExists, n)
		if e := f.WaitIdle(f.store, time.Minute); e != nil {
			t.Fatal(e)
		}
	}
	for _, step := range []struct{ most, room, taken, needed int }{
		{9, 1, 0, 2}, {9, 3, 1, 0}, {9, 4, 0, 5}, {1, 5, 1, 0}, {1, 0, 1, 0}, {9, 9, 0, 0},
	} {
		taken, needed, e := f.Drain(f.store, step.most, step.room)
		if e != nil || len(taken) != step.taken || needed != step.needed {
			t.Errorf("%+v: %d taken, needed %d, %v", step, len(taken), needed, e)
		}
	}
	f.close()
}
