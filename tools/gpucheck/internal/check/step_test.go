package check

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func testRunner() *runner {
	return &runner{config: Config{}.withDefaults(), report: &Report{}, grace: time.Minute, stuck: map[string]string{}}
}

func TestStepStates(t *testing.T) {
	cases := []struct {
		name string
		err  error
		want State
	}{
		{"done", nil, StateDone},
		{"an error", errors.New("no such thing"), StateNotAvailable},
		{"wrong bytes", brokenf("byte %d is wrong", 7), StateBroken},
		{"wrong bytes beside another error", errors.Join(errors.New("cleanup"), brokenf("wrong")), StateBroken},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			defer goleak.VerifyNone(t)
			r := testRunner()
			done := r.try(context.Background(), "step", "GPU-1", time.Minute, func(context.Context) (apply, error) {
				return func(p *Report) { p.Revision = "seen" }, c.err
			})
			s := r.report.Steps[0]
			if done != (c.err == nil) || s.State != c.want || s.Name != "step" || s.GPU != "GPU-1" || (s.Reason == "") != (c.err == nil) {
				t.Errorf("%+v", s)
			}
			if r.report.Revision != "seen" {
				t.Error("what the step found before it failed is lost")
			}
		})
	}
}

// A step that ends when its time is over is told so; one that does not is left
// behind, and nothing else is tried on its GPU.
func TestStepDeadlines(t *testing.T) {
	r := testRunner()
	r.try(context.Background(), "slow", "GPU-1", time.Nanosecond, func(ctx context.Context) (apply, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	hang := make(chan struct{})
	r.grace = time.Millisecond
	r.try(context.Background(), "hung", "GPU-1", time.Nanosecond, func(context.Context) (apply, error) {
		<-hang
		return func(p *Report) { p.Revision = "too late" }, nil
	})
	r.grace = time.Minute
	step := func(context.Context) (apply, error) { return nil, nil }
	r.try(context.Background(), "next", "GPU-1", time.Minute, step)
	r.try(context.Background(), "other", "GPU-2", time.Minute, step)
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("the store closes"))
	r.try(ctx, "late", "GPU-2", time.Minute, step)
	close(hang)
	goleak.VerifyNone(t)
	want := []struct {
		state State
		text  string
	}{
		{StateNotAvailable, "no end within 1ns"},
		{StateNotAvailable, "did not return"},
		{StateNotAvailable, `"hung" did not come back`},
		{StateDone, ""},
		{StateNotAvailable, "the store closes"},
	}
	for i, s := range r.report.Steps {
		if s.State != want[i].state || !strings.Contains(s.Reason, want[i].text) {
			t.Errorf("%+v, want %+v", s, want[i])
		}
	}
	if r.report.Revision != "" {
		t.Error("a step that was given up changed the report")
	}
}

// A step without a GPU that hangs ends everything: the driver itself is stuck.
func TestStepHungDriverEndsAll(t *testing.T) {
	r := testRunner()
	r.grace = time.Millisecond
	hang := make(chan struct{})
	r.try(context.Background(), "libcuda", "", time.Nanosecond, func(context.Context) (apply, error) { <-hang; return nil, nil })
	close(hang)
	r.try(context.Background(), "copies", "GPU-2", time.Minute, func(context.Context) (apply, error) {
		t.Error("tried")
		return nil, nil
	})
	goleak.VerifyNone(t)
}

func TestMeasure(t *testing.T) {
	calls := 0
	s, err := measure(context.Background(), "copy", 1<<20, time.Nanosecond, func() error { calls++; return nil })
	if err != nil || s.Repetitions != repetitionsMin || calls != repetitionsMin+1 {
		t.Errorf("%+v after %d calls: %v", s, calls, err)
	}
	if s.What != "copy" || s.Bytes != 1<<20 || s.BestMicros > s.MedianMicros || s.GBs <= 0 {
		t.Errorf("%+v", s)
	}
	broken := errors.New("broken")
	if _, err := measure(context.Background(), "", 1, time.Hour, func() error { return broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if _, err := measure(ctx, "", 1, time.Hour, func() error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
