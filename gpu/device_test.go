package gpu

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/sealstone/sealstone/gpu/driver"
)

// TestDefaults: every bound of the zero Options is set, and nonsense is not one.
func TestDefaults(t *testing.T) {
	for _, o := range []Options{{}, {PinnedBytesMax: -1, Streams: -5, HangTimeout: -1, ReadsMax: -1}} {
		got := o.withDefaults()
		v := reflect.ValueOf(got)
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if k := f.Type.Kind(); (k == reflect.Int || k == reflect.Int64) && f.Name != "NUMANode" && v.Field(i).Int() <= 0 {
				t.Errorf("%s is %d", f.Name, v.Field(i).Int())
			}
		}
		if got.Clock == nil || got.Events == nil {
			t.Error("no clock or no place for events")
		}
	}
	o := Options{PinnedBytesMax: 100_000, PinnedChunkBytes: 1 << 30, ReadsMax: 9, HandlesMax: 2}.withDefaults()
	if o.PinnedChunkBytes > o.PinnedBytesMax || o.HandlesMax < o.ReadsMax {
		t.Errorf("%+v", o)
	}
}

func TestNUMANode(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"0000:17:00.0": "1\n", "0000:18:00.0": "-1\n", "0000:19:00.0": "what\n", "0000:1a:00.0": ""} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "numa_node"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]int{"0000:17:00.0": 1, "0000:18:00.0": -1, "0000:19:00.0": -1, "0000:1A:00.0": -1, "0000:ff:00.0": -1, "": -1} {
		if got := numaNode(dir, name); got != want {
			t.Errorf("node of %q is %d, want %d", name, got, want)
		}
	}
}

func TestUUIDString(t *testing.T) {
	u := [16]byte{0x0a, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f}
	if got := UUIDString(u); got != "GPU-0a010203-0405-0607-0809-0a0b0c0d0e0f" {
		t.Error(got)
	}
}

func TestSystemClock(t *testing.T) {
	c, stop := systemClock{}.After(time.Nanosecond)
	<-c
	stop()
	_, stop = systemClock{}.After(time.Hour)
	stop()
	if d := time.Since(systemClock{}.Now()); d < -time.Minute || d > time.Minute {
		t.Errorf("off by %v", d)
	}
}

// TestCloseWaits: Close waits for the call under way, gives up with its
// context, and may be called again.
func TestCloseWaits(t *testing.T) {
	r := newRig(t, nil)
	bs := r.blocks(1, 5000)
	its := items(bs)
	h := hang("h2d")
	r.g.before = func(call string, _ int) error {
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
	if err := r.d.Close(canceledContext()); !errors.Is(err, ErrLeaked) || !errors.Is(err, context.Canceled) {
		t.Errorf("Close while a call is under way: %v", err)
	}
	if _, err := r.d.TakePinned(t.Context(), 1); !errors.Is(err, ErrClosed) {
		t.Errorf("a call after it: %v", err)
	}
	close(h.letGo)
	<-done
	if its[0].Err != nil || r.state(&bs[0]) != "whole" {
		t.Errorf("the call under way: %v, %s", its[0].Err, r.state(&bs[0]))
	}
	bs[0].pin.Free()
	r.close()
	if err := r.d.Close(t.Context()); err != nil {
		t.Errorf("a third Close: %v", err)
	}
}

func canceledContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// TestSpeaksOfRoute: what is the route's fault, and what is not.
func TestSpeaksOfRoute(t *testing.T) {
	cuFile := &driver.Error{Domain: driver.DomainCuFile, Code: 5036}
	memory := &driver.Error{Domain: driver.DomainCUDA, Code: 2}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{ErrShort, true}, {cuFile, true}, {memory, true}, {errors.New("no O_DIRECT"), true},
		{errors.Join(ErrExhausted, cuFile), true}, {errors.Join(ErrExhausted, memory), false},
		{ErrExhausted, false}, {ErrTooLarge, false}, {sharedError{cuFile}, false},
		{ErrInvalid, false}, {ErrClosed, false}, {ErrRouteOff, false}, {ErrDeviceLost, false},
	} {
		if got := speaksOfRoute(c.err); got != c.want {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}
