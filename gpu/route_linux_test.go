package gpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/gpu/gputest"
	"github.com/sealstone/sealstone/internal/faults/faulttest"
)

// good is a verdict that lets direct reads pass.
func (b *bench) good() Verdict {
	return Verdict{State: VerdictProven, Dir: b.dir, Key: VerdictKey{GPU: b.d.UUID(), Device: "8:1"}}
}

// TestVerdicts: what a verdict leads to, before anything is read.
func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		name   string
		spec   string
		change func(*Verdict)
		want   RouteStatus
	}{
		{"good", "", func(*Verdict) {}, RouteStatus{State: RouteProven}},
		{"nothing tried", "", func(v *Verdict) { *v = Verdict{} }, RouteStatus{State: RouteRefused, Name: "not-tried", Reason: "no canary"}},
		{"refused", "", func(v *Verdict) { v.State, v.Code, v.Name, v.Reason = VerdictRefused, 5008, "X", "because" },
			RouteStatus{State: RouteRefused, Code: 5008, Name: "X", Reason: "because"}},
		{"of another GPU", "", func(v *Verdict) { v.Key.GPU = "GPU-other" }, RouteStatus{State: RouteRefused, Name: "other-gpu", Reason: "GPU-other"}},
		{"no order, no flush", "ordering=0,flush=0", func(*Verdict) {}, RouteStatus{State: RouteRefused, Name: "no-order"}},
		{"no order, but a flush", "ordering=0,flush=1", func(*Verdict) {}, RouteStatus{State: RouteProven}},
		{"no nvidia-fs", "route=none", func(*Verdict) {}, RouteStatus{State: RouteRefused, Code: 5001, Name: "CU_FILE_DRIVER_NOT_INITIALIZED"}},
		{"an old library", "cufile=1070,cuFileGetParameterBool=5022", func(*Verdict) {}, RouteStatus{State: RouteRefused, Code: 5022}},
		{"driver 5001", "cuFileDriverOpen=5001", func(*Verdict) {}, RouteStatus{State: RouteRefused, Code: 5001}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var specs []string
			if c.spec != "" {
				specs = append(specs, c.spec)
			}
			b := newBench(t, nil, specs...)
			defer b.close()
			v := b.good()
			c.change(&v)
			r := b.d.AllowDirect(b.dir+"/./", v)
			got := r.Status()
			if got.State != c.want.State || got.Code != c.want.Code || c.want.Name != "" && got.Name != c.want.Name || !strings.Contains(got.Reason, c.want.Reason) || got.Dir != b.dir {
				t.Errorf("%+v, want %+v", got, c.want)
			}
			x := b.reads(2, false)
			x.run(r)
			st := b.d.Stats()
			if proven := got.State == RouteProven; proven != (x.exact() == 0) || proven != (b.d.Route(b.dir) == r) ||
				proven != (b.events.count(EventRouteProven) == 1) || proven == (b.events.count(EventRouteRefused) == 1) {
				t.Errorf("%d reads failed (%v), events %+v", x.exact(), x.items[0].Err, b.events.all)
			}
			if got.State != RouteProven && (!errors.Is(x.items[0].Err, ErrRouteOff) || st.Reads > 0) {
				t.Errorf("%v, %d reads", x.items[0].Err, st.Reads)
			}
			if (st.Flushes > 0) != (got.State == RouteProven && strings.Contains(c.spec, "flush=1")) {
				t.Errorf("%d flushes", st.Flushes)
			}
			if state, why := b.d.Health(); state != HealthOK {
				t.Errorf("a refusal is no fault, but health is %s: %s", state, why)
			}
		})
	}
}

// TestVerdictWithoutLibrary: no libcufile is a refusal that says so.
func TestVerdictWithoutLibrary(t *testing.T) {
	b := newBench(t, nil)
	defer b.close()
	if err := os.Remove(b.x.CuFilePath); err != nil {
		t.Fatal(err)
	}
	if st := b.d.AllowDirect(b.dir, b.good()).Status(); st.State != RouteRefused || st.Name != "no-library" || !strings.Contains(st.Reason, b.x.CuFilePath) {
		t.Errorf("%+v", st)
	}
}

// TestCompatModeElsewhere: another library of the process has cuFile open in
// its compatible mode, where reads would silently take the way by the CPU.
func TestCompatModeElsewhere(t *testing.T) {
	b := newBench(t, nil)
	f, err := b.x.Open(t).CuFile()
	if err != nil {
		t.Fatal(err)
	}
	if err := f.DriverOpen(b.c); err != nil {
		t.Fatal(err)
	}
	if st := b.d.AllowDirect(b.dir, b.good()).Status(); st.State != RouteRefused || st.Name != "compat-mode" {
		t.Errorf("%+v", st)
	}
	if err := b.d.Close(t.Context()); err != nil {
		t.Error(err)
	}
	// What the other library opened is still open.
	if err := f.DriverClose(b.c); err != nil {
		t.Errorf("the other's cuFile was closed: %v", err)
	}
	b.free()
	b.x.Check(t)
}

// TestFaultDemotion: errors demote a route after some in a row; a good read
// between them begins the count anew, and a new verdict turns it on again.
func TestFaultDemotion(t *testing.T) {
	tally := faulttest.New(t)
	f := tally.Try("EIO of every read")
	b := newBench(t, func(o *Options) { o.DirectErrorsMax = 3 })
	r := b.allow()
	x := b.reads(1, false)
	fail := func(n int) {
		b.x.Set("cuFileRead", gputest.Fault{Kind: gputest.Errno, Code: 5})
		for range n {
			x.run(r)
		}
		b.x.Clear()
	}
	again := func() { // with destinations that nothing guards
		x.items[0].Moves = []Move{{0, b.span(100)}}
	}
	fail(2)
	if x.exact() != 1 || r.Status().State != RouteProven {
		t.Fatalf("after two errors: %+v", r.Status())
	}
	again()
	x.run(r)
	if x.exact() != 0 {
		t.Fatalf("a good read: %v", x.items[0].Err)
	}
	again()
	fail(2)
	if r.Status().State != RouteProven {
		t.Fatalf("the good read did not count: %+v", r.Status())
	}
	fail(1)
	st := r.Status()
	if st.State != RouteDemoted || st.Code != 5 || st.Name != "EIO" || !strings.Contains(st.Reason, "3 direct reads failed in a row") || b.d.Route(b.dir) != nil {
		t.Fatalf("after three in a row: %+v", st)
	}
	f.Fire() // each of them did, or the route were on
	reads := b.d.Stats().Reads
	again()
	x.run(r)
	if !errors.Is(x.items[0].Err, ErrRouteOff) || !contains(x.items[0].Err, "3 direct reads failed") || b.d.Stats().Reads != reads || x.exact() != 1 {
		t.Errorf("a demoted route: %v", x.items[0].Err)
	}
	state, why := b.d.Health()
	if state != HealthDegraded || !strings.Contains(why, b.dir) || b.events.count(EventRouteDemoted) != 1 || b.d.Stats().RoutesDemoted != 1 {
		t.Errorf("health %s: %s, %d events", state, why, b.events.count(EventRouteDemoted))
	}
	if b.allow() != r || b.d.Route(b.dir) != r {
		t.Error("a new verdict does not turn the route on")
	}
	again()
	x.run(r)
	if x.exact() != 0 {
		t.Errorf("after a new verdict: %v", x.items[0].Err)
	}
	b.close()
	f.Survive()
}

// TestReadDirectRefuses: what makes no sense is refused, and says nothing about
// the route.
func TestReadDirectRefuses(t *testing.T) {
	b := newBench(t, func(o *Options) { o.DirectErrorsMax = 1 })
	defer b.close()
	r := b.allow()
	x := b.reads(1, false)
	good := x.items[0]
	for name, change := range map[string]func(*DirectRead){
		"an odd offset":        func(it *DirectRead) { it.FileOffsetBytes = 512 },
		"an offset below 0":    func(it *DirectRead) { it.FileOffsetBytes = -4096 },
		"an odd length":        func(it *DirectRead) { it.LengthBytes = 1000 },
		"no length":            func(it *DirectRead) { it.LengthBytes = 0 },
		"no checks":            func(it *DirectRead) { it.Checks = nil },
		"a check too few":      func(it *DirectRead) { it.Checks = it.Checks[1:] },
		"a check in between":   func(it *DirectRead) { it.Checks = slices.Delete(slices.Clone(it.Checks), 1, 2) },
		"a check behind":       func(it *DirectRead) { it.Checks = append(slices.Clone(it.Checks), Check{it.LengthBytes, 1, 0}) },
		"a move behind":        func(it *DirectRead) { it.Moves = []Move{{it.LengthBytes - 1, good.Moves[0].Dst}} },
		"another file's name":  func(it *DirectRead) { it.File.Ino++ },
		"no room for it, ever": func(it *DirectRead) { it.LengthBytes = 1 << 30 },
	} {
		its := []DirectRead{good}
		change(&its[0])
		b.d.ReadDirect(t.Context(), r, its)
		if err := its[0].Err; !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
	its := []DirectRead{good}
	b.d.ReadDirect(t.Context(), nil, its)
	if !errors.Is(its[0].Err, ErrRouteOff) {
		t.Errorf("no route: %v", its[0].Err)
	}
	b.d.ReadDirect(canceledContext(), r, its)
	if !errors.Is(its[0].Err, context.Canceled) {
		t.Errorf("given up before: %v", its[0].Err)
	}
	x.items[0].Err = errors.New("nothing was read")
	x.exact()
	if r.Status().State != RouteProven || b.d.Stats().Reads != 0 {
		t.Errorf("%+v, %d reads", r.Status(), b.d.Stats().Reads)
	}
	x.run(r)
	if x.exact() != 0 {
		t.Error(x.items[0].Err)
	}
}

// TestFilesAreBounded: a route keeps few files open, and lets go of one that is
// forgotten, also while it is read.
func TestFilesAreBounded(t *testing.T) {
	const files, most = 9, 2
	b := newBench(t, func(o *Options) { o.HandlesMax, o.ReadsMax = most, most })
	r := b.allow()
	var all []*directBatch
	for i := range files {
		x := &directBatch{b: b, data: random(uint64(i), 4096)}
		fd, id := b.file(fmt.Sprint("segment", i), x.data)
		x.items = []DirectRead{{FD: fd, File: id, LengthBytes: 4096, Checks: checksOf(x.data), Moves: []Move{{0, b.span(4096)}}}}
		all = append(all, x)
	}
	own := b.openFiles()
	for range 2 {
		for _, x := range all {
			b.d.ReadDirect(t.Context(), r, x.items)
			if x.exact() != 0 {
				t.Fatal(x.items[0].Err)
			}
		}
	}
	b.d.closing.Wait()
	if st := b.d.Stats(); st.HandlesOpen != most || st.HandlesEvicted != 2*files-most || b.openFiles()-own != most {
		t.Errorf("%d files open, %d evicted, %d descriptors", st.HandlesOpen, st.HandlesEvicted, b.openFiles()-own)
	}
	for _, x := range all {
		r.Forget(x.items[0].File)
		r.Forget(x.items[0].File)
	}
	b.d.closing.Wait()
	if st := b.d.Stats(); st.HandlesOpen != 0 || b.openFiles()-own != 0 {
		t.Errorf("%d files open after all were forgotten", st.HandlesOpen)
	}
	// Forgotten while it is read: the read ends well, and then it is closed.
	b.x.Set("cuFileRead", gputest.Fault{Kind: gputest.Hang, Count: 1})
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.d.ReadDirect(context.Background(), r, all[0].items)
	}()
	b.x.WaitHanging(1)
	r.Forget(all[0].items[0].File)
	b.x.Release()
	<-done
	b.d.closing.Wait()
	if all[0].exact() != 0 || b.d.Stats().HandlesOpen != 0 {
		t.Errorf("%v, %d files open", all[0].items[0].Err, b.d.Stats().HandlesOpen)
	}
	b.close()
}

// openFiles is how many descriptors of files in the directory the process has.
func (b *bench) openFiles() (n int) {
	b.t.Helper()
	const dir = "/proc/self/fd"
	names, err := os.ReadDir(dir)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, e := range names {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && strings.HasPrefix(to, b.dir+"/") {
			n++
		}
	}
	return n
}
