package gpu

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sealstone/sealstone/gpu/gputest"
	"github.com/sealstone/sealstone/internal/faults/faulttest"
)

// until waits for something that must happen; a bound ends a hang of the test.
func (b *bench) until(what string, f func() bool) {
	b.t.Helper()
	for end := time.Now().Add(time.Minute); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("never: %s", what)
		}
	}
}

// closeWithHung closes a device while a call of cuFile hangs; then the call
// comes back, and nothing of it is seen.
func (b *bench) closeWithHung(x *directBatch) {
	b.t.Helper()
	closed := make(chan error, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		closed <- b.d.Close(context.Background())
	}()
	b.advanceUntil(done)
	if err := <-closed; !errors.Is(err, ErrLeaked) {
		b.t.Errorf("Close: %v, want ErrLeaked", err)
	}
	b.x.Release()
	b.x.Idle()
	x.exact()
}

// TestFaultDirectHang hangs one call of cuFile: its read is answered, the others
// of the call are whole, the route is banned for the life of the process, and
// what the call may still use is never given back.
func TestFaultDirectHang(t *testing.T) {
	tally := faulttest.New(t)
	for _, c := range []struct {
		call  string
		n, at int
	}{{"cuFileRead", 1, 1}, {"cuFileRead", 64, 30}, {"cuFileHandleRegister", 1, 1}, {"cuFileBufRegister", 1, 1}} {
		t.Run(fmt.Sprint(c.call, c.n), func(t *testing.T) {
			f := tally.Try(c.call + " hangs")
			b := newBench(t, nil)
			r, x := b.allow(), b.reads(c.n, false)
			b.x.Set(c.call, gputest.Fault{Kind: gputest.Hang, From: c.at, Count: 1})
			done := make(chan struct{})
			go func() {
				defer close(done)
				b.d.ReadDirect(context.Background(), r, x.items)
			}()
			b.x.WaitHanging(1)
			f.Fire()
			b.until("the others are read", func() bool {
				st := b.d.Stats().Direct
				return st.Done == int64(c.n-1)
			})
			b.advanceUntil(done)
			if x.exact() != 1 {
				t.Errorf("not the one alone failed")
			}
			for i := range x.items {
				// Who waits for memory may be answered before the hang is seen.
				waited := c.call == "cuFileBufRegister" && errors.Is(x.items[i].Err, ErrExhausted)
				if err := x.items[i].Err; err != nil && !waited && !errors.Is(err, ErrHung) {
					t.Errorf("read %d: %v", i, err)
				}
			}
			b.until("the ban", func() bool { return b.events.count(EventRouteBanned) > 0 })
			b.mustBeBanned(r)
			b.closeWithHung(x)
			b.mustStayBanned(x)
			f.Survive()
		})
	}
}

func (b *bench) mustBeBanned(r *Route) {
	b.t.Helper()
	st := r.Status()
	if st.State != RouteBanned || st.Name != "hung" || b.d.Route(b.dir) != nil || b.events.count(EventRouteBanned) != 1 {
		b.t.Errorf("%+v, %d events", st, b.events.count(EventRouteBanned))
	}
	if b.d.AllowDirect(b.dir, b.good()); b.d.Route(b.dir) != nil {
		b.t.Error("a verdict lifted a ban")
	}
	if state, why := b.d.Health(); state != HealthDegraded {
		b.t.Errorf("health %s: %s", state, why)
	}
	// The host path works on.
	in := b.copies(2, 5000)
	in.run()
	if in.exact() != 0 {
		b.t.Errorf("the host path: %v", in.items[0].Err)
	}
}

// mustStayBanned opens the GPU anew in the same process.
func (b *bench) mustStayBanned(x *directBatch) {
	b.t.Helper()
	d, err := OpenDevice(b.x.Open(b.t), 0, Options{Clock: b.clock, CuFileLogDir: b.t.TempDir()})
	if err != nil {
		b.t.Fatal(err)
	}
	if st := d.AllowDirect(b.dir, b.good()).Status(); st.State != RouteBanned || st.Name != "hung" {
		b.t.Errorf("a new device in the same process: %+v", st)
	}
	if err := d.Close(context.Background()); err != nil {
		b.t.Error(err)
	}
}

// TestFaultHangsAreBounded: past a number of calls that hang, nothing is tried
// any more, on any file system.
func TestFaultHangsAreBounded(t *testing.T) {
	tally := faulttest.New(t)
	f := tally.Try("every read hangs")
	const most = 3
	b := newBench(t, func(o *Options) { o.SetAsideMax, o.ReadsMax = most, most })
	x := b.reads(most, false)
	r := b.allow()
	same := b.d.AllowDirect(b.dir+"/same", b.good())
	other := b.good()
	other.Key.Device = "8:2"
	elsewhere := b.d.AllowDirect(b.dir+"/other", other)
	b.x.Set("cuFileRead", gputest.Fault{Kind: gputest.Hang})
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.d.ReadDirect(context.Background(), r, x.items)
	}()
	b.x.WaitHanging(most)
	f.Fire()
	b.advanceUntil(done)
	if x.exact() != most {
		t.Error("a read that hung was done")
	}
	for _, r := range []*Route{r, same, elsewhere} {
		if st := r.Status(); st.State != RouteBanned {
			t.Errorf("%+v", st)
		}
	}
	if st := b.d.Stats(); st.SetAside != most || st.ReadsHung != most || st.Landing.SetAsideBytes == 0 || st.RoutesBanned != 3 {
		t.Errorf("%+v", st)
	}
	b.closeWithHung(x)
	f.Survive()
}

// TestFaultDirectLost: a device that dies in a direct read is lost, not the
// route.
func TestFaultDirectLost(t *testing.T) {
	tally := faulttest.New(t)
	for _, call := range []string{"cuFileRead", "cuMemcpyDtoDAsync_v2", "cuEventQuery"} {
		t.Run(call, func(t *testing.T) {
			f := tally.Try("719 in " + call)
			b := newBench(t, nil)
			r, x := b.allow(), b.reads(8, false)
			b.x.Set(call, gputest.Fault{Kind: gputest.Lost, From: 2})
			x.run(r)
			if b.x.Fired(call) > 0 {
				f.Fire()
			}
			lost := 0
			for i := range x.items {
				err := x.items[i].Err
				if errors.Is(err, ErrDeviceLost) {
					lost++
				} else if err != nil && !(directFault{code: 5011}).matches(err) { // that cuFile says of itself
					t.Errorf("read %d: %v", i, err)
				}
			}
			if lost == 0 {
				t.Error("no read says that the device is lost")
			}
			if state, why := b.d.Health(); state != HealthLost {
				t.Errorf("health %s: %s", state, why)
			}
			b.free()
			if err := b.d.Close(context.Background()); !errors.Is(err, ErrLeaked) {
				t.Errorf("Close: %v", err)
			}
			f.Survive()
		})
	}
}

// TestFaultDeregisterHangs: who forgets a file does not wait for cuFile, and a
// file that cannot be closed is the last one that is opened.
func TestFaultDeregisterHangs(t *testing.T) {
	tally := faulttest.New(t)
	f := tally.Try("cuFileHandleDeregister hangs")
	b := newBench(t, nil)
	r, x := b.allow(), b.reads(1, false)
	x.run(r)
	if x.exact() != 0 {
		t.Fatal(x.items[0].Err)
	}
	b.x.Set("cuFileHandleDeregister", gputest.Fault{Kind: gputest.Hang, Count: 1})
	r.Forget(x.items[0].File)
	b.x.WaitHanging(1)
	f.Fire()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		b.d.closing.Wait()
	}()
	b.advanceUntil(closed)
	if st := b.d.Stats(); st.SetAside != 1 {
		t.Errorf("%+v", st)
	}
	b.mustBeBanned(r)
	b.closeWithHung(x)
	f.Survive()
}

// TestFaultLostDeviceClosesFiles: a device that died gives back the files that
// it has open, as they take space on the disk.
func TestFaultLostDeviceClosesFiles(t *testing.T) {
	tally := faulttest.New(t)
	f := tally.Try("719 in a copy")
	b := newBench(t, nil)
	x := b.reads(1, false)
	before := b.openFiles()
	x.run(b.allow())
	if x.exact() != 0 || b.openFiles() == before {
		t.Fatalf("%v, %d files open", x.items[0].Err, b.openFiles()-before)
	}
	in := b.copies(1, 5000)
	b.x.Set("cuMemcpyHtoDAsync_v2", gputest.Fault{Kind: gputest.Lost})
	in.run()
	if b.x.Fired("cuMemcpyHtoDAsync_v2") > 0 {
		f.Fire()
	}
	if !errors.Is(in.items[0].Err, ErrDeviceLost) {
		t.Errorf("%v, want ErrDeviceLost", in.items[0].Err)
	}
	b.free()
	if err := b.d.Close(context.Background()); !errors.Is(err, ErrLeaked) {
		t.Errorf("Close: %v", err)
	}
	if n := b.openFiles() - before; n != 0 {
		t.Errorf("%d files are still open", n)
	}
	f.Survive()
}
