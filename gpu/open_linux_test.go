package gpu

import (
	"errors"
	"fmt"
	"testing"

	"github.com/sealstone/sealstone/gpu/driver"
	"github.com/sealstone/sealstone/gpu/gputest"
	"github.com/sealstone/sealstone/internal/faults/faulttest"
)

// TestFaultOpenDevice fails each call that opening makes: the error says which,
// and nothing is left.
func TestFaultOpenDevice(t *testing.T) {
	tally := faulttest.New(t)
	for _, c := range []struct {
		call string
		at   int
	}{{"cuDevicePrimaryCtxRetain", 1}, {"cuDeviceGetUuid_v2", 1}, {"cuStreamCreate", 1}, {"cuStreamCreate", 3}, {"cuEventCreate", 1}, {"cuEventCreate", 2}} {
		f := tally.Try(fmt.Sprintf("%s fails at %d", c.call, c.at))
		x := gputest.Build(t)
		d := x.Open(t)
		x.Set(c.call, gputest.Fault{Code: 2, From: c.at, Count: 1})
		_, err := OpenDevice(d, 0, Options{})
		if x.Fired(c.call) > 0 {
			f.Fire()
		}
		var e *driver.Error
		if !errors.As(err, &e) || e.Code != 2 {
			t.Errorf("%s at %d: %v", c.call, c.at, err)
		}
		x.Check(t)
		f.Survive()
	}
}

// TestOpenDevice: what a device says of itself.
func TestOpenDevice(t *testing.T) {
	b := newBench(t, nil)
	defer b.close()
	if _, err := OpenDevice(b.x.Open(t), 99, Options{}); err == nil {
		t.Error("device 99 was opened")
	}
	info := b.d.Info()
	if b.d.UUID() != UUIDString(info.UUID) || info.Name == "" || b.d.Context() == nil {
		t.Errorf("%s: %+v", b.d.UUID(), info)
	}
	if b.d.Routes() != nil {
		t.Error("routes without a verdict")
	}
	b.allow()
	b.d.AllowDirect(b.dir+"/other", Verdict{State: VerdictRefused, Name: "x"})
	if all := b.d.Routes(); len(all) != 2 || all[0].State != RouteProven || all[1].State != RouteRefused {
		t.Errorf("%+v", all)
	}
	b.d.CountFellBack(2, 300)
	if st := b.d.Stats().Direct; st.FellBack != 2 || st.FellBackBytes != 300 {
		t.Errorf("%+v", st)
	}
}
