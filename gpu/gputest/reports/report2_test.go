package reports_test

import (
	"context"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/gpu"
	"github.com/sealstone/sealstone/gpu/canary"
	"github.com/sealstone/sealstone/gpu/canary/canarytest"
	"github.com/sealstone/sealstone/gpu/gputest"
	"github.com/sealstone/sealstone/internal/faults/faulttest"
)

const (
	gpus   = 8
	badGPU = 5 // its near path drops data and reports success
)

// TestReport2NearPath: of eight GPUs one has a near path that drops what is read
// into it, and reports success. The field had checked the host once, and it
// passed. Here each GPU is checked with the store's directory: seven read
// directly, one through the host, and all have the right bytes. Then a path
// turns bad that had passed: the first read that brings wrong bytes turns it
// off, and its blocks come through the host in the same call.
func TestReport2NearPath(t *testing.T) {
	checkLeaks(t)
	defer checkLogs(t)
	tally := faulttest.New(t)
	s, x := newStore(t), gputest.Build(t)
	s.putMatrix()
	x.Configure("devices=8,cuFileRead=stale/5")
	prober, err := canary.New(canarytest.Options(t, x))
	if err != nil {
		t.Fatal(err)
	}
	bad := tally.Try("one of eight GPUs drops what is read into it")
	proven := 0
	var devices []*deviceRig
	for i := range gpus {
		d := openDevice(t, x, i, func(o *gpu.Options) { o.Events = s.store.DeviceEvent })
		devices = append(devices, d)
		v, err := prober.Probe(context.Background(), d.dev.UUID(), s.dir)
		if err != nil {
			t.Fatal(err)
		}
		route := d.dev.AllowDirect(s.dir, v)
		if v.Proven(d.dev.UUID()) {
			proven++
		}
		if st := route.Status(); v.Proven(d.dev.UUID()) == (i == badGPU) || (st.State == gpu.RouteProven) == (i == badGPU) {
			t.Fatalf("GPU %d: %v; the route is %+v", i, v, st)
		} else if i == badGPU {
			bad.Fire()
		}
		path := engine.PathCuFile
		if i == badGPU {
			path = engine.PathHostBounce
		}
		all := []*wanted{d.whole(bigID, bigBytes), d.ranged(bigID, bigBytes), d.whole(i, smallBytes)}
		for j, r := range s.get(d, all) {
			if all[j].judge(t, d, r); r.Status != engine.StatusOK || r.Path != path || r.FellBack {
				t.Errorf("GPU %d: %+v", i, r)
			}
		}
	}
	if st := s.store.Stats(); proven != gpus-1 || st.CuFile.Verified != 3*(gpus-1) || st.HostBounce.Verified != 3 || st.CuFile.Corrupt != 0 || st.CuFile.FellBack != 0 {
		t.Errorf("%d are proven; direct %+v, host bounce %+v", proven, st.CuFile, st.HostBounce)
	}
	if !t.Failed() {
		bad.Survive()
	}
	turnsBad(t, s, devices[2], tally.Try("a path turns bad after the canary"))
	for _, d := range devices {
		d.close()
	}
	x.Check(t)
}

func turnsBad(t *testing.T, s *storeRig, d *deviceRig, f *faulttest.Fault) {
	t.Helper()
	before := s.store.Stats()
	d.x.Set("cuFileRead", gputest.Fault{Kind: gputest.Stale, Only: gputest.OnDevice(2)})
	all := []*wanted{d.whole(bigID, bigBytes)}
	r := s.get(d, all)[0]
	if all[0].judge(t, d, r); r.Status != engine.StatusOK || r.Path != engine.PathHostBounce || !r.FellBack {
		t.Errorf("%+v", r)
	}
	st := s.store.Stats()
	if st.CuFile.Corrupt != before.CuFile.Corrupt+1 || st.CuFile.FellBack != before.CuFile.FellBack+1 || st.CuFile.FellBackBytes != bigBytes || st.Quarantined != 0 {
		t.Errorf("direct %+v, %d quarantined", st.CuFile, st.Quarantined)
	}
	if st.CuFile.Corrupt > before.CuFile.Corrupt {
		f.Fire()
	}
	if r := d.dev.Route(s.dir); r != nil {
		t.Errorf("the path is used on: %+v", r.Status())
	}
	said := ""
	for _, e := range s.store.Events(0) {
		if e.Kind == engine.EventDevice && strings.Contains(e.Message, string(gpu.EventRouteDemoted)) {
			said = e.Message
		}
	}
	h := s.store.Health()
	if !strings.Contains(said, d.dev.UUID()) || !strings.Contains(said, s.dir) || h.State != engine.HealthOK || !strings.Contains(strings.Join(h.Reasons, "\n"), d.dev.UUID()) {
		t.Errorf("event %q, health %+v", said, h)
	}
	// It is off: the next get does not try it.
	r = s.get(d, all)[0]
	if all[0].judge(t, d, r); r.Status != engine.StatusOK || r.Path != engine.PathHostBounce || r.FellBack || s.store.Stats().CuFile.Attempted != st.CuFile.Attempted {
		t.Errorf("%+v", r)
	}
	d.x.Clear()
	if !t.Failed() {
		f.Survive()
	}
}
