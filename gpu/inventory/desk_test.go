package inventory

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// children are what this binary may be instead of a test, each by a variable
// of the environment.
var children []func() bool

func TestMain(m *testing.M) {
	for _, child := range children {
		if child() {
			return
		}
	}
	goleak.VerifyTestMain(m)
}

// TestDeskHung: a call that never returns is given up, what was learned before
// it is kept, and nobody is sent after it.
func TestDeskHung(t *testing.T) {
	release := make(chan struct{})
	loads := 0
	o := Options{Root: t.TempDir(), desk: newDesk(), Timeout: 50 * time.Millisecond, nvml: func() (walker, error) {
		loads++
		return func(n *notebook) {
			n.write(func() { n.gpus = append(n.gpus, GPU{UUID: "GPU-first"}); n.nvml.DriverVersion = "1" })
			n.begin("nvmlDeviceGetName")
			<-release
			// Too late: nobody may see it.
			n.write(func() { n.gpus = append(n.gpus, GPU{UUID: "GPU-late"}) })
			if n.begin("nvmlDeviceGetUUID") {
				t.Error("a call begins after the notes were taken")
			}
		}, nil
	}}
	r, err := Read(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.NVML.State != NVMLHung || !strings.Contains(r.NVML.Reason, "nvmlDeviceGetName did not return within 50ms") || r.NVML.DriverVersion != "1" {
		t.Errorf("%+v", r.NVML)
	}
	if len(r.GPUs) != 1 || r.GPUs[0].UUID != "GPU-first" {
		t.Errorf("%+v", r.GPUs)
	}
	o.Timeout = time.Hour // not waited for
	again, err := Read(t.Context(), o)
	if err != nil || again.NVML.State != NVMLHung || !strings.Contains(again.NVML.Reason, "does not ask again") || len(again.GPUs) != 0 {
		t.Errorf("%+v, %v", again, err)
	}
	close(release)
	o.desk.turn <- struct{}{} // the first one is gone
	if loads != 1 || len(r.GPUs) != 1 {
		t.Errorf("%d loads, %+v", loads, r.GPUs)
	}
}

// TestDeskGivenUp: who gives up gets his error at once; the next one waits for
// the goroutine that is still inside.
func TestDeskGivenUp(t *testing.T) {
	inside, release := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("given up")
	o := Options{Root: t.TempDir(), desk: newDesk(), nvml: func() (walker, error) {
		return func(*notebook) { close(inside); <-release }, nil
	}}
	go func() {
		<-inside
		cancel(stop)
	}()
	if _, err := Read(ctx, o); !errors.Is(err, stop) {
		t.Fatalf("%v", err)
	}
	waiting, cancelWaiting := context.WithCancel(t.Context())
	cancelWaiting()
	o.nvml = func() (walker, error) { return func(*notebook) {}, nil }
	if _, err := Read(waiting, o); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	close(release)
	r, err := Read(t.Context(), o)
	if err != nil || r.NVML.State != NVMLReady {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestDeskWaitsInTime: an earlier question that hangs makes the next one hang
// too, within its own time.
func TestDeskWaitsInTime(t *testing.T) {
	d := newDesk()
	d.turn <- struct{}{}
	v, _, _ := d.ask(func() (walker, error) { t.Error("asked"); return nil, nil }, time.Millisecond, nil)
	if v.State != NVMLHung || !strings.Contains(v.Reason, "an earlier question did not return") {
		t.Errorf("%+v", v)
	}
}

// TestReadNothing: an empty host is a report of what is not there.
func TestReadNothing(t *testing.T) {
	r, err := Read(t.Context(), Options{
		Root: t.TempDir(), desk: newDesk(), Directories: []string{"/none"},
		nvml: func() (walker, error) { return nil, &absent{"no library"} },
		stat: func(string) (uint32, uint32, error) { return 0, 0, errors.New("no such directory") },
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.NVML.State != NVMLAbsent || r.NVML.Reason != "no library" || len(r.GPUs) != 0 || r.GPUs == nil || r.Pairs == nil || r.Links == nil {
		t.Errorf("%+v", r)
	}
	if d := r.Directories[0]; d.Reason != "no such directory" || d.Controllers == nil {
		t.Errorf("%+v", d)
	}
	// Where nothing can be read nothing speaks for a real machine.
	if !r.Virtual.Suspected || !strings.Contains(r.Virtual.Signals[0], "/proc/cpuinfo cannot be read") {
		t.Errorf("%+v", r.Virtual)
	}
}
