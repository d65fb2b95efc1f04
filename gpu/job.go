package gpu

import (
	"context"
	"sync/atomic"

	"github.com/sealstone/sealstone/gpu/driver"
)

// job is a group of blocks that one lane takes through all steps. The lane
// works on the job's own copy of everything, so that a caller whose job was
// abandoned to a call that hung may go on.
type job struct {
	ctx   context.Context
	run   func(l *lane, j *job)
	works []*work
	// memory and pins are in use until the job ends.
	memory *piece
	pins   []*Pinned
	// unsure says that something may still be under way: then the memory of
	// the job is set aside.
	unsure bool
	state  atomic.Int32
	done   chan struct{}
}

const (
	jobRunning int32 = iota
	jobDone
	jobAbandoned
)

// work is one block of a job.
type work struct {
	index    int // of the caller's item
	host     []byte
	device   driver.DevicePtr // of the block in staging
	length   int64
	landed   driver.DevicePtr // of a direct read
	checks   []Check
	moves    []Move
	sources  []Span
	planes   []int64
	wantSums bool

	err      error
	verified bool
	sums     []uint64
	onDevice bool
}

func newJob(ctx context.Context, run func(*lane, *job)) *job {
	return &job{ctx: ctx, run: run, done: make(chan struct{})}
}

// finish ends the job, unless it was abandoned, and gives its memory back.
func (j *job) finish() {
	if !j.state.CompareAndSwap(jobRunning, jobDone) {
		return
	}
	if j.unsure {
		j.setAside()
	} else {
		if j.memory != nil {
			j.memory.give()
		}
		for _, b := range j.pins {
			b.unuse(false)
		}
	}
	close(j.done)
}

// setAside keeps the memory of the job for good, since something may still
// touch it.
func (j *job) setAside() {
	if j.memory != nil {
		j.memory.setAside("copies that did not end")
	}
	for _, b := range j.pins {
		b.unuse(true)
	}
}

// abandon ends the job for its caller while its lane hangs.
func (j *job) abandon() {
	if j.state.CompareAndSwap(jobRunning, jobAbandoned) {
		close(j.done)
	}
}

func (j *job) abandoned() bool { return j.state.Load() == jobAbandoned }

// submit hands the job to a lane. An error says that none took it.
func (d *Device) submit(j *job) error {
	select {
	case d.jobs <- j:
		return nil
	case <-j.ctx.Done():
		return context.Cause(j.ctx)
	case <-d.lostCh:
		return d.lostErr()
	}
}
