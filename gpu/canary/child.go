package canary

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/sealstone/sealstone/gpu"
)

// AnswerFD is the descriptor on which the child finds the pipe for its answer.
// Standard output will not do: the libraries of the driver write to it.
const AnswerFD = 3

var errParentGone = errors.New("the process that asked for the trial is gone")

// Child is the other side of [Prober.Probe]: it reads a request from in, does
// the trial in this process, and writes what it finds to out. The process must
// have been started for that alone: cuFile's settings belong to all of it, and
// it must close out and end when Child returns, even where a call into a
// library did not. The end of in says that the parent is gone. The error is nil
// once a verdict was written.
func Child(ctx context.Context, in io.Reader, out io.Writer) error {
	r, err := readRequest(in)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(r.TimeoutMs)*time.Millisecond, errors.New("its time is over"))
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		_, _ = io.Copy(io.Discard, in)
		stop(errParentGone)
	}()
	w := &answerWriter{out: out}
	done := make(chan gpu.Verdict, 1)
	go func() {
		// Where nobody reads, the verdict cannot be written either.
		t := newTrial(r, func(m message) { _ = w.write(m) })
		done <- t.run(ctx)
	}()
	select {
	case v := <-done:
		return w.write(message{Nonce: r.Nonce, Verdict: &v})
	case <-ctx.Done():
		// The trial looks at the context between its calls, so it ends now
		// unless one of them hangs.
		select {
		case v := <-done:
			return w.write(message{Nonce: r.Nonce, Verdict: &v})
		case <-time.After(r.grace()):
			return errors.Join(w.write(message{Hung: true}), fmt.Errorf("canary: a call does not return: %w", context.Cause(ctx)))
		}
	}
}

const (
	// childGrace is how long a trial that is told to end may take, if it was
	// given much time.
	childGrace = 2 * time.Second
	// parentGrace is how long the parent waits beyond the time of a trial,
	// which includes childGrace, and again for a child to end after its answer.
	parentGrace = 5 * time.Second
	// killGrace is how long it waits for a child that was killed. One that
	// hangs within the kernel does not end.
	killGrace = 5 * time.Second
)

// grace is how long a call may take once the time is over, before it hangs.
func (r request) grace() time.Duration {
	return min(childGrace, time.Duration(r.TimeoutMs)*time.Millisecond/4)
}

// answerWriter writes messages whole, a line each.
type answerWriter struct {
	mu  sync.Mutex
	out io.Writer
}

func (w *answerWriter) write(m message) error {
	line, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("canary: answer: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err = w.out.Write(append(line, '\n'))
	return err
}
