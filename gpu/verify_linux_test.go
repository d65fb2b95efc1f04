package gpu

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/sealstone/sealstone/gpu/gputest"
	"github.com/sealstone/sealstone/internal/faults/faulttest"
	"github.com/sealstone/sealstone/internal/sums"
)

// hostBatch are blocks on their way from pinned memory to the device.
type hostBatch struct {
	b     *bench
	data  [][]byte
	pins  []*Pinned
	items []CopyIn
}

// copies makes n blocks with their chunk sums.
func (b *bench) copies(n, blockBytes int) *hostBatch {
	b.t.Helper()
	x := &hostBatch{b: b}
	for i := range n {
		data := random(uint64(i)+77, blockBytes)
		pin, err := b.d.TakePinned(b.t.Context(), blockBytes)
		if err != nil {
			b.t.Fatal(err)
		}
		copy(pin.Bytes(), data)
		x.data, x.pins = append(x.data, data), append(x.pins, pin)
		half := int64(blockBytes / 2)
		x.items = append(x.items, CopyIn{Src: pin.Bytes(), Checks: checksOf(data),
			Moves: []Move{{0, b.span(half)}, {half, b.span(int64(blockBytes) - half)}}})
	}
	return x
}

// run copies them in, after which nothing may touch a destination or a source.
func (x *hostBatch) run() {
	x.b.t.Helper()
	x.b.d.CopyIn(x.b.t.Context(), x.items)
	for i := range x.items {
		for _, m := range x.items[i].Moves {
			x.b.t.Cleanup(x.b.x.Guard(m.Dst.Ptr, m.Dst.LengthBytes))
		}
		x.pins[i].Free()
	}
}

// exact holds that a block without an error is whole, and any other one left
// no trace.
func (x *hostBatch) exact() (failed int) {
	x.b.t.Helper()
	for i := range x.items {
		it, got := &x.items[i], ""
		for _, m := range it.Moves {
			if s := x.b.holds(m.Dst, x.data[i][m.OffsetBytes:][:m.Dst.LengthBytes]); got == "" || s == got {
				got = s
			} else {
				got += " and " + s
			}
		}
		if it.Err == nil && got != "whole" || it.Err != nil && got != "untouched" {
			x.b.t.Errorf("block %d: %v, %s", i, it.Err, got)
		}
		if it.Err != nil {
			failed++
		}
	}
	return failed
}

func verifying(o *Options) { o.VerifyOnDevice = true }

// TestFaultCopyVerified: bytes that the bus changed on their way in are found
// in staging by the kernel, and do not reach the caller's memory.
func TestFaultCopyVerified(t *testing.T) {
	tally := faulttest.New(t)
	for _, kind := range []gputest.Kind{gputest.Stale, gputest.Half, gputest.Flip} {
		t.Run(string(kind), func(t *testing.T) {
			f := tally.Try(string(kind) + " copy to the device")
			b := newBench(t, verifying)
			x := b.copies(8, 70_000)
			b.x.Set("cuMemcpyHtoDAsync_v2", gputest.Fault{Kind: kind, From: 4, Count: 1})
			x.run()
			if b.x.Fired("cuMemcpyHtoDAsync_v2") > 0 {
				f.Fire()
			}
			if failed := x.exact(); failed != 1 {
				t.Errorf("%d blocks failed, want the one", failed)
			}
			for i := range x.items {
				if err := x.items[i].Err; err != nil && !errors.Is(err, ErrMismatch) || x.items[i].Verified != (err == nil) {
					t.Errorf("block %d: %v, verified %v", i, err, x.items[i].Verified)
				}
			}
			if st := b.d.Stats().HostIn; st.Corrupt != 1 || st.Verified != 7 || b.events.count(EventCorruptCopy) != 1 {
				t.Errorf("%+v, %d events", st, b.events.count(EventCorruptCopy))
			}
			b.close()
			f.Survive()
		})
	}
}

// TestFaultKernelAtRunTime: a proven kernel that stops working, or answers
// without looking, is turned off, and the sums are taken by the processor.
func TestFaultKernelAtRunTime(t *testing.T) {
	tally := faulttest.New(t)
	for _, fault := range []gputest.Fault{{Kind: gputest.Skip}, {Kind: gputest.Liar}, {Code: 701}} {
		for _, rotten := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s%d,rotten=%v", fault.Kind, fault.Code, rotten), func(t *testing.T) {
				f := tally.Try(fmt.Sprintf("kernel %s %d", fault.Kind, fault.Code))
				b := newBench(t, verifying)
				if on, why := b.d.KernelProven(); !on {
					t.Fatalf("not proven: %s", why)
				}
				x := b.copies(3, 70_000)
				if rotten {
					x.items[1].Src[5]++ // after its sum was taken
				}
				b.x.Set("cuLaunchKernel", fault)
				x.run()
				if b.x.Fired("cuLaunchKernel") > 0 {
					f.Fire()
				}
				for i := range x.items {
					if want := rotten && i == 1; errors.Is(x.items[i].Err, ErrMismatch) != want || (x.items[i].Err != nil) != want {
						t.Errorf("block %d: %v", i, x.items[i].Err)
					}
				}
				if !rotten && x.exact() != 0 {
					t.Error("blocks failed that were right")
				}
				on, _ := b.d.KernelProven()
				state, why := b.d.Health()
				if on || state != HealthDegraded || why == "" || b.events.count(EventKernelOff) != 1 || b.d.Stats().KernelFaults == 0 {
					t.Errorf("kernel on: %v, health %s (%s), %d events", on, state, why, b.events.count(EventKernelOff))
				}
				b.close()
				f.Survive()
			})
		}
	}
}

// TestSeal: the sums of a block that leaves the device are taken there, before
// the way that they vouch for.
func TestSeal(t *testing.T) {
	data := random(3, 200_001)
	planes := []int64{65_536, 34_465, 100_000}
	var want []uint64
	rest := data
	for _, n := range planes {
		want = sums.Chunks(want, rest[:n])
		rest = rest[n:]
	}
	for _, kernel := range []bool{true, false} {
		for _, flipped := range []bool{false, true} {
			t.Run(fmt.Sprintf("kernel=%v,flipped=%v", kernel, flipped), func(t *testing.T) {
				var specs []string
				if !kernel {
					specs = append(specs, noKernel)
				}
				b := newBench(t, nil, specs...)
				defer b.close()
				pin, err := b.d.TakePinned(t.Context(), len(data))
				if err != nil {
					t.Fatal(err)
				}
				defer pin.Free()
				first, second := b.span(100), b.span(int64(len(data))-100)
				b.x.Write(first.Ptr, data[:100])
				b.x.Write(second.Ptr, data[100:])
				if flipped { // the kernel's answers come back by the first such copy
					from := 1
					if kernel {
						from = 2
					}
					b.x.Set("cuMemcpyDtoHAsync_v2", gputest.Fault{Kind: gputest.Flip, From: from, Count: 1})
				}
				its := []CopyOut{{Src: []Span{first, second}, Dst: pin.Bytes(), PlaneBytes: planes}}
				b.d.CopyOut(t.Context(), its)
				it := its[0]
				if it.Err != nil || it.SumsOnDevice != kernel || bytes.Equal(it.Dst, data) == flipped {
					t.Errorf("%v, on the device: %v", it.Err, it.SumsOnDevice)
				}
				// Sums of the device see the flip; those of what arrived do not.
				if slices.Equal(it.Sums, want) != (kernel || !flipped) {
					t.Errorf("sums are %x, want %x", it.Sums, want)
				}
			})
		}
	}
}
