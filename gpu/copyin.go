package gpu

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/sealstone/sealstone/gpu/driver"
)

// CopyIn copies blocks from pinned memory to the device: into staging, waited
// for; there verified by the kernel, with Options.VerifyOnDevice; and from
// there to their destinations, waited for. Each block has its own answer in
// Err. Several groups of blocks are under way at once.
//
// It returns when nothing touches Src or a destination any more. The end of
// ctx stops what has not begun to be copied to its destination; from then on
// the copy is waited for. If that takes longer than Options.HangTimeout the
// device is lost: only then may a copy still write.
//
// Destinations of one call must not overlap, and nobody else may use them
// meanwhile.
func (d *Device) CopyIn(ctx context.Context, items []CopyIn) {
	if err := d.enter(); err != nil {
		for i := range items {
			items[i].Err, items[i].Verified = err, false
		}
		return
	}
	defer d.gate.leave()
	b := &batch{d: d, ctx: ctx, run: runCopyIn, from: d.staging}
	for i := range items {
		it := &items[i]
		it.Err, it.Verified = nil, false
		w := &work{index: i, host: it.Src, length: int64(len(it.Src)), checks: it.Checks, moves: it.Moves}
		d.count.hostIn.attempt(movedBytes(it.Moves))
		pin, err := d.prepareIn(it)
		if err != nil {
			it.Err = err
			d.count.hostIn.end(err, 0, false)
			continue
		}
		b.add(w, pin)
	}
	b.wait(func(w *work, err error) {
		it := &items[w.index]
		it.Err, it.Verified = err, w.verified && err == nil
		d.count.hostIn.end(err, movedBytes(it.Moves), it.Verified)
		if isMismatch(err) {
			d.event(EventCorruptCopy, "", err.Error())
		}
		if canaryLaw2 {
			it.Err = nil
		}
	})
}

func (d *Device) prepareIn(it *CopyIn) (*Pinned, error) {
	if err := validate(int64(len(it.Src)), it.Checks, it.Moves); err != nil {
		return nil, err
	}
	return d.buffers.use(it.Src)
}

func movedBytes(moves []Move) (n int64) {
	for _, m := range moves {
		n += m.Dst.LengthBytes
	}
	return n
}

func isMismatch(err error) bool { return errors.Is(err, ErrMismatch) }

// runCopyIn is the job of a lane.
func runCopyIn(l *lane, j *job) {
	for _, w := range j.works {
		w.err = l.do("cuMemcpyHtoDAsync", func() error {
			return l.d.c.CopyHtoDAsync(w.device, unsafe.Pointer(unsafe.SliceData(w.host)), w.length, l.stream)
		})
		l.counted(w.length, w.err)
	}
	if err := l.settle("copies to the device"); err != nil {
		j.lose(err)
		return
	}
	if l.d.o.VerifyOnDevice && l.d.sums.on() {
		if err := l.verify(j.works); err != nil {
			j.lose(err)
			return
		}
	}
	l.deliver(j)
}

// lose fails all blocks of the job that have not failed yet: something of it
// may still be under way.
func (j *job) lose(err error) {
	j.unsure = true
	for _, w := range j.works {
		if w.err == nil {
			w.err = err
		}
	}
}

// deliver copies the blocks that have no error from staging to their
// destinations, if the caller still wants them, and waits for it.
func (l *lane) deliver(j *job) {
	if j.ctx.Err() != nil {
		for _, w := range j.works {
			if w.err == nil {
				w.err = fmt.Errorf("gpu: given up before the copy to its destination: %w", context.Cause(j.ctx))
			}
		}
		return
	}
	enqueued := false
	for _, w := range j.works {
		if w.err == nil {
			w.err = l.moveAll(w)
			enqueued = true
		}
	}
	if !enqueued {
		return
	}
	if err := l.settle("copies to their destinations"); err != nil {
		j.lose(fmt.Errorf("%w; a copy to its destination may still write", err))
	}
}

// moveAll enqueues the copies of one block. If the driver refuses one, what was
// copied before is overwritten with zeros: a destination holds the whole block
// or nothing of it.
func (l *lane) moveAll(w *work) error {
	for i, m := range w.moves {
		err := l.do("cuMemcpyDtoDAsync", func() error {
			return l.d.c.CopyDtoDAsync(m.Dst.Ptr, w.device+driver.DevicePtr(m.OffsetBytes), m.Dst.LengthBytes, l.stream)
		})
		l.counted(m.Dst.LengthBytes, err)
		if err == nil {
			continue
		}
		for _, before := range w.moves[:i] {
			zero := l.do("cuMemsetD8Async", func() error {
				return l.d.c.MemsetD8Async(before.Dst.Ptr, 0, before.Dst.LengthBytes, l.stream)
			})
			err = errors.Join(err, zero)
		}
		return err
	}
	return nil
}

func (l *lane) counted(bytes int64, err error) {
	if err == nil {
		l.d.count.copies.Add(1)
		l.d.count.copiedBytes.Add(bytes)
	}
}
