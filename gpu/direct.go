package gpu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/sealstone/sealstone/gpu/driver"
)

const directAlignBytes = 4 << 10

// ReadDirect reads from files into the device by cuFile, without a copy in host
// memory. Each read lands in memory of its own that was overwritten before, is
// copied to memory where nothing else writes, verified there against Checks, and
// only then copied to
// its destinations and waited for. Each has its own answer in Err; on any error
// the same bytes may be had through the host, and the destinations are as they
// were, but where it is ErrDeviceLost.
//
// What goes wrong changes the route: wrong bytes demote it at once, as do
// Options.DirectErrorsMax errors in a row; a call that does not return bans it,
// and its buffer, descriptor and handle are set aside.
//
// ctx ends what has not begun; a read under way is waited for, at most for
// Options.HangTimeout.
func (d *Device) ReadDirect(ctx context.Context, r *Route, items []DirectRead) {
	err := d.enter()
	if err == nil {
		defer d.gate.leave()
		switch {
		case r == nil:
			err = fmt.Errorf("%w: no route", ErrRouteOff)
		case r.d != d:
			err = fmt.Errorf("%w: a route of another device", ErrInvalid)
		}
	}
	if err != nil {
		for i := range items {
			items[i].Err = err
		}
		return
	}
	var running sync.WaitGroup
	for i := range items {
		it := &items[i]
		bytes := movedBytes(it.Moves)
		d.count.direct.attempt(bytes)
		if it.Err = d.admitRead(ctx, r, it); it.Err != nil {
			d.count.direct.end(it.Err, 0, false)
			continue
		}
		running.Go(func() {
			defer func() { <-d.reads }()
			it.Err = d.readOne(ctx, r, *it)
			r.judge(ctx, it.Err)
			d.count.direct.end(it.Err, bytes, true)
			if canaryLaw2 {
				it.Err = nil
			}
		})
	}
	running.Wait()
}

// admitRead checks a read and takes a token for it.
func (d *Device) admitRead(ctx context.Context, r *Route, it *DirectRead) error {
	if err := it.validate(); err != nil {
		return err
	}
	if err := r.usable(); err != nil {
		return err
	}
	select {
	case d.reads <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-d.lostCh:
		return d.lostErr()
	}
	if err := ctx.Err(); err != nil {
		<-d.reads
		return context.Cause(ctx)
	}
	return nil
}

func (it *DirectRead) validate() error {
	if it.LengthBytes < 1 || it.LengthBytes%directAlignBytes != 0 || it.FileOffsetBytes < 0 || it.FileOffsetBytes%directAlignBytes != 0 {
		return fmt.Errorf("%w: a direct read of %d bytes at %d: both must be multiples of %d", ErrInvalid, it.LengthBytes, it.FileOffsetBytes, directAlignBytes)
	}
	if err := validate(it.LengthBytes, it.Checks, it.Moves); err != nil {
		return err
	}
	return covered(it.Checks, it.Moves)
}

// covered holds that no byte is moved that no check looked at.
func covered(checks []Check, moves []Move) error {
	byOffset := slices.SortedFunc(slices.Values(checks), func(a, b Check) int { return cmp.Compare(a.OffsetBytes, b.OffsetBytes) })
	for i, m := range moves {
		at, end := m.OffsetBytes, m.OffsetBytes+m.Dst.LengthBytes
		for _, c := range byOffset {
			if c.OffsetBytes <= at {
				at = max(at, c.OffsetBytes+c.LengthBytes)
			}
		}
		if at < end {
			return fmt.Errorf("%w: move %d: bytes from %d on have no check", ErrInvalid, i, at)
		}
	}
	return nil
}

// readOne takes one read through all its steps.
func (d *Device) readOne(ctx context.Context, r *Route, it DirectRead) error {
	if err := r.usable(); err != nil { // it may have been turned off meanwhile
		return err
	}
	slot, err := d.landing.pool.take(ctx, it.LengthBytes, "a direct read")
	if err != nil {
		return err
	}
	file, err := r.handles.use(it.FD, it.File)
	if err != nil {
		slot.give()
		return err
	}
	err = d.land(ctx, r, it, slot, file)
	if isHung(err) || isLost(err) {
		slot.setAside("a direct read that did not end")
		r.handles.setAside(file)
		return err
	}
	if err == nil {
		err = d.takeIn(ctx, it, driver.DevicePtr(slot.address()))
	}
	if isLost(err) {
		slot.setAside("a direct read that was not copied on")
	} else {
		slot.give()
	}
	r.handles.done(file)
	return err
}

// land reads the bytes into the slot.
func (d *Device) land(ctx context.Context, r *Route, it DirectRead, slot *piece, file *fileHandle) error {
	if err := d.poison(ctx, slot); err != nil {
		return err
	}
	d.count.reads.Add(1)
	base, handle, n := driver.DevicePtr(slot.region.base), file.handle, new(int64)
	err := d.fileCall("cuFileRead", func() (err error) {
		*n, err = d.files.lib.Read(d.context, handle, base, it.LengthBytes, it.FileOffsetBytes, slot.off)
		return err
	})
	switch {
	case isHung(err):
		d.count.readsHung.Add(1)
		return err
	case err != nil:
		d.count.readErrors.Add(1)
		return fmt.Errorf("gpu: direct read of %d bytes at %d: %w", it.LengthBytes, it.FileOffsetBytes, err)
	case *n != it.LengthBytes:
		d.count.readsShort.Add(1)
		return fmt.Errorf("%w: %d of %d bytes at %d", ErrShort, *n, it.LengthBytes, it.FileOffsetBytes)
	case d.needsFlush():
		d.count.flushes.Add(1)
		return d.guard("cuFlushGPUDirectRDMAWrites", d.c.FlushWrites)
	}
	return nil
}

// poison overwrites the slot, each time with another byte, so that bytes which
// do not arrive are not taken for those of the last read, which may be the
// same. cuFile is ordered with no stream, so it is waited for.
func (d *Device) poison(ctx context.Context, slot *piece) error {
	pattern := byte(d.poisons.Add(1)%255) + 1
	at, n := driver.DevicePtr(slot.address()), roundUp(slot.sizeBytes, landingUnitBytes)
	j := newJob(ctx, func(l *lane, j *job) {
		w := j.works[0]
		w.err = l.do("cuMemsetD8Async", func() error { return l.d.c.MemsetD8Async(at, pattern, n, l.stream) })
		if err := l.settle("overwriting a landing slot"); err != nil {
			j.lose(err)
		}
	})
	j.works = []*work{{}}
	if err := d.submit(j); err != nil {
		return err
	}
	<-j.done
	if j.abandoned() {
		return d.lostErr()
	}
	return j.works[0].err
}

// takeIn copies the bytes that have landed to inspection memory, verifies them there
// and delivers them. Staging never holds them: it is for verified bytes.
func (d *Device) takeIn(ctx context.Context, it DirectRead, landed driver.DevicePtr) error {
	b := &batch{d: d, ctx: ctx, run: runTakeIn, from: d.inspection}
	b.add(&work{length: it.LengthBytes, landed: landed, checks: it.Checks, moves: it.Moves}, nil)
	var err error
	b.wait(func(_ *work, werr error) { err = errors.Join(err, werr) })
	return err
}

// runTakeIn is the job of a lane.
func runTakeIn(l *lane, j *job) {
	for _, w := range j.works {
		w.err = l.do("cuMemcpyDtoDAsync", func() error { return l.d.c.CopyDtoDAsync(w.device, w.landed, w.length, l.stream) })
		l.counted(w.length, w.err)
	}
	if err := l.settle("copies out of landing memory"); err != nil {
		j.lose(err)
		return
	}
	if err := l.verify(j.works); err != nil {
		j.lose(err)
		return
	}
	l.deliver(j)
}
