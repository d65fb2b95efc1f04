package gpu

import (
	"context"
	"errors"
	"fmt"
)

// Close ends the device: no call begins any more, those under way are waited
// for until ctx ends, and everything goes back to the driver. The error names
// what does not, ErrLeaked: buffers that were not freed and by whom they were
// taken, and what was set aside after a call that hung. A lost device gives
// nothing back, and says so; the memory that it may still write to stays
// mapped. After a Close that ctx ended another one may go on; else it does
// nothing.
func (d *Device) Close(ctx context.Context) error {
	d.gate.close()
	d.closeMu.Lock()
	defer d.closeMu.Unlock()
	if d.closed {
		return nil
	}
	select {
	case <-d.gate.idle:
	case <-ctx.Done():
		return fmt.Errorf("%w: calls are still under way, so nothing was given back: %w", ErrLeaked, context.Cause(ctx))
	}
	d.closed = true
	errs := []error{d.closeRoutes()}
	close(d.jobs)
	hung := d.awaitLanes()
	close(d.stopCh)
	d.stopped.Wait()
	lost := d.lostErr()
	errs = append(errs, d.pinned.close(lost != nil), d.staging.close(lost != nil), d.inspection.close(lost != nil), d.landing.pool.close(lost != nil))
	if lost != nil || hung {
		return errors.Join(append(errs, fmt.Errorf("%w: the context and the memory of %s: %w", ErrLeaked, d.uuid, lost))...)
	}
	held := errors.Join(errs...) != nil
	kept := d.keptLanding.Load() + d.count.setAside.Load()
	if kept == 0 {
		errs = append(errs, d.files.close(d))
	}
	errs = append(errs, d.sums.close(d))
	for _, l := range d.lanes {
		errs = append(errs, l.destroy())
	}
	if held || kept > 0 {
		// What is left may still be used, by its owner or by a call that hung.
		// The end of the context would give it to somebody else.
		return errors.Join(append(errs, fmt.Errorf("%w: the context of %s is kept, with %d files or buffers set aside", ErrLeaked, d.uuid, kept))...)
	}
	return errors.Join(append(errs, d.guard("cuDevicePrimaryCtxRelease", d.c.Release))...)
}

// awaitLanes waits for the goroutines of the lanes, and says whether one hangs
// in a call.
func (d *Device) awaitLanes() (hung bool) {
	for _, l := range d.lanes {
		select {
		case <-l.ended:
		case <-d.lostCh:
			// One that does not hang ends soon: every call fails now.
			late, stop := d.o.Clock.After(d.o.HangTimeout)
			select {
			case <-l.ended:
			case <-late:
				hung = true
			}
			stop()
		}
	}
	return hung
}
