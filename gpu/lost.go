package gpu

import (
	"errors"
	"fmt"
	"time"
)

// HealthState is how a device is.
type HealthState string

const (
	// HealthOK: everything that was allowed works.
	HealthOK HealthState = "ok"
	// HealthDegraded: direct reads of a directory were turned off at run time,
	// or the kernel was; the host path does the work.
	HealthDegraded HealthState = "degraded"
	// HealthLost: the device answers no more, see ErrDeviceLost.
	HealthLost HealthState = "lost"
)

// Health is the state of the device and, if it is not ok, why.
func (d *Device) Health() (HealthState, string) {
	if err := d.lostErr(); err != nil {
		return HealthLost, err.Error()
	}
	if why := d.routes.offReason(); why != "" {
		return HealthDegraded, why
	}
	if why := d.sums.failure(); why != "" {
		return HealthDegraded, "the verify kernel is off: " + why
	}
	return HealthOK, ""
}

// lostErr is why the device is lost, or nil.
func (d *Device) lostErr() error {
	if err := d.lost.Load(); err != nil {
		return *err
	}
	return nil
}

// lose declares the device lost, for good. It says why in every later error.
func (d *Device) lose(why error) error {
	if !errors.Is(why, ErrDeviceLost) {
		why = fmt.Errorf("%w: %w", ErrDeviceLost, why)
	}
	err := fmt.Errorf("gpu: %s is lost: %w", d.uuid, why)
	if !d.lost.CompareAndSwap(nil, &err) {
		return d.lostErr()
	}
	close(d.lostCh)
	d.pinned.stop(err)
	d.staging.stop(err)
	d.inspection.stop(err)
	d.landing.pool.stop(err)
	d.event(EventDeviceLost, "", err.Error())
	return err
}

// judge looks at what a call of the driver returned.
func (d *Device) judge(err error) error {
	if err != nil && isLost(err) {
		return d.lose(err)
	}
	return err
}

// guard makes a call of the driver that may block, outside a lane, and waits
// for it no longer than Options.HangTimeout. What f uses must be its own: it
// may still run after that.
func (d *Device) guard(what string, f func() error) error {
	if err := d.lostErr(); err != nil {
		return err
	}
	if returned, err := d.inTime(f); returned {
		return d.judge(err)
	}
	return d.lose(fmt.Errorf("%s did not return within %v", what, d.o.HangTimeout))
}

// inTime runs f and says whether it returned within Options.HangTimeout, or
// soon after it: the whole process may have stood still meanwhile.
func (d *Device) inTime(f func() error) (returned bool, err error) {
	done := make(chan error, 1)
	go func() { done <- f() }()
	for _, wait := range []time.Duration{d.o.HangTimeout, d.quarter()} {
		late, stop := d.o.Clock.After(wait)
		select {
		case err := <-done:
			stop()
			return true, err
		case <-late:
		}
	}
	return false, nil
}

// watch looks for calls of the lanes that do not return, until the device is
// closed.
func (d *Device) watch() {
	for {
		tick, stop := d.o.Clock.After(d.quarter())
		select {
		case <-tick:
		case <-d.stopCh:
			stop()
			return
		}
		now := d.o.Clock.Now()
		for _, l := range d.lanes {
			l.abandonIfHung(now)
		}
	}
}

func (d *Device) event(kind EventType, dir, reason string) {
	d.o.Events(Event{Type: kind, Time: d.o.Clock.Now(), GPU: d.uuid, Dir: dir, Reason: reason})
}
