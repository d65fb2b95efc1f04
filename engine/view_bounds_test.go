package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sealstone/sealstone/internal/vfs"
	"pgregory.net/rapid"
)

// tightView is a store whose views may hold few blocks: 256 KiB, of blocks
// of 64 KiB at most.
func tightView(t *testing.T, fs vfs.FS) (*Store, *Namespace) {
	t.Helper()
	o := testOptions(fs)
	o.MaxInflightBytes = 512 * kib
	s := mustOpen(t, o)
	if s.lent.maxBytes != 256*kib {
		t.Fatalf("views may hold %d bytes", s.lent.maxBytes)
	}
	n := mustSpace(t, s)
	for id := range 12 {
		mustPut(t, n, blockOf(id, 0, tightSize))
	}
	return s, n
}

// tightSize takes 64 KiB on disk with its header, and its planes' padding.
const tightSize = 56_000

// TestViewShare: a call lends what fits, in the order of the caller, and
// says of the rest that it is a bound that is in the way. Puts and gets find
// memory all the while.
func TestViewShare(t *testing.T) {
	s, n := tightView(t, vfs.NewMem())
	defer mustClose(t, s)
	ids := []int{11, 3, 0, 7, 2, 9, 5}
	views := n.View(context.Background(), hashesOf(ids...), ViewOptions{})
	lent := 0
	for i := range views {
		if views[i].Status == StatusOK {
			if lent++; lent != i+1 {
				t.Fatalf("block %d of the call is lent, and one before it is not", i)
			}
			continue
		}
		wantNothingLent(t, &views[i], StatusMiss)
		if !errors.Is(views[i].Err, ErrShed) || !errors.Is(views[i].Err, ErrMiss) {
			t.Errorf("block %d: %v", i, views[i].Err)
		}
	}
	if lent != 4 {
		t.Fatalf("%d blocks lent", lent)
	}
	if st := s.Stats(); st.LentBytes > st.LentBytesMax || st.LentBytesMax != 256*kib || st.LentBytes > st.InflightBytes {
		t.Errorf("%d bytes lent of %d, %d in flight", st.LentBytes, st.LentBytesMax, st.InflightBytes)
	}
	mustPut(t, n, blockOf(100, 0, tightSize))
	wantBlock(t, n, 100, 0, tightSize)
	for i := range views[:lent] {
		wantShown(t, &views[i], ids[i], 0, tightSize)
	}
	views = n.View(context.Background(), hashesOf(ids[lent:]...), ViewOptions{})
	for i := range views {
		wantShown(t, &views[i], ids[lent+i], 0, tightSize)
	}
	wantAllReleased(t, s)
}

// TestViewWaitsForRelease: a call that finds the share held goes on when it is
// released, and times out when it is not; then nothing is lent.
func TestViewWaitsForRelease(t *testing.T) {
	checkLeaks(t)
	s, n := tightView(t, vfs.NewMem())
	defer mustClose(t, s)
	first := n.View(context.Background(), hashesOf(0, 1, 2, 3), ViewOptions{})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	late := n.View(ctx, hashesOf(4, 5), ViewOptions{})
	for i := range late {
		wantNothingLent(t, &late[i], StatusTimeout)
	}
	second := start(t, "the second call", func() []View { return n.View(context.Background(), hashesOf(4, 5), ViewOptions{}) })
	for i := range first {
		wantShown(t, &first[i], i, 0, tightSize)
	}
	for i, v := range second() {
		wantShown(t, &v, 4+i, 0, tightSize)
	}
	wantAllReleased(t, s)
}

// TestViewOutlivesItsContext: the end of the context takes nothing back.
func TestViewOutlivesItsContext(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	mustPut(t, n, blockOf(0, 0, 9000))
	ctx, cancel := context.WithCancel(context.Background())
	v := n.View(ctx, hashesOf(0), ViewOptions{})[0]
	cancel()
	wantShown(t, &v, 0, 0, 9000)
	v = n.View(ctx, hashesOf(0), ViewOptions{})[0]
	if v.Status == StatusOK { // it was there before the call looked at its context
		wantShown(t, &v, 0, 0, 9000)
	} else {
		wantNothingLent(t, &v, StatusTimeout)
	}
	wantAllReleased(t, s)
}

// TestViewLeftAtVerified: the caller leaves at the last moment before its
// block is lent. It has its answer, and the memory goes back.
func TestViewLeftAtVerified(t *testing.T) {
	checkLeaks(t)
	points := &rendezvous{}
	o := testOptions(vfs.NewMem())
	o.private.points = points.at
	s := mustOpen(t, o)
	defer mustClose(t, s)
	n := mustSpace(t, s)
	mustPut(t, n, blockOf(0, 0, 9000))
	held := points.arm(t, "get:verified")
	ctx, cancel := context.WithCancel(context.Background())
	view := start(t, "the view", func() View { return n.View(ctx, hashesOf(0), ViewOptions{})[0] })
	held.wait(t)
	cancel()
	v := view()
	wantNothingLent(t, &v, StatusTimeout)
	held.open()
	wantAllReleased(t, s)
}

// TestViewStalledDevice: a read that hangs keeps its memory, and the caller
// leaves; both are whole when the device answers.
func TestViewStalledDevice(t *testing.T) {
	checkLeaks(t)
	stall := newStallFS(vfs.NewMem(), vfs.OpRead, "segments/")
	s := mustOpen(t, testOptions(stall))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	mustPut(t, n, blockOf(0, 0, 9000))
	mustFlush(t, s)
	stall.stall(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	view := start(t, "the view", func() View { return n.View(ctx, hashesOf(0), ViewOptions{})[0] })
	eventually(t, "the read hangs", func() bool { return stall.stalled.Load() > 0 })
	cancel()
	v := view()
	wantNothingLent(t, &v, StatusTimeout)
	if s.Stats().LentBytes == 0 {
		t.Error("the memory of a read that hangs is counted as free")
	}
	stall.release()
	wantAllReleased(t, s)
	v = viewOne(n, hashOf(0))
	wantShown(t, &v, 0, 0, 9000)
}

// TestCloseWaitsForViews: Close answers ErrClosing while a view is held, whose
// bytes stay what they were, and ends once it is released.
func TestCloseWaitsForViews(t *testing.T) {
	checkLeaks(t)
	s := mustOpen(t, testOptions(vfs.NewMem()))
	n := mustSpace(t, s)
	mustPut(t, n, blockOf(0, 0, 9000))
	mustPut(t, n, blockOf(1, 0, 9000))
	views := n.View(context.Background(), hashesOf(0, 1), ViewOptions{})
	for range 2 {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		err := s.Close(ctx)
		cancel()
		if !errors.Is(err, ErrClosing) || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("close: %v", err)
		}
		v := viewOne(n, hashOf(0))
		wantNothingLent(t, &v, StatusClosed)
	}
	wantShown(t, &views[0], 0, 0, 9000)
	closed := start(t, "the close", func() error { return s.Close(context.Background()) })
	wantShown(t, &views[1], 1, 0, 9000)
	if err := closed(); err != nil {
		t.Fatal(err)
	}
	views[1].Release() // after Close too it is nothing
}

// TestViewHoldsNoSegment: an eviction takes the segment of a block that is
// lent, and its file goes; the view stays as it is.
func TestViewHoldsNoSegment(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, testOptions(mem))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	mustPut(t, n, blockOf(0, 0, 9000))
	fillSegment(t, s, n, 10)
	mustFlush(t, s)
	v := viewOne(n, hashOf(0))
	s.used = usedBlocks{}
	mustEvict(t, s)
	if n := s.vol.LeavingBytes(); n != 0 {
		t.Errorf("%d bytes of unlinked segments are held open", n)
	}
	wantStatus(t, n, 0, 9000, StatusMiss)
	wantShown(t, &v, 0, 0, 9000)
	wantAllReleased(t, s)
}

// TestLendingModel holds the account of a call to a model of it: what is
// reserved, lent, given back during and after the call, and read a second time
// adds up, and never passes the gate's bound.
func TestLendingModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.Int64Range(1, 100).Draw(rt, "limit")
		gate := newByteGate(limit)
		others := rapid.Int64Range(0, limit).Draw(rt, "others")
		if _, err := gate.enter(context.Background(), others); err != nil {
			rt.Fatal(err)
		}
		l := newLending(gate, nil)
		reserved := rapid.Int64Range(0, limit-others).Draw(rt, "reserved")
		if _, err := gate.enter(context.Background(), reserved); err != nil {
			rt.Fatal(err)
		}
		l.left = reserved
		var loans []int64
		taken := reserved // by this call, from the gate
		ended := false
		for range rapid.IntRange(0, 20).Draw(rt, "steps") {
			switch step := rapid.IntRange(0, 5).Draw(rt, "step"); {
			case step < 3 && !ended:
				n := rapid.Int64Range(1, limit).Draw(rt, "bytes")
				sum := int64(0)
				for _, x := range loans {
					sum += x
				}
				need := max(n-(taken-sum), 0)
				if got, want := l.take(n), need <= limit-others-taken; got != want {
					rt.Fatalf("take %d: %v, want %v", n, got, want)
				} else if got {
					loans, taken = append(loans, n), taken+need
				}
			case step < 5 && len(loans) > 0:
				i := rapid.IntRange(0, len(loans)-1).Draw(rt, "loan")
				l.giveBack(loans[i])
				if ended {
					taken -= loans[i]
				}
				loans = append(loans[:i], loans[i+1:]...)
			case !ended:
				l.end()
				ended, taken = true, 0
				for _, x := range loans {
					taken += x
				}
			}
			if got := gate.heldBytes.Load(); got != others+taken || got > limit {
				rt.Fatalf("the gate holds %d of %d, want %d", got, limit, others+taken)
			}
		}
	})
}
