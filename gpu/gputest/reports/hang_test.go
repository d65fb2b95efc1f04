package reports_test

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/gpu"
	"github.com/sealstone/sealstone/gpu/gputest"
	"github.com/sealstone/sealstone/internal/faults/faulttest"
)

// eventually waits for something that happens by itself; the bound catches a
// hang.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !ok(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("hangs: waiting until " + what)
		}
	}
}

// TestFaultGPUHang: a read of cuFile that never returns, in the middle of a
// batch. It is given up, its block comes through the host, and the path is
// banned for the life of the process, with its memory set aside.
func TestFaultGPUHang(t *testing.T) {
	tally := faulttest.New(t)
	eachKernel(t, func(t *testing.T, specs []string, _ bool) {
		s := newStore(t)
		s.putMatrix()
		x := build(t, specs)
		d := openDevice(t, x, 0, func(o *gpu.Options) { o.Events = s.store.DeviceEvent })
		f := tally.Try("a read hangs, " + t.Name())
		route := d.allow(s.dir)
		all := shapes()[2].want(d)
		x.Set("cuFileRead", gputest.Fault{Kind: gputest.Hang, From: faultAt, Count: 1})
		done := make(chan []engine.DeviceGetResult, 1)
		go func() { done <- s.get(d, all) }()
		x.WaitHanging(1)
		f.Fire()
		// Time passes only when nothing else is under way that it could be held
		// against, and when the read that hangs is waited for.
		eventually(t, "the others have arrived", func() bool {
			return d.dev.Stats().Direct.Done == batchBlocks-1 && d.clock.waiting(hangTimeout) == 1
		})
		d.clock.advance(hangTimeout)
		// It gets a little longer, in case the process stood still; the other
		// one that waits is the watchdog.
		eventually(t, "the time is up", func() bool { return d.clock.waiting(hangTimeout/4) == 2 })
		d.clock.advance(hangTimeout / 4)
		results, fellBack := <-done, 0
		for i, r := range results {
			if all[i].judge(t, d, r); r.Status != engine.StatusOK {
				t.Errorf("block %d: %v", i, r.Err)
			}
			if r.FellBack {
				fellBack++
			}
		}
		st := s.store.Stats()
		if fellBack != 1 || st.CuFile.Failed != 1 || st.CuFile.FellBack != 1 || st.CuFile.Verified != batchBlocks-1 {
			t.Errorf("%d fell back, %+v", fellBack, st.CuFile)
		}
		if state := route.Status().State; state != gpu.RouteBanned {
			t.Errorf("the route is %s", state)
		}
		if d.dev.AllowDirect(s.dir, d.proven(s.dir)); d.dev.Route(s.dir) != nil {
			t.Error("a new verdict lifts the ban")
		}
		for i, r := range s.get(d, all[:3]) {
			if all[i].judge(t, d, r); r.Status != engine.StatusOK || r.Path != engine.PathHostBounce || r.FellBack {
				t.Errorf("after the ban: %+v", r)
			}
		}
		x.Release()
		x.Idle()
		for i := range all {
			all[i].judge(t, d, results[i]) // what came so late hit none of them
		}
		if err := d.dev.Close(t.Context()); !errors.Is(err, gpu.ErrLeaked) {
			t.Errorf("Close says nothing of what is set aside: %v", err)
		}
		if !t.Failed() {
			f.Survive()
		}
	})
}

// TestFaultGPULost: the device dies in the middle of a batch, while blocks come
// directly and while they come through the host. What is OK is whole, the rest
// is a miss, and every later call is one at once.
func TestFaultGPULost(t *testing.T) {
	tally := faulttest.New(t)
	eachKernel(t, func(t *testing.T, specs []string, _ bool) {
		s := newStore(t)
		s.putMatrix()
		for _, direct := range []bool{false, true} {
			for _, call := range []string{"cuMemcpyHtoDAsync_v2", "cuMemcpyDtoDAsync_v2"} {
				if direct && call == "cuMemcpyHtoDAsync_v2" {
					continue
				}
				f := tally.Try(call + ", " + t.Name())
				x := build(t, specs)
				d := openDevice(t, x, 0, func(o *gpu.Options) { o.Events = s.store.DeviceEvent })
				if direct {
					d.allow(s.dir)
				}
				all := shapes()[2].want(d)
				x.Set(call, gputest.Fault{Kind: gputest.Lost, Code: 719, From: faultAt, Count: 1})
				missed := 0
				for i, r := range s.get(d, all) {
					if r.Status == engine.StatusOK {
						all[i].judge(t, d, r)
						continue
					}
					if missed++; r.Status != engine.StatusMiss || !errors.Is(r.Err, gpu.ErrDeviceLost) {
						t.Errorf("block %d: %v %v", i, r.Status, r.Err)
					}
				}
				if x.Fired(call) > 0 && missed > 0 {
					f.Fire()
				}
				for _, r := range s.get(d, all) {
					if r.Status != engine.StatusMiss || !errors.Is(r.Err, gpu.ErrDeviceLost) {
						t.Errorf("afterwards: %v %v", r.Status, r.Err)
					}
				}
				if st := s.store.Stats(); st.Quarantined != 0 || s.store.Health().State != engine.HealthOK || len(s.store.Health().Reasons) == 0 {
					t.Errorf("%d quarantined, %+v", st.Quarantined, s.store.Health())
				}
				d.close()
				if !t.Failed() {
					f.Survive()
				}
			}
		}
	})
}
