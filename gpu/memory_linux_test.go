package gpu

import (
	"errors"
	"testing"

	"github.com/sealstone/sealstone/gpu/driver"
	"github.com/sealstone/sealstone/gpu/gputest"
	"github.com/sealstone/sealstone/internal/faults/faulttest"
)

// TestFaultMemoryLimits: where the driver gives less memory than is asked for,
// smaller pieces do the same work.
func TestFaultMemoryLimits(t *testing.T) {
	tally := faulttest.New(t)
	for _, c := range []struct {
		call string
		kb   int
		used func(Stats) PoolStats
	}{
		{"cuMemHostRegister_v2", 4<<10 + 1500, func(s Stats) PoolStats { return s.Pinned }},
		{"cuFileBufRegister", 600, func(s Stats) PoolStats { return s.Landing }},
		{"cuMemAlloc_v2", 9 << 10, func(s Stats) PoolStats { return s.Staging }},
	} {
		t.Run(c.call, func(t *testing.T) {
			f := tally.Try("little of " + c.call)
			b := newBench(t, nil)
			x := b.reads(4, false)
			in := &hostBatch{b: b}
			if c.call != "cuMemHostRegister_v2" {
				in = b.copies(4, 70_000)
			}
			b.x.Set(c.call, gputest.Fault{Kind: gputest.Limit, Code: c.kb << 10})
			if c.call == "cuMemHostRegister_v2" {
				// The ring and the lanes have the limit together.
				in = b.copies(4, 70_000)
				big, err := b.d.TakePinned(t.Context(), 3<<20)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := b.d.TakePinned(canceledContext(), 4<<20); !errors.Is(err, ErrExhausted) {
					t.Errorf("more than the limit: %v", err)
				}
				big.Free()
			}
			x.run(b.allow())
			in.run()
			if b.x.Fired(c.call) > 0 {
				f.Fire()
			}
			if x.exact()+in.exact() != 0 {
				t.Errorf("%d and %d failed: %v", x.exact(), in.exact(), x.items[0].Err)
			}
			if st := c.used(b.d.Stats()); st.HeldBytes > int64(c.kb)<<10 || st.HeldBytes == 0 {
				t.Errorf("%+v", st)
			}
			b.close()
			f.Survive()
		})
	}
}

// TestFaultNoMemory: where the driver gives nothing, the answer is ErrExhausted
// with its code, the caller's memory is untouched and the device goes on once
// there is some.
func TestFaultNoMemory(t *testing.T) {
	tally := faulttest.New(t)
	for _, call := range []string{"cuMemAlloc_v2", "cuMemHostRegister_v2", "cuFileBufRegister", "cuPointerSetAttribute"} {
		t.Run(call, func(t *testing.T) {
			f := tally.Try("nothing of " + call)
			b := newBench(t, nil)
			x := b.reads(2, false)
			r := b.allow()
			b.x.Set(call, gputest.Fault{Code: 2})
			x.run(r)
			pin, err := b.d.TakePinned(t.Context(), 1)
			pin.Free() // nothing, where there is none
			if b.x.Fired(call) > 0 {
				f.Fire()
			}
			if pinning := call == "cuMemHostRegister_v2"; errors.Is(err, ErrPinning) != pinning || (err != nil) != pinning {
				t.Errorf("TakePinned: %v", err)
			}
			if x.exact() != 2 && call != "cuMemHostRegister_v2" {
				t.Error("reads went without memory")
			}
			var e *driver.Error
			if err := x.items[0].Err; err != nil && (!errors.As(err, &e) || !errors.Is(err, ErrExhausted) && call != "cuMemHostRegister_v2") {
				t.Errorf("read: %v", err)
			}
			b.x.Clear()
			b.clock.advance(2 * growAgain)
			for i := range x.items {
				x.items[i].Moves = []Move{{0, b.span(100)}}
			}
			b.d.ReadDirect(t.Context(), b.allow(), x.items)
			if x.exact() != 0 {
				t.Errorf("after it: %v", x.items[0].Err)
			}
			b.close()
			f.Survive()
		})
	}
}

// TestClosedDevice: every call answers ErrClosed, also those that come while
// Close waits; a leaked buffer is named with the place that took it.
func TestClosedDevice(t *testing.T) {
	b := newBench(t, nil)
	pin, err := b.d.TakePinned(t.Context(), 100)
	if err != nil {
		t.Fatal(err)
	}
	b.free()
	err = b.d.Close(t.Context())
	if !errors.Is(err, ErrLeaked) || !contains(err, "TestClosedDevice") {
		t.Errorf("Close does not name who took what is left: %v", err)
	}
	if err := b.d.Close(t.Context()); err != nil {
		t.Errorf("the second Close: %v", err)
	}
	if _, err := b.d.TakePinned(t.Context(), 1); !errors.Is(err, ErrClosed) {
		t.Errorf("TakePinned: %v", err)
	}
	in, out, read := []CopyIn{{}}, []CopyOut{{}}, []DirectRead{{}}
	b.d.CopyIn(t.Context(), in)
	b.d.CopyOut(t.Context(), out)
	b.d.ReadDirect(t.Context(), nil, read)
	for _, err := range []error{in[0].Err, out[0].Err, read[0].Err} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
	if st := b.d.AllowDirect(b.dir, Verdict{State: VerdictProven, Key: VerdictKey{GPU: b.d.UUID()}}).Status(); st.State != RouteRefused {
		t.Errorf("a route of a closed device is %+v", st)
	}
	pin.Bytes()[0] = 1 // still there
	pin.Free()
}
