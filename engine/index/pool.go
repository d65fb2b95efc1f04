package index

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// pool runs calls into Pebble on a bounded number of goroutines. A caller
// whose context ends goes its way; the call keeps its goroutine until Pebble
// returns, if it does.
type pool struct {
	queue chan func()
	stop  chan struct{}
	wg    sync.WaitGroup
	// running counts workers inside a call: what a close can not wait for.
	running atomic.Int64
}

func newPool(workers, queue int) *pool {
	p := &pool{queue: make(chan func(), queue), stop: make(chan struct{})}
	p.wg.Add(workers)
	for range workers {
		go p.work()
	}
	return p
}

func (p *pool) work() {
	defer p.wg.Done()
	for {
		select {
		case <-p.stop:
			return
		case fn := <-p.queue:
			p.running.Add(1)
			fn()
			p.running.Add(-1)
		}
	}
}

// errNotBegun is an ErrBusy of a call that no worker took, nor will.
var errNotBegun = fmt.Errorf("%w: not begun", ErrBusy)

// call runs fn on a worker and waits for it or for the context; if that ends
// before a worker has come to it, fn is not called. fn must not touch memory of
// the caller after the context may have ended.
func call[T any](ctx context.Context, d *DB, fn func() (T, error)) (T, error) {
	if ctx.Err() != nil {
		var zero T
		return zero, fmt.Errorf("%w: %w", errNotBegun, ctx.Err())
	}
	return submit(ctx, d, func() (T, error) {
		d.use.RLock()
		defer d.use.RUnlock()
		if d.gone {
			var zero T
			return zero, ErrClosed
		}
		return fn()
	})
}

// submit is call without a look at whether Pebble is still there.
func submit[T any](ctx context.Context, d *DB, fn func() (T, error)) (T, error) {
	var zero T
	if err := d.fail.err(); err != nil {
		return zero, err
	}
	type answer struct {
		v   T
		err error
	}
	done := make(chan answer, 1)
	var taken atomic.Bool // by a worker, or by the caller who gives it up
	job := func() {
		if taken.Swap(true) {
			return
		}
		v, err := guarded(d, fn)
		done <- answer{v, err}
	}
	select {
	case <-d.closing:
		return zero, ErrClosed
	default:
	}
	select {
	case d.pool.queue <- job:
	default:
		select {
		case d.pool.queue <- job:
		case <-ctx.Done():
			return zero, fmt.Errorf("%w: queue full: %w", errNotBegun, ctx.Err())
		case <-d.closing:
			return zero, ErrClosed
		}
	}
	select {
	case a := <-done:
		return a.v, a.err
	case <-ctx.Done():
		if err := d.fail.err(); err != nil {
			return zero, err
		}
		if !taken.Swap(true) {
			return zero, fmt.Errorf("%w: %w", errNotBegun, ctx.Err())
		}
		return zero, fmt.Errorf("%w: %w", ErrBusy, ctx.Err())
	case <-d.fail.now:
		return zero, d.fail.err()
	case <-d.closing:
		return zero, ErrClosed
	}
}

// guarded turns a panic on the worker's goroutine into a failed index. (A
// panic on a goroutine of Pebble's own can not be caught; see design.)
func guarded[T any](d *DB, fn func() (T, error)) (v T, err error) {
	defer func() {
		if r := recover(); r != nil {
			d.fail.set(fmt.Sprintf("panic in pebble: %v\n%s", r, debug.Stack()))
			err = d.fail.err()
		}
	}()
	return fn()
}
