package engine

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sealstone/sealstone/internal/vfs"
)

// waitTurnsBack waits for the turns of calls that had a goroutine of their own:
// it answers first, and then gives its turn back.
func waitTurnsBack(t *testing.T, s *Store) {
	t.Helper()
	for end := time.Now().Add(time.Minute); s.slots.running() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d operations run", s.slots.running())
		}
	}
}

// TestHostFirstGivesTurnsBack: what ends with the caller's own part leaves
// nothing behind, whatever the answers were: more calls than may run at a time
// are answered one after the other, and Close does not wait for them.
func TestHostFirstGivesTurnsBack(t *testing.T) {
	checkLeaks(t)
	s := mustOpen(t, hostOptions(vfs.NewMem()))
	n := mustSpace(t, s)
	const size = 5000
	mustPut(t, n, blockOf(0, 0, size))
	waitTurnsBack(t, s)
	for i := range opsMax + 10 {
		switch i % 4 {
		case 0:
			wantView(t, n, 0, 0, size)
		case 1:
			wantBlock(t, n, 0, 0, size)
		case 2:
			wantStatus(t, n, 1, size, StatusMiss)
		case 3:
			if v := viewOne(n, []byte("short")); v.Status != StatusInvalid {
				t.Fatalf("a hash that is too short: %v", v.Status)
			}
		}
		if running := s.slots.running(); running != 0 {
			t.Fatalf("call %d has ended and %d operations run", i, running)
		}
	}
	mustClose(t, s)
	if v := viewOne(n, hashOf(0)); v.Status != StatusClosed {
		t.Errorf("after close: %v", v.Status)
	}
}

// TestHostFirstLeavesTheRest: of a batch the blocks in memory are answered
// though the device hangs with the others, which end with the context. Those
// that fit on the caller's goroutine and those that do not go alike.
func TestHostFirstLeavesTheRest(t *testing.T) {
	for _, c := range []struct {
		name string
		size int
	}{
		{"on the caller's goroutine", 5000},
		{"too large for it", hostAloneBytes - 1000},
	} {
		t.Run(c.name, func(t *testing.T) {
			checkLeaks(t)
			stall := newStallFS(vfs.NewMem(), vfs.OpRead, "segments/")
			s := mustOpen(t, hostOptions(stall))
			defer mustClose(t, s)
			n := mustSpace(t, s)
			for id := range 3 {
				mustPut(t, n, blockOf(id, 0, c.size))
			}
			mustFlush(t, s)
			forgetInHost(t, n, 1)
			stall.stall(t)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			call := start(t, "the view", func() []View { return n.View(ctx, hashesOf(0, 1, 2), ViewOptions{}) })
			eventually(t, "the read hangs", func() bool { return stall.stalled.Load() > 0 })
			cancel()
			views := call()
			wantShown(t, &views[0], 0, 0, c.size)
			wantNothingLent(t, &views[1], StatusTimeout)
			wantShown(t, &views[2], 2, 0, c.size)
			stall.release()
			wantAllReleased(t, s)
			wantView(t, n, 1, 0, c.size)
		})
	}
}

// forgetInHost drops a block out of the cache in memory alone.
func forgetInHost(t *testing.T, n *Namespace, id int) {
	t.Helper()
	b := hostHolds(t, n, id)
	if b == nil {
		t.Fatalf("block %d is not in memory", id)
	}
	n.s.host.Corrupt(b)
	b.Release()
}

// TestHostFirstContextEnded: a call whose time is over before it begins
// answers Timeout or what it found at once, and never unverified bytes.
func TestHostFirstContextEnded(t *testing.T) {
	checkLeaks(t)
	s := mustOpen(t, hostOptions(vfs.NewMem()))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	const size = 5000
	mustPut(t, n, blockOf(0, 0, size))
	mustFlush(t, s)
	ctx, cancel := context.WithTimeout(context.Background(), -time.Second)
	defer cancel()
	for range 100 {
		got := bytes.Repeat([]byte{0xee}, size)
		b := GetBlock{Hash: hashOf(0), Parts: []Part{{Plane: "k", Spans: [][]byte{got[:size/3]}}, {Plane: "v", Spans: [][]byte{got[size/3:]}}}}
		switch r := n.Get(ctx, []GetBlock{b}, GetOptions{})[0]; {
		case r.Status == StatusOK && bytes.Equal(got, contentOf(0, 0, size)):
		case r.Status == StatusTimeout && errors.Is(r.Err, context.DeadlineExceeded) && bytes.Equal(got, bytes.Repeat([]byte{0xee}, size)):
		default:
			t.Fatalf("%v %v, or bytes that are neither the block's nor the old ones", r.Status, r.Err)
		}
	}
}

// TestHostFirstHoldsNoPanic: a panic in the caller's own part, which a server
// recovers from, keeps neither a turn nor Close.
func TestHostFirstHoldsNoPanic(t *testing.T) {
	o := hostOptions(vfs.NewMem())
	var boom atomic.Bool // background work comes by points too
	o.private.points = func(at string) {
		if boom.Load() && at == "lookup:read" {
			panic("boom")
		}
	}
	s := mustOpen(t, o)
	n := mustSpace(t, s)
	mustPut(t, n, blockOf(0, 0, 5000))
	waitTurnsBack(t, s)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic went elsewhere")
			}
		}()
		boom.Store(true)
		viewOne(n, hashOf(0))
	}()
	boom.Store(false)
	if running := s.slots.running(); running != 0 {
		t.Errorf("%d operations run", running)
	}
	wantView(t, n, 0, 0, 5000)
	mustClose(t, s)
}
