package gpu

import (
	"context"
	"fmt"

	"github.com/sealstone/sealstone/gpu/driver"
)

const (
	// groupBytes and groupWorks bound a job: long enough that the cost of its
	// events does not count, short enough that several lanes overlap.
	groupBytes = 4 << 20
	groupWorks = 64
)

// batch takes the blocks of one call to the lanes in groups. Each group has one
// piece of device memory, taken while the group holds nothing else, so that
// two callers never wait for each other.
type batch struct {
	d    *Device
	ctx  context.Context
	run  func(*lane, *job)
	from *pool // staging, or for direct reads inspection memory
	next []*work
	size int64
	pins []*Pinned
	jobs []*job
}

// add puts a block into the group at hand. pin, if not nil, is the buffer that
// its host memory lies in, of which a use has begun.
func (b *batch) add(w *work, pin *Pinned) {
	n := roundUp(w.length, stagingUnitBytes)
	if len(b.next) > 0 && (b.size+n > min(groupBytes, b.from.limit()) || len(b.next) == groupWorks) {
		b.flush()
	}
	b.next = append(b.next, w)
	b.size += n
	if pin != nil {
		b.pins = append(b.pins, pin)
	}
}

// flush hands the group to a lane, or fails it.
func (b *batch) flush() {
	if len(b.next) == 0 {
		return
	}
	works, size, pins := b.next, b.size, b.pins
	b.next, b.size, b.pins = nil, 0, nil
	j := newJob(b.ctx, b.run)
	j.works, j.pins = works, pins
	b.jobs = append(b.jobs, j)
	if err := b.start(j, size); err != nil {
		for _, w := range works {
			w.err = err
		}
		j.finish()
	}
}

func (b *batch) start(j *job, size int64) error {
	if err := b.ctx.Err(); err != nil {
		return context.Cause(b.ctx)
	}
	pc, err := b.from.take(b.ctx, size, "a group of copies")
	if err != nil {
		return err
	}
	j.memory = pc
	at := driver.DevicePtr(pc.address())
	for _, w := range j.works {
		w.device = at
		at += driver.DevicePtr(roundUp(w.length, stagingUnitBytes))
	}
	return b.d.submit(j)
}

// wait ends the call: nothing of it runs any more, or what does holds memory
// that is set aside. each is called with every block, in order.
func (b *batch) wait(each func(*work, error)) {
	b.flush()
	for _, j := range b.jobs {
		<-j.done
		if j.abandoned() {
			j.setAside()
			err := fmt.Errorf("%w; a copy that did not end may still write", b.d.lostErr())
			for _, w := range j.works { // which the lane may still write to
				each(&work{index: w.index, length: w.length}, err)
			}
			continue
		}
		for _, w := range j.works {
			each(w, w.err)
		}
	}
}
