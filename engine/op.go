package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// operation is a put or a get under way. The work runs on a goroutine of the
// store; its caller may leave when the context ends. From then on the work
// must not touch the caller's memory: it does so only between enter and exit,
// and enter fails after the caller left.
//
// Several goroutines of the work may be inside at a time, each with blocks of
// its own. Who is inside must not enter again: a caller that is leaving holds
// the door until all are out.
type operation struct {
	mu    sync.RWMutex
	left  bool
	ended bool
}

// enter begins to touch the caller's memory or results. It returns false if
// the caller has left.
func (op *operation) enter() bool {
	op.mu.RLock()
	if op.left {
		op.mu.RUnlock()
		return false
	}
	return true
}

func (op *operation) exit() { op.mu.RUnlock() }

// leave waits until the work is not inside: for a copy, or where the caller
// agreed to wait for the device (GetOptions.WaitForDevice), for its reads. The
// lane is told of work that then runs on.
func (op *operation) leave(in *lane) {
	op.mu.Lock()
	op.left = true
	hangs := !op.ended
	op.mu.Unlock()
	if hangs {
		in.count(1)
	}
}

// end is called when the work has ended.
func (op *operation) end(in *lane) {
	op.mu.Lock()
	op.ended = true
	left := op.left
	op.mu.Unlock()
	if left {
		in.count(-1)
	}
}

// opCounter counts operations running, for Close.
type opCounter struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // made for who waits, closed and forgotten at 0
}

func (c *opCounter) add() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
}

func (c *opCounter) done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n--; c.n == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}

// wait returns when nothing runs, or with the context's error.
func (c *opCounter) wait(ctx context.Context) error {
	c.mu.Lock()
	if c.n == 0 {
		c.mu.Unlock()
		return nil
	}
	if c.idle == nil {
		c.idle = make(chan struct{})
	}
	idle := c.idle
	c.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// errLeft: the caller's context ended before the work did.
type errLeft struct{ cause error }

func (e errLeft) Error() string { return "engine: gave up waiting: " + e.cause.Error() }
func (e errLeft) Unwrap() error { return e.cause }

// begin counts a call that Close waits for; ops.done ends it.
func (s *Store) begin() error {
	s.ops.add()
	if s.closing.Load() {
		s.ops.done()
		return ErrClosed
	}
	return nil
}

// run does work on a goroutine of the store, in a lane, and waits for it, or
// for ctx. If it returns an error the work was not begun (ErrClosed, ErrShed)
// or was left behind (errLeft); in the latter case results touched under enter
// are settled.
func (s *Store) run(ctx context.Context, in *lane, work func(ctx context.Context, op *operation)) error {
	return s.runFrom(ctx, in, nil, work)
}

// runFrom is run for work that may be at its end after a first part, which is
// done on the caller's goroutine: to start another and to wait for it costs
// more than many a lookup. That part waits for nothing longer than the context
// lasts, least of all for a device, and reports whether work is left.
func (s *Store) runFrom(ctx context.Context, in *lane, first func(ctx context.Context, op *operation) (more bool), work func(ctx context.Context, op *operation)) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if err := s.begin(); err != nil {
		return err
	}
	handedOn := false
	defer func() {
		if !handedOn {
			s.ops.done()
		}
	}()
	if err := in.enter(ctx); err != nil {
		return err
	}
	defer func() {
		if !handedOn {
			in.leave()
		}
	}()
	op := &operation{}
	if first != nil && !first(ctx, op) {
		return nil
	}
	handedOn = true
	finished := make(chan struct{})
	go func() {
		defer s.ops.done()
		defer in.leave()
		defer op.end(in)
		defer close(finished)
		work(ctx, op)
	}()
	select {
	case <-finished:
		return nil
	case <-ctx.Done():
	}
	// Results that were settled stand; what the work came to after this is
	// not seen any more, also if it has ended by now.
	op.leave(in)
	return errLeft{ctx.Err()}
}

// control does the work of an operator's call in the lane for such. A caller
// whose context ends leaves it behind; the error then wraps that of ctx.
func control[T any](ctx context.Context, s *Store, what string, work func(context.Context) (T, error)) (T, error) {
	var out T
	var failed error
	err := s.run(ctx, s.controls, func(ctx context.Context, op *operation) {
		v, err := work(ctx)
		if op.enter() {
			out, failed = v, err
			op.exit()
		}
	})
	if err != nil && !errors.Is(err, ErrClosed) {
		err = fmt.Errorf("engine: %s: %w", what, err)
	}
	if err == nil {
		err = failed
	}
	return out, err
}

// bounded gives a context without deadline the default one. One that has a
// deadline stays as it is: to derive another costs every call.
func (s *Store) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, s.o.CallTimeout)
}
