package engine

import (
	"context"
	"fmt"
	"sync"
)

// Op is an operation for Store.Submit: a *GetOp or a *PutOp.
type Op interface {
	do()
	namespace() *Namespace
}

// GetOp is a Namespace.Get to be submitted.
type GetOp struct {
	Namespace *Namespace
	Context   context.Context // nil means context.Background()
	Blocks    []GetBlock
	Options   GetOptions
	Results   []GetResult // set before done is called
}

// PutOp is a Namespace.Put to be submitted.
type PutOp struct {
	Namespace *Namespace
	Context   context.Context
	Blocks    []PutBlock
	Options   PutOptions
	Results   []PutResult
}

func (o *GetOp) do() { o.Results = o.Namespace.Get(orBackground(o.Context), o.Blocks, o.Options) }
func (o *PutOp) do() { o.Results = o.Namespace.Put(orBackground(o.Context), o.Blocks, o.Options) }

func (o *GetOp) namespace() *Namespace {
	if o == nil {
		return nil
	}
	return o.Namespace
}

func (o *PutOp) namespace() *Namespace {
	if o == nil {
		return nil
	}
	return o.Namespace
}

func orBackground(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}

// Submit queues an operation and returns at once. For every operation that it
// accepts, done is called exactly once, on a goroutine of the store, after the
// results are set; from then on the store does not touch the operation's
// memory. It must not block. An error (ErrShed with a full queue, ErrClosed,
// ErrInvalid without a namespace or a done) means that the operation was not accepted, and done is never called.
func (s *Store) Submit(op Op, done func()) error {
	if op == nil || op.namespace() == nil || done == nil {
		return invalidf("Submit needs an operation with a namespace, and a done to call")
	}
	return s.queue.put(submitted{op, done})
}

type submitted struct {
	op   Op
	done func()
}

// submitWorkers bounds the submitted operations that run at a time.
const submitWorkers = 32

// submitQueue is a bounded queue with workers that start as work comes in.
type submitQueue struct {
	mu      sync.Mutex
	jobs    []submitted
	open    int // accepted and not completed: waiting or running
	limit   int
	workers int
	closed  bool
	idle    chan struct{} // closed when closed and no worker is left
}

func newSubmitQueue(limit int) *submitQueue {
	return &submitQueue{limit: limit, idle: make(chan struct{})}
}

func (q *submitQueue) put(job submitted) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return ErrClosed
	}
	if q.open >= q.limit {
		return fmt.Errorf("%w: %d operations are submitted and not completed (SubmitQueue)", ErrShed, q.limit)
	}
	q.open++
	q.jobs = append(q.jobs, job)
	if q.workers < submitWorkers {
		q.workers++
		go q.work()
	}
	return nil
}

func (q *submitQueue) work() {
	for {
		q.mu.Lock()
		if len(q.jobs) == 0 {
			q.workers--
			if q.closed && q.workers == 0 {
				close(q.idle)
			}
			q.mu.Unlock()
			return
		}
		job := q.jobs[0]
		q.jobs = q.jobs[1:]
		q.mu.Unlock()
		job.op.do()
		q.mu.Lock()
		q.open-- // before done, which may submit the next operation
		q.mu.Unlock()
		job.done()
	}
}

// close refuses new work and waits for what was accepted: each still gets its
// completion, StatusClosed if it comes too late for more.
func (q *submitQueue) close(ctx context.Context) error {
	q.mu.Lock()
	if !q.closed {
		q.closed = true
		if q.workers == 0 {
			close(q.idle)
		}
	}
	q.mu.Unlock()
	select {
	case <-q.idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (q *submitQueue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.jobs)
}
