package gpu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/gpu/driver"
	"github.com/sealstone/sealstone/internal/faults/faulttest"
)

// block is one block of a test: its bytes, its item, where it goes.
type block struct {
	data []byte
	pin  *Pinned
	dst  []Span
	item CopyIn
}

// blocks makes n blocks of two planes each that lie apart in the buffer.
func (r *rig) blocks(n, planeBytes int) []block {
	out := make([]block, n)
	for i := range out {
		b := &out[i]
		second := int(roundUp(int64(planeBytes), 4096)) + 4096
		b.data = random(uint64(i)+1, second+planeBytes)
		b.pin = r.pin(b.data)
		b.dst = []Span{r.span(int64(planeBytes)), r.span(int64(planeBytes))}
		b.item = CopyIn{Src: b.pin.Bytes(), Moves: []Move{{0, b.dst[0]}, {int64(second), b.dst[1]}}}
	}
	return out
}

func items(blocks []block) []CopyIn {
	out := make([]CopyIn, len(blocks))
	for i := range blocks {
		out[i] = blocks[i].item
	}
	return out
}

// state says what a block's destinations hold.
func (r *rig) state(b *block) string {
	all, none, zero := true, true, true
	for _, m := range b.item.Moves {
		got := r.g.bytes(m.Dst)
		all = all && bytes.Equal(got, b.data[m.OffsetBytes:][:m.Dst.LengthBytes])
		none = none && untouched(got)
		zero = zero && (untouched(got) || len(bytes.Trim(got, "\x00")) == 0)
		if !r.guarded(m.Dst) {
			return "a byte beside the span was written"
		}
	}
	switch {
	case all:
		return "whole"
	case none:
		return "untouched"
	case zero:
		return "zeroed"
	}
	return "wrong bytes"
}

func TestCopyIn(t *testing.T) {
	for _, c := range []struct{ n, planeBytes int }{{1, 1}, {1, 4096}, {3, 70001}, {64, 5000}, {2, 900_000}} {
		t.Run(fmt.Sprintf("%dx%d", c.n, c.planeBytes), func(t *testing.T) {
			r := newRig(t, nil)
			defer r.close()
			bs := r.blocks(c.n, c.planeBytes)
			its := items(bs)
			r.d.CopyIn(t.Context(), its)
			for i := range bs {
				if got := r.state(&bs[i]); its[i].Err != nil || got != "whole" || its[i].Verified {
					t.Errorf("block %d: %v, %s, verified %v", i, its[i].Err, got, its[i].Verified)
				}
				bs[i].pin.Free()
			}
			st := r.d.Stats()
			if in := st.HostIn; in.Attempted != int64(c.n) || in.Done != int64(c.n) || in.DoneBytes != int64(2*c.n*c.planeBytes) || in.Verified != 0 {
				t.Errorf("%+v", in)
			}
			if st.Staging.InUseBytes != 0 || st.Pinned.InUseBytes != 0 {
				t.Errorf("still in use: %+v, %+v", st.Staging, st.Pinned)
			}
		})
	}
}

// TestCopyInRefuses: what makes no sense is refused by itself, and the others
// of the call are copied.
func TestCopyInRefuses(t *testing.T) {
	r := newRig(t, nil)
	defer r.close()
	b := r.blocks(1, 5000)[0]
	defer b.pin.Free()
	freed := r.pin(random(9, 100))
	gone := freed.Bytes()
	freed.Free()
	dst := r.span(100)
	bad := []struct {
		name string
		item CopyIn
		want error
	}{
		{"no bytes", CopyIn{Moves: []Move{{0, dst}}}, ErrInvalid},
		{"memory of the heap", CopyIn{Src: make([]byte, 100), Moves: []Move{{0, dst}}}, ErrInvalid},
		{"memory that was freed", CopyIn{Src: gone, Moves: []Move{{0, dst}}}, ErrInvalid},
		{"a move behind the end", CopyIn{Src: b.item.Src[:100], Moves: []Move{{1, dst}}}, ErrInvalid},
		{"a move before the beginning", CopyIn{Src: b.item.Src[:100], Moves: []Move{{-1, dst}}}, ErrInvalid},
		{"a move of a huge offset", CopyIn{Src: b.item.Src[:100], Moves: []Move{{1<<63 - 1, dst}}}, ErrInvalid},
		{"a destination at 0", CopyIn{Src: b.item.Src[:100], Moves: []Move{{0, Span{0, 100}}}}, ErrInvalid},
		{"a destination of nothing", CopyIn{Src: b.item.Src[:100], Moves: []Move{{0, Span{dst.Ptr, 0}}}}, ErrInvalid},
		{"a destination round the end", CopyIn{Src: b.item.Src[:100], Moves: []Move{{0, Span{^driver.DevicePtr(9), 100}}}}, ErrInvalid},
		{"a check behind the end", CopyIn{Src: b.item.Src[:100], Checks: []Check{{50, 51, 0}}, Moves: []Move{{0, dst}}}, ErrInvalid},
		{"a check longer than a chunk", CopyIn{Src: b.item.Src, Checks: []Check{{0, 1<<16 + 1, 0}}, Moves: []Move{{0, dst}}}, ErrInvalid},
	}
	for _, c := range bad {
		its := []CopyIn{c.item, b.item}
		r.d.CopyIn(t.Context(), its)
		if !errors.Is(its[0].Err, c.want) || its[1].Err != nil || r.state(&b) != "whole" {
			t.Errorf("%s: %v; the other one: %v, %s", c.name, its[0].Err, its[1].Err, r.state(&b))
		}
	}
	if !untouched(r.g.bytes(dst)) {
		t.Error("a refused item was copied")
	}
	if st := r.d.Stats().HostIn; st.Failed != int64(len(bad)) || st.Done != int64(len(bad)) {
		t.Errorf("%+v", st)
	}
}

// TestCopyInTooLarge: a block that staging can never hold is refused at once.
func TestCopyInTooLarge(t *testing.T) {
	r := newRig(t, func(o *Options) { o.StagingBytesMax = 64 << 10 })
	defer r.close()
	b := r.blocks(1, 70_000)[0]
	defer b.pin.Free()
	its := []CopyIn{b.item}
	r.d.CopyIn(t.Context(), its)
	if !errors.Is(its[0].Err, ErrTooLarge) || r.state(&b) != "untouched" {
		t.Errorf("%v, %s", its[0].Err, r.state(&b))
	}
}

// TestFaultCopyInErrors fails each call of the way in, at each place in a
// batch: a block that has no error is whole, any other one untouched, and the
// memory comes back.
func TestFaultCopyInErrors(t *testing.T) {
	tally := faulttest.New(t)
	refused := &driver.Error{Call: "test", Domain: driver.DomainCUDA, Code: 1, Name: "CUDA_ERROR_INVALID_VALUE"}
	// Four blocks of two moves each are one group, waited for twice.
	for call, times := range map[string]int{"h2d": 4, "d2d": 8, "record": 2, "alloc": 1, "register": 1} {
		for at := range times {
			f := tally.Try(fmt.Sprintf("%s fails at %d", call, at))
			r := newRig(t, func(o *Options) { o.Streams = 2 })
			if call == "register" {
				r.g.before = failAt(f, call, at, refused)
				if _, err := r.d.TakePinned(t.Context(), 1<<20); !errors.Is(err, ErrPinning) || !errors.Is(err, ErrExhausted) {
					t.Errorf("%v, want ErrPinning", err)
				}
				r.clock.advance(growAgain)
			}
			bs := r.blocks(4, 5000)
			its := items(bs)
			r.g.before = failAt(f, call, at, refused)
			r.d.CopyIn(t.Context(), its)
			r.g.before = nil
			failed := 0
			for i := range bs {
				got := r.state(&bs[i])
				if its[i].Err != nil {
					failed++
				}
				if its[i].Err == nil && got != "whole" || its[i].Err != nil && got != "untouched" && got != "zeroed" {
					t.Errorf("%s at %d: block %d: %v, %s", call, at, i, its[i].Err, got)
				}
				bs[i].pin.Free()
			}
			if want := map[string]int{"h2d": 1, "d2d": 1, "alloc": 0}[call]; call != "alloc" && failed != want {
				t.Errorf("%s at %d: %d blocks failed, want %d", call, at, failed, want)
			}
			r.close()
			f.Survive()
		}
	}
}

// failAt is a hook that fails one call.
func failAt(f *faulttest.Fault, call string, at int, err error) func(string, int) error {
	return failFrom(f, call, func(n int) bool { return n == at }, err)
}

func failFrom(f *faulttest.Fault, call string, hits func(n int) bool, err error) func(string, int) error {
	seen := make(chan int, 1)
	seen <- 0
	return func(name string, _ int) error {
		if name != call {
			return nil
		}
		n := <-seen
		seen <- n + 1
		if !hits(n) {
			return nil
		}
		f.Fire()
		return err
	}
}

// TestFaultDeviceLost loses the device at each call: the answer says so, every
// later call fails at once, and nothing that it may touch gets another owner.
func TestFaultDeviceLost(t *testing.T) {
	tally := faulttest.New(t)
	dead := &driver.Error{Call: "test", Domain: driver.DomainCUDA, Code: 719, Name: "CUDA_ERROR_LAUNCH_FAILED"}
	for _, call := range []string{"h2d", "record", "query", "d2d"} {
		t.Run(call, func(t *testing.T) {
			f := tally.Try("719 at " + call)
			r := newRig(t, nil)
			bs := r.blocks(3, 5000)
			its := items(bs)
			r.g.before = failFrom(f, call, func(int) bool { return true }, dead)
			r.d.CopyIn(t.Context(), its)
			for i := range bs {
				if !errors.Is(its[i].Err, ErrDeviceLost) {
					t.Errorf("block %d: %v", i, its[i].Err)
				}
				if got := r.state(&bs[i]); got != "untouched" {
					t.Errorf("block %d: %s", i, got)
				}
			}
			r.mustBeLost()
			for i := range bs {
				bs[i].pin.Free()
			}
			if st := r.d.Stats(); st.Staging.SetAsideBytes == 0 || st.Pinned.InUseBytes == 0 {
				t.Errorf("memory that may be in use got free: %+v %+v", st.Staging, st.Pinned)
			}
			r.mustLeak()
			f.Survive()
		})
	}
}

// mustBeLost: every call fails at once, and the health says why.
func (r *rig) mustBeLost() {
	r.t.Helper()
	if state, why := r.d.Health(); state != HealthLost || !strings.Contains(why, "is lost") {
		r.t.Errorf("health is %s: %s", state, why)
	}
	if r.events.count(EventDeviceLost) != 1 {
		r.t.Errorf("%d events of the loss", r.events.count(EventDeviceLost))
	}
	calls := fmt.Sprint(r.g.calls)
	if _, err := r.d.TakePinned(context.Background(), 1); !errors.Is(err, ErrDeviceLost) {
		r.t.Errorf("TakePinned: %v", err)
	}
	in, out, read := []CopyIn{{}}, []CopyOut{{}}, []DirectRead{{}}
	r.d.CopyIn(context.Background(), in)
	r.d.CopyOut(context.Background(), out)
	r.d.ReadDirect(context.Background(), nil, read)
	for _, err := range []error{in[0].Err, out[0].Err, read[0].Err} {
		if !errors.Is(err, ErrDeviceLost) {
			r.t.Errorf("a call after the loss: %v", err)
		}
	}
	if now := fmt.Sprint(r.g.calls); now != calls {
		r.t.Errorf("the driver was called after the loss: %s, then %s", calls, now)
	}
}

// mustLeak closes a device that cannot give everything back, and frees what it
// left.
func (r *rig) mustLeak() {
	r.t.Helper()
	if err := r.d.Close(context.Background()); !errors.Is(err, ErrLeaked) {
		r.t.Errorf("Close: %v, want ErrLeaked", err)
	}
	if r.g.released {
		r.t.Error("the context was released under memory that may be in use")
	}
	r.g.dropAll()
}
