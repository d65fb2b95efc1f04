package gpu

import (
	"errors"
	"fmt"
	"testing"

	"github.com/sealstone/sealstone/gpu/driver"
	"github.com/sealstone/sealstone/gpu/gputest"
	"github.com/sealstone/sealstone/internal/faults/faulttest"
)

// A block of these tests has 3 chunks and a page, in a batch two pages: there
// it is the number that counts.
const (
	directBytes = 3<<16 + 4096
	smallBytes  = 2 * 4096
)

// directBatch are reads of n blocks of one file.
type directBatch struct {
	b     *bench
	data  []byte
	items []DirectRead
}

// reads makes n reads, of whole blocks or of a range within each.
func (b *bench) reads(n int, ranged bool) *directBatch {
	b.t.Helper()
	length := directBytes
	if n > 1 {
		length = smallBytes
	}
	x := &directBatch{b: b, data: random(uint64(n), n*length), items: make([]DirectRead, n)}
	fd, id := b.file("segment", x.data)
	for i := range x.items {
		block := x.data[i*length:][:length]
		it := &x.items[i]
		*it = DirectRead{FD: fd, File: id, FileOffsetBytes: int64(i * length), LengthBytes: int64(length), Checks: checksOf(block)}
		if ranged && length == directBytes { // the middle chunk alone, in two pieces that do not end on a page
			it.FileOffsetBytes += 1 << 16
			it.LengthBytes = 1 << 16
			it.Checks = checksOf(block[1<<16:][:1<<16])
			it.Moves = []Move{{100, b.span(1000)}, {5000, b.span(1<<16 - 5001)}}
			continue
		}
		it.Moves = []Move{{0, b.span(3000)}, {4096, b.span(int64(length - 4096))}}
	}
	return x
}

// state says what a read left in its destinations.
func (x *directBatch) state(i int) string {
	it := &x.items[i]
	var out string
	for _, m := range it.Moves {
		got := x.b.holds(m.Dst, x.data[it.FileOffsetBytes+m.OffsetBytes:][:m.Dst.LengthBytes])
		if out != "" && out != got {
			return "partly " + out + ", partly " + got
		}
		out = got
	}
	return out
}

// run reads them; from then on nothing may touch a destination.
func (x *directBatch) run(r *Route) {
	x.b.t.Helper()
	x.b.d.ReadDirect(x.b.t.Context(), r, x.items)
	x.guard()
}

func (x *directBatch) guard() {
	for i := range x.items {
		for _, m := range x.items[i].Moves {
			x.b.t.Cleanup(x.b.x.Guard(m.Dst.Ptr, m.Dst.LengthBytes))
		}
	}
}

// exact holds that a read without an error is whole and any other one left no
// trace. It returns how many failed.
func (x *directBatch) exact() (failed int) {
	x.b.t.Helper()
	for i := range x.items {
		err, got := x.items[i].Err, x.state(i)
		if err == nil && got != "whole" || err != nil && got != "untouched" {
			x.b.t.Errorf("read %d: %v, %s", i, err, got)
		}
		if err != nil {
			failed++
		}
	}
	return failed
}

func TestReadDirect(t *testing.T) {
	for _, kernel := range []bool{true, false} {
		for _, ranged := range []bool{false, true} {
			for _, n := range []int{1, 20} {
				if ranged && n > 1 {
					continue
				}
				t.Run(fmt.Sprintf("kernel=%v,range=%v,%d", kernel, ranged, n), func(t *testing.T) {
					var specs []string
					if !kernel {
						specs = append(specs, noKernel)
					}
					b := newBench(t, nil, specs...)
					defer b.close()
					if on, why := b.d.KernelProven(); on != kernel {
						t.Fatalf("kernel proven: %v, %s", on, why)
					}
					x := b.reads(n, ranged)
					x.run(b.allow())
					if failed := x.exact(); failed != 0 {
						t.Errorf("%d failed: %v", failed, x.items[0].Err)
					}
					st := b.d.Stats()
					if st.Direct.Verified != int64(n) || st.Reads != int64(n) || st.HandlesOpen != 1 || (st.KernelRuns > 0) != kernel {
						t.Errorf("%+v", st)
					}
				})
			}
		}
	}
}

// directFault is a fault of a direct read and what must come of it.
type directFault struct {
	call  string
	fault gputest.Fault
	want  error      // what the read ends in; nil: a *driver.Error
	code  int        // its code
	state RouteState // of the route after one
}

func directFaults() []directFault {
	read := "cuFileRead"
	return []directFault{
		{read, gputest.Fault{Code: 5010}, nil, 5010, RouteProven},
		{read, gputest.Fault{Kind: gputest.Errno, Code: 5027}, nil, 5027, RouteProven},
		{read, gputest.Fault{Code: -5}, nil, 5, RouteProven},
		{read, gputest.Fault{Kind: gputest.Errno, Code: 5}, nil, 5, RouteProven},
		{read, gputest.Fault{Kind: gputest.Short}, ErrShort, 0, RouteProven},
		{read, gputest.Fault{Kind: gputest.Zero}, ErrShort, 0, RouteProven},
		{read, gputest.Fault{Kind: gputest.Over}, nil, 5030, RouteProven},
		{read, gputest.Fault{Kind: gputest.Stale}, ErrMismatch, 0, RouteDemoted},
		{read, gputest.Fault{Kind: gputest.Half}, ErrMismatch, 0, RouteDemoted},
		{read, gputest.Fault{Kind: gputest.Flip}, ErrMismatch, 0, RouteDemoted},
		{read, gputest.Fault{Kind: gputest.Shift}, ErrMismatch, 0, RouteDemoted},
		{read, gputest.Fault{Kind: gputest.Neighbour}, ErrMismatch, 0, RouteDemoted},
		{"cuFileHandleRegister", gputest.Fault{Code: 5027}, nil, 5027, RouteProven},
		{"cuFileHandleRegister", gputest.Fault{Code: 5030}, nil, 5030, RouteProven},
		{"cuMemcpyDtoDAsync_v2", gputest.Fault{Code: 1}, nil, 1, RouteProven},
		{"cuMemsetD8Async", gputest.Fault{Code: 1}, nil, 1, RouteProven},
	}
}

// TestFaultDirect: every fault of a direct read, for one block, for a range and
// in the middle of a batch, with the kernel and without. The faulty read ends
// in the right error and leaves no trace, the others are whole, the route is
// judged, and nothing leaks.
func TestFaultDirect(t *testing.T) {
	tally := faulttest.New(t)
	shapes := []struct {
		name   string
		n, at  int
		ranged bool
	}{{"one", 1, 1, false}, {"range", 1, 1, true}, {"batch", 64, 20, false}}
	for _, kernel := range []bool{true, false} {
		for _, shape := range shapes {
			for i, c := range directFaults() {
				if testing.Short() && shape.n > 1 && i%4 != 0 {
					continue // the batches take most of the time
				}
				name := fmt.Sprintf("%s %s %d in %s, kernel %v", c.call, c.fault.Kind, c.fault.Code, shape.name, kernel)
				t.Run(name, func(t *testing.T) {
					var specs []string
					if !kernel {
						specs = append(specs, noKernel)
					}
					b := newBench(t, nil, specs...)
					fault := c.fault
					fault.From, fault.Count = shape.at, 1
					if c.call != "cuFileRead" {
						fault.From = 1 // a batch makes fewer of these, and more of those
					}
					f := tally.Try(name)
					b.judgeDirect(f, c, fault, b.reads(shape.n, shape.ranged))
					b.close()
					if !t.Failed() {
						f.Survive()
					}
				})
			}
		}
	}
}

func (b *bench) judgeDirect(f *faulttest.Fault, c directFault, fault gputest.Fault, x *directBatch) {
	b.t.Helper()
	r := b.allow()
	b.x.Set(c.call, fault)
	x.run(r)
	if b.x.Fired(c.call) > 0 {
		f.Fire()
	}
	b.x.Clear()
	b.x.Idle() // what arrives late has arrived
	failed := x.exact()
	matching := 0
	for i := range x.items {
		if c.matches(x.items[i].Err) {
			matching++
		} else if err := x.items[i].Err; err != nil && !errors.Is(err, ErrRouteOff) {
			b.t.Errorf("read %d: %v", i, err)
		}
	}
	// One registration serves all reads of its file that wait for it; a
	// neighbour's bytes may hit a second read.
	if matching == 0 || matching > 1 && c.call == "cuFileRead" && c.fault.Kind != gputest.Neighbour {
		b.t.Errorf("%d reads of %d failed as they should, %d at all", matching, len(x.items), failed)
	}
	if st := r.Status(); st.State != c.state {
		b.t.Errorf("the route is %+v, want %s", st, c.state)
	}
	if demoted := c.state == RouteDemoted; demoted != (b.d.Route(b.dir) == nil) || demoted != (b.events.count(EventRouteDemoted) == 1) {
		b.t.Errorf("route %v, %d events", b.d.Route(b.dir), b.events.count(EventRouteDemoted))
	}
	if st := b.d.Stats().Direct; st.Done+st.Failed+st.Corrupt != st.Attempted || (st.Corrupt > 0) != (c.want == ErrMismatch) {
		b.t.Errorf("%+v", st)
	}
}

func (c directFault) matches(err error) bool {
	if c.want != nil {
		return errors.Is(err, c.want)
	}
	var e *driver.Error
	return errors.As(err, &e) && e.Code == c.code
}

// TestFaultDirectLate: bytes that arrive after the read returned are either
// there before they are copied on, and right, or the read fails. They hit
// memory that nothing is handed on from, however late they come.
func TestFaultDirectLate(t *testing.T) {
	tally := faulttest.New(t)
	for _, after := range []string{"late=0", "late=300", "late=3000"} {
		f := tally.Try(after)
		b := newBench(t, nil, after)
		x := b.reads(16, false)
		r := b.allow()
		b.x.Set("cuFileRead", gputest.Fault{Kind: gputest.Late})
		x.run(r)
		if b.x.Fired("cuFileRead") > 0 {
			f.Fire()
		}
		b.x.Idle()
		failed := x.exact()
		for i := range x.items {
			if err := x.items[i].Err; err != nil && !errors.Is(err, ErrMismatch) && !errors.Is(err, ErrRouteOff) {
				t.Errorf("read %d: %v", i, err)
			}
		}
		if (failed > 0) != (r.Status().State == RouteDemoted) {
			t.Errorf("%d failed, the route is %+v", failed, r.Status())
		}
		b.close()
		f.Survive()
	}
}

// TestFaultStaleRepeat: a read that writes nothing is found even if the slot
// held the very same bytes before, from the last read of the same block.
func TestFaultStaleRepeat(t *testing.T) {
	tally := faulttest.New(t)
	for _, kind := range []gputest.Kind{gputest.Stale, gputest.Half} {
		f := tally.Try(string(kind) + " read of the block that was read before")
		b := newBench(t, func(o *Options) { o.LandingBytesMax = roundUp(directBytes, landingUnitBytes) }) // one slot
		r, x := b.allow(), b.reads(1, false)
		x.run(r)
		if x.exact() != 0 {
			t.Fatal(x.items[0].Err)
		}
		x.items[0].Moves = []Move{{0, b.span(1000)}, {4096, b.span(directBytes - 4096)}}
		b.x.Set("cuFileRead", gputest.Fault{Kind: kind, Count: 1})
		x.run(r)
		if b.x.Fired("cuFileRead") > 0 {
			f.Fire()
		}
		if x.exact() != 1 || !errors.Is(x.items[0].Err, ErrMismatch) {
			t.Errorf("%s: %v", kind, x.items[0].Err)
		}
		b.close()
		f.Survive()
	}
}
