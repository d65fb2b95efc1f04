package gpu

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sealstone/sealstone/internal/faults/faulttest"
)

// hanging is a hook that holds one kind of call until let go.
type hanging struct {
	call   string
	begun  chan struct{} // gets a value for each call that hangs
	letGo  chan struct{}
	hits   func(n int) bool
	faults []*faulttest.Fault
}

func hang(call string, f ...*faulttest.Fault) *hanging {
	return &hanging{call: call, begun: make(chan struct{}, 100), letGo: make(chan struct{}), faults: f,
		hits: func(int) bool { return true }}
}

func (h *hanging) before(call string, n int) error {
	if call != h.call || !h.hits(n) {
		return nil
	}
	for _, f := range h.faults {
		f.Fire()
	}
	h.begun <- struct{}{}
	<-h.letGo
	return errors.New("the call came back too late")
}

// runHung runs f, whose call hangs, and moves the clock until f returns.
func (r *rig) runHung(h *hanging, f func()) {
	r.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-h.begun:
	case <-done:
		r.t.Fatalf("%s was never called", h.call)
	}
	r.advanceUntil(done)
}

// advanceUntil moves the clock until something is done.
func (r *rig) advanceUntil(done <-chan struct{}) {
	r.t.Helper()
	for range 60_000 { // ends a hang of the test only
		r.clock.advance(r.d.o.HangTimeout / 2)
		select {
		case <-done:
			return
		case <-time.After(time.Millisecond):
		}
	}
	r.t.Fatal("the call was never answered")
}

// TestFaultHang hangs each call of a copy: the caller gets its answer, the
// device is lost, and what the call may still use is set aside.
func TestFaultHang(t *testing.T) {
	tally := faulttest.New(t)
	for _, call := range []string{"h2d", "record", "query", "d2d", "alloc"} {
		t.Run(call, func(t *testing.T) {
			f := tally.Try(call + " hangs")
			r := newRig(t, nil)
			bs := r.blocks(2, 5000)
			its := items(bs)
			h := hang(call, f)
			r.g.before = h.before
			r.runHung(h, func() { r.d.CopyIn(context.Background(), its) })
			for i := range bs {
				// Who waits for memory may be answered before the hang is seen.
				waited := call == "alloc" && errors.Is(its[i].Err, ErrExhausted)
				if !waited && !errors.Is(its[i].Err, ErrDeviceLost) || r.state(&bs[i]) != "untouched" {
					t.Errorf("block %d: %v, %s", i, its[i].Err, r.state(&bs[i]))
				}
				bs[i].pin.Free()
			}
			r.advanceUntil(r.d.lostCh)
			r.mustBeLost()
			if st := r.d.Stats(); call != "alloc" && (st.Staging.SetAsideBytes == 0 || st.Pinned.SetAsideBytes == 0) {
				t.Errorf("nothing is set aside: %+v %+v", st.Staging, st.Pinned)
			}
			closed := make(chan struct{})
			go func() {
				defer close(closed)
				if err := r.d.Close(context.Background()); !errors.Is(err, ErrLeaked) {
					t.Errorf("Close: %v", err)
				}
			}()
			r.advanceUntil(closed)
			if r.g.released || len(r.g.memory) < len(r.caller) {
				t.Error("memory that may be in use was given back")
			}
			close(h.letGo) // and whatever comes back now does nothing
			for _, l := range r.d.lanes {
				<-l.ended
			}
			for i := range bs {
				if r.state(&bs[i]) != "untouched" {
					t.Errorf("block %d was written after all: %s", i, r.state(&bs[i]))
				}
			}
			r.g.dropAll()
			f.Survive()
		})
	}
}

// TestFaultNeverDone: copies that are enqueued and never end lose the device.
func TestFaultNeverDone(t *testing.T) {
	tally := faulttest.New(t)
	f := tally.Try("an event that never comes")
	r := newRig(t, nil)
	bs := r.blocks(1, 5000)
	its := items(bs)
	r.g.stuck = true
	asked := make(chan struct{}, 1)
	r.g.before = func(call string, _ int) error {
		if call == "query" {
			f.Fire()
			select {
			case asked <- struct{}{}:
			default:
			}
		}
		return nil
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.d.CopyIn(context.Background(), its)
	}()
	<-asked
	r.advanceUntil(done)
	if !errors.Is(its[0].Err, ErrDeviceLost) {
		t.Errorf("%v, want ErrDeviceLost", its[0].Err)
	}
	bs[0].pin.Free()
	r.mustBeLost()
	r.mustLeak()
	f.Survive()
}

// TestCopyInGivenUp: the end of the context stops what has not reached its
// destination, and what has is whole.
func TestCopyInGivenUp(t *testing.T) {
	for _, call := range []string{"before", "h2d", "query", "d2d"} {
		t.Run(call, func(t *testing.T) {
			r := newRig(t, nil)
			defer r.close()
			bs := r.blocks(2, 5000)
			its := items(bs)
			ctx, cancel := context.WithCancelCause(t.Context())
			why := errors.New("not wanted any more")
			if call == "before" {
				cancel(why)
			}
			r.g.before = func(name string, _ int) error {
				if name == call {
					cancel(why)
				}
				return nil
			}
			r.d.CopyIn(ctx, its)
			for i := range bs {
				got, err := r.state(&bs[i]), its[i].Err
				if call == "d2d" && (err != nil || got != "whole") || call != "d2d" && (!errors.Is(err, why) || got != "untouched") {
					t.Errorf("block %d: %v, %s", i, err, got)
				}
				bs[i].pin.Free()
			}
			cancel(nil)
		})
	}
}

// TestPinnedFreedDuringCopy: the memory gets no other owner before the copy
// that uses it has ended.
func TestPinnedFreedDuringCopy(t *testing.T) {
	r := newRig(t, func(o *Options) { o.PinnedBytesMax, o.PinnedChunkBytes = 64<<10, 64<<10 })
	defer r.close()
	data := random(1, 64<<10)
	pin, dst := r.pin(data), r.span(64<<10)
	its := []CopyIn{{Src: pin.Bytes(), Moves: []Move{{0, dst}}}}
	h := hang("h2d")
	r.g.before = func(call string, n int) error {
		if call == h.call {
			h.begun <- struct{}{}
			<-h.letGo
		}
		return nil
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.d.CopyIn(context.Background(), its)
	}()
	<-h.begun
	pin.Free()
	pin.Free()
	if pin.Bytes() != nil {
		t.Error("bytes after Free")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.d.TakePinned(ctx, 1); !errors.Is(err, ErrExhausted) {
		t.Errorf("another owner got memory that a copy reads: %v", err)
	}
	close(h.letGo)
	<-done
	if its[0].Err != nil || string(r.g.bytes(dst)) != string(data) {
		t.Errorf("%v, or wrong bytes", its[0].Err)
	}
	next, err := r.d.TakePinned(t.Context(), 64<<10)
	if err != nil {
		t.Fatal(err)
	}
	next.Free()
}
