package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
)

// TestSubmitCompletesOnce: every accepted operation has exactly one
// completion, with its results set; a refused one has none.
func TestSubmitCompletesOnce(t *testing.T) {
	checkLeaks(t)
	o := liveOptions(vfs.NewMem())
	o.SubmitQueue = 64
	s := mustOpen(t, o)
	n := mustSpace(t, s)
	const ops, size = 300, 9000
	done := make([]atomic.Int64, 2*ops)
	var wg sync.WaitGroup
	submit := func(i int, op Op, completed func()) {
		for {
			wg.Add(1)
			err := s.Submit(op, func() {
				defer wg.Done()
				done[i].Add(1)
				completed()
			})
			if err == nil {
				return
			}
			wg.Done()
			if !errors.Is(err, ErrShed) {
				t.Errorf("submit %d: %v", i, err)
				return
			}
		}
	}
	for i := range ops {
		put := &PutOp{Namespace: n, Blocks: []PutBlock{blockOf(i, 0, size)}}
		submit(i, put, func() {
			if r := put.Results[0]; r.Status != StatusOK {
				t.Errorf("put %d: %v %v", i, r.Status, r.Err)
			}
		})
	}
	wg.Wait()
	for i := range ops {
		p, b := getParts(i, size)
		get := &GetOp{Namespace: n, Blocks: []GetBlock{b}, Context: context.Background()}
		submit(ops+i, get, func() {
			if r := get.Results[0]; r.Status != StatusOK || variantOf(i, p, 1) != 0 {
				t.Errorf("get %d: %v %v", i, r.Status, r.Err)
			}
		})
	}
	wg.Wait()
	mustClose(t, s)
	for i := range done {
		if c := done[i].Load(); c != 1 {
			t.Errorf("operation %d was completed %d times", i, c)
		}
	}
}

// TestSubmitQueueFull: the bound counts what is not completed, running or
// waiting, and a completion makes room for the next.
func TestSubmitQueueFull(t *testing.T) {
	checkLeaks(t)
	points := &rendezvous{}
	o := testOptions(vfs.NewMem())
	o.SubmitQueue = 2
	o.private.points = points.at
	s := mustOpen(t, o)
	n := mustSpace(t, s)
	mustPut(t, n, blockOf(0, 0, 9000))
	var done atomic.Int64
	get := func() *GetOp {
		_, b := getParts(0, 9000)
		return &GetOp{Namespace: n, Blocks: []GetBlock{b}}
	}
	held := points.arm(t, "read:acquired")
	next := make(chan error, 1)
	if err := s.Submit(get(), func() {
		done.Add(1)
		next <- s.Submit(get(), func() { done.Add(1) }) // from within a completion
	}); err != nil {
		t.Fatal(err)
	}
	held.wait(t)
	// The one that is held counts, the second may run and end at any time.
	second := points.arm(t, "read:acquired")
	if err := s.Submit(get(), func() { done.Add(1) }); err != nil {
		t.Fatal(err)
	}
	second.wait(t)
	if err := s.Submit(get(), func() { t.Error("done of an operation that was refused") }); !errors.Is(err, ErrShed) {
		t.Fatalf("third operation: %v", err)
	}
	held.open()
	if err := <-next; err != nil {
		t.Fatalf("submit from a completion: %v", err)
	}
	second.open()
	mustClose(t, s) // waits for what was accepted
	if c := done.Load(); c != 3 {
		t.Errorf("%d completions of 3 accepted operations", c)
	}
	if err := s.Submit(get(), func() { t.Error("done after close") }); !errors.Is(err, ErrClosed) {
		t.Errorf("submit after close: %v", err)
	}
}

// TestCloseWithQueue: operations accepted before Close get their completion,
// done or Closed.
func TestCloseWithQueue(t *testing.T) {
	checkLeaks(t)
	points := &rendezvous{}
	o := testOptions(vfs.NewMem())
	o.private.points = points.at
	s := mustOpen(t, o)
	n := mustSpace(t, s)
	mustPut(t, n, blockOf(0, 0, 9000))
	held := points.arm(t, "read:acquired")
	const ops = submitWorkers + 20
	var done atomic.Int64
	all := make([]*GetOp, ops)
	for i := range all {
		_, b := getParts(0, 9000)
		all[i] = &GetOp{Namespace: n, Blocks: []GetBlock{b}}
		if err := s.Submit(all[i], func() { done.Add(1) }); err != nil {
			t.Fatal(err)
		}
	}
	held.wait(t)
	if err := closeSoon(s); !errors.Is(err, ErrClosing) {
		t.Fatalf("close: %v", err)
	}
	held.open()
	mustClose(t, s)
	if c := done.Load(); c != ops {
		t.Errorf("%d completions of %d operations", c, ops)
	}
	for i, op := range all {
		if st := op.Results[0].Status; st != StatusOK && st != StatusClosed {
			t.Errorf("operation %d: %v", i, st)
		}
	}
}

// TestSubmitInvalid: an operation that can not be run is refused at once.
func TestSubmitInvalid(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	var none *GetOp
	for name, err := range map[string]error{
		"no operation":    s.Submit(nil, func() {}),
		"a nil operation": s.Submit(none, func() {}),
		"no namespace":    s.Submit(&PutOp{}, func() {}),
		"no done":         s.Submit(&GetOp{Namespace: n}, nil),
	} {
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, want %v", name, err, ErrInvalid)
		}
	}
}
