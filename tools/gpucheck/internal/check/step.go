package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// State is how a step ended.
type State string

// States of a step.
const (
	StateDone         State = "done"
	StateNotAvailable State = "not available"
	StateBroken       State = "broken" // wrong bytes, or a promise not kept
)

// Step is one step of the run.
type Step struct {
	Name    string  `json:"name"`
	GPU     string  `json:"gpu,omitempty"` // UUID, where it is about one
	State   State   `json:"state"`
	Reason  string  `json:"reason,omitempty"`
	Seconds float64 `json:"seconds"`
}

// errBroken marks what must not happen on any machine.
var errBroken = errors.New("broken")

// brokenf makes an error that ends its step as StateBroken.
func brokenf(format string, args ...any) error {
	return fmt.Errorf("%w: %w", errBroken, fmt.Errorf(format, args...))
}

// grace is how long a step may take to notice that its time is over.
const grace = 5 * time.Second

// runner runs one step after the other.
type runner struct {
	config Config
	report *Report
	grace  time.Duration
	// stuck are steps that did not come back, by GPU; those without a GPU
	// stop everything.
	stuck map[string]string
}

// apply puts what a step found into the report. It runs in the runner's
// goroutine, and not at all for a step that came back too late.
type apply func(*Report)

// try runs a step for at most limit. It returns whether it is done.
func (r *runner) try(ctx context.Context, name, gpu string, limit time.Duration, f func(ctx context.Context) (apply, error)) bool {
	r.config.Progress(strings.TrimSpace(name + " " + gpu))
	began := time.Now()
	s := Step{Name: name, GPU: gpu, State: StateDone}
	put, err := r.bounded(ctx, name, gpu, limit, f)
	switch {
	case err == nil:
	case errors.Is(err, errBroken):
		s.State, s.Reason = StateBroken, err.Error()
	default:
		s.State, s.Reason = StateNotAvailable, err.Error()
	}
	if put != nil {
		put(r.report)
	}
	s.Seconds = time.Since(began).Seconds()
	r.report.Steps = append(r.report.Steps, s)
	return s.State == StateDone
}

// bounded is f with a deadline. A step may have found something before it
// failed: then it returns both.
func (r *runner) bounded(ctx context.Context, name, gpu string, limit time.Duration, f func(ctx context.Context) (apply, error)) (apply, error) {
	for _, of := range []string{gpu, ""} {
		if step, ok := r.stuck[of]; ok {
			return nil, fmt.Errorf("not tried: the step %q did not come back", step)
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("not tried: %w", context.Cause(ctx))
	}
	type outcome struct {
		put apply
		err error
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no end within %v", limit))
	defer cancel()
	done := make(chan outcome, 1)
	go func() {
		put, err := f(ctx)
		done <- outcome{put, err}
	}()
	select {
	case o := <-done:
		return o.put, late(ctx, o.err)
	case <-ctx.Done():
	}
	select {
	case o := <-done:
		return o.put, late(ctx, o.err)
	case <-time.After(r.grace):
		r.stuck[gpu] = name
		return nil, fmt.Errorf("%w: a call did not return", context.Cause(ctx))
	}
}

// late adds to the error of a step why it was ended, if it was.
func late(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w (%w)", err, context.Cause(ctx))
}

// broken counts the steps that ended so.
func broken(steps []Step) int {
	return len(slices.DeleteFunc(slices.Clone(steps), func(s Step) bool { return s.State != StateBroken }))
}
