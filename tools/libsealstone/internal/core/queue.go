package core

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"
)

// queue runs jobs on a bounded number of goroutines and keeps their completions
// until they are drained. What it holds is bounded twice, in jobs and in bytes,
// from submit to drain: who does not drain is shed.
type queue struct {
	limit      int
	limitBytes int64
	workersMax int
	classMax   int // workers that one class may have
	timeout    time.Duration
	bell       bell
	do         func(ctx context.Context, q *queued) ([]Result, []reason)

	mu      sync.Mutex
	nextID  uint64
	open    int // submitted and not drained
	bytes   int64
	waiting [classes]list.List // of *queued
	running [classes]int
	workers int
	done    []*Completion // oldest first
	closed  bool
	idle    chan struct{} // closed when no job waits or runs; nil until somebody waits for that
	kept    reasonRing
	count   queueCounts
}

// queueCounts are the figures of a queue.
type queueCounts struct {
	Submitted, Completed, Drained, Shed, Expired int64
}

// bell wakes the host. Its methods are called under the queue's lock.
type bell interface {
	ring()  // a completion came
	quiet() // none waits any more
}

// queued is a job in the queue.
type queued struct {
	id       uint64
	job      *Job
	space    space
	cost     int64
	deadline time.Time
	expiry   *time.Timer
	at       *list.Element // nil: it runs, or has ended
}

func newQueue(o *options, b bell, do func(context.Context, *queued) ([]Result, []reason)) *queue {
	return &queue{
		limit: o.queueOperations, limitBytes: o.queueBytes, workersMax: o.workers,
		classMax: max(1, o.workers*3/4), timeout: o.callTimeout, bell: b, do: do,
	}
}

// submit takes a job in and never blocks. An error means that it was not taken
// and nothing will come of it.
func (q *queue) submit(sp space, j *Job) (uint64, *Error) {
	cost, timeout := j.cost(), j.Timeout
	if timeout == 0 {
		timeout = q.timeout
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return 0, failf(Closed, "the store is closed or closing")
	case q.open >= q.limit:
		q.count.Shed++
		return 0, failf(Shed, "%d operations are submitted and not drained (queue_operations)", q.open)
	case q.open > 0 && cost > q.limitBytes-q.bytes:
		q.count.Shed++
		return 0, failf(Shed, "%d bytes are submitted and not drained, %d more are over queue_bytes", q.bytes, cost)
	}
	q.nextID++
	it := &queued{id: q.nextID, job: j, space: sp, cost: cost, deadline: time.Now().Add(timeout)}
	q.open++
	q.bytes += cost
	q.count.Submitted++
	it.at = q.waiting[j.Op.class()].PushBack(it)
	it.expiry = time.AfterFunc(timeout, func() { q.expire(it) })
	if q.workers < q.workersMax {
		q.workers++
		go q.work()
	}
	return it.id, nil
}

// expire ends a job that waited for its turn until its time was over.
func (q *queue) expire(it *queued) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if it.at == nil {
		return
	}
	q.waiting[it.job.Op.class()].Remove(it.at)
	it.at = nil
	q.count.Expired++
	results, reasons := unfinished(it.id, it.job, Timeout, "it waited for its turn until its time was over: the store is busy, or its device hangs")
	q.completeLocked(it, results, reasons)
}

func (q *queue) work() {
	for {
		q.mu.Lock()
		it := q.nextLocked()
		if it == nil {
			q.workers--
			q.mu.Unlock()
			return
		}
		q.mu.Unlock()
		ctx, cancel := context.WithDeadline(context.Background(), it.deadline)
		results, reasons := q.do(ctx, it)
		cancel()
		q.mu.Lock()
		q.running[it.job.Op.class()]--
		q.completeLocked(it, results, reasons)
		q.mu.Unlock()
	}
}

// nextLocked takes the job that is to run next: of a class that has none
// running, so that none is starved, else of the most urgent. A class never has
// all workers: reads that hang in a device hold up no look-up.
func (q *queue) nextLocked() *queued {
	pick := -1
	for c := range classes {
		switch {
		case q.waiting[c].Len() == 0 || q.running[c] >= q.classMax:
		case q.running[c] == 0:
			return q.takeLocked(c)
		case pick < 0:
			pick = c
		}
	}
	if pick < 0 {
		return nil
	}
	return q.takeLocked(pick)
}

func (q *queue) takeLocked(class int) *queued {
	it := q.waiting[class].Remove(q.waiting[class].Front()).(*queued)
	it.at = nil
	it.expiry.Stop()
	q.running[class]++
	return it
}

func (q *queue) completeLocked(it *queued, results []Result, reasons []reason) {
	c := &Completion{
		ID: it.id, UserData: it.job.UserData, Op: it.job.Op, Status: OK,
		Results: results, reasons: reasons, cost: it.cost,
	}
	for _, r := range results {
		if r.Status == OK {
			c.OKs++
		} else if c.Status == OK {
			c.Status = r.Status
		}
	}
	it.job, it.space = &Job{Op: it.job.Op}, nil // the caller's memory is its own again
	q.done = append(q.done, c)
	q.count.Completed++
	q.bell.ring()
	if q.idle != nil && q.idleLocked() {
		close(q.idle)
		q.idle = nil
	}
}

func (q *queue) idleLocked() bool { return q.count.Submitted == q.count.Completed }

// drain takes completions, oldest first, up to most of them with room results
// together. With none and needed > 0 the first needs that much room.
func (q *queue) drain(most, room int) (taken []*Completion, needed int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for n < len(q.done) && n < most && len(q.done[n].Results) <= room {
		c := q.done[n]
		room -= len(c.Results)
		q.open--
		q.bytes -= c.cost
		for _, r := range c.reasons {
			q.kept.add(r)
		}
		n++
	}
	if n == 0 {
		if len(q.done) > 0 {
			needed = len(q.done[0].Results)
		}
		return nil, needed
	}
	taken = append([]*Completion(nil), q.done[:n]...)
	clear(q.done[:n])
	q.done = q.done[n:]
	q.count.Drained += int64(n)
	if len(q.done) == 0 {
		q.done = nil
		q.bell.quiet()
	}
	return taken, 0
}

// reason is why an item that was drained was not OK; false: not kept.
func (q *queue) reason(op uint64, item uint32) (string, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.kept.find(op, item)
}

// waitIdle waits until no job waits or runs.
func (q *queue) waitIdle(ctx context.Context) error {
	for {
		q.mu.Lock()
		if q.idleLocked() {
			q.mu.Unlock()
			return nil
		}
		if q.idle == nil {
			q.idle = make(chan struct{})
		}
		idle := q.idle
		q.mu.Unlock()
		select {
		case <-idle:
		case <-ctx.Done():
			return fmt.Errorf("operations are under way: %w", ctx.Err())
		}
	}
}

// close refuses jobs from now on; those that were taken come to their ends.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

// discard drops the completions that nobody has drained, when no job waits or
// runs any more. The bell is not touched from then on: it can be closed.
func (q *queue) discard() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.done = nil
}

// QueueStats are figures of a queue at one moment.
type QueueStats struct {
	Open      int   `json:"operations_open"` // submitted and not drained
	OpenMax   int   `json:"operations_max"`
	Bytes     int64 `json:"bytes_open"`
	BytesMax  int64 `json:"bytes_max"`
	Running   int   `json:"running"`
	Workers   int   `json:"workers"`
	Undrained int   `json:"undrained"`
	Submitted int64 `json:"submitted"`
	Completed int64 `json:"completed"`
	Drained   int64 `json:"drained"`
	Shed      int64 `json:"shed"`
	Expired   int64 `json:"expired"` // timed out before their turn
}

func (q *queue) stats() QueueStats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := QueueStats{
		Open: q.open, OpenMax: q.limit, Bytes: q.bytes, BytesMax: q.limitBytes, Workers: q.workers,
		Undrained: len(q.done), Submitted: q.count.Submitted, Completed: q.count.Completed,
		Drained: q.count.Drained, Shed: q.count.Shed, Expired: q.count.Expired,
	}
	for _, n := range q.running {
		s.Running += n
	}
	return s
}
