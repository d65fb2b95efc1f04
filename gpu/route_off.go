package gpu

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/sealstone/sealstone/gpu/driver"
)

// judge takes the outcome of one direct read: wrong bytes turn the route off at
// once, errors after some in a row, a call that hung for good.
func (r *Route) judge(ctx context.Context, err error) {
	switch {
	case err == nil:
		r.mu.Lock()
		r.errors = 0
		r.mu.Unlock()
	case isMismatch(err):
		if !canaryLaw2 {
			r.turnOff(RouteDemoted, EventRouteDemoted, err)
		}
	case isHung(err):
		r.ban(err)
	case ctx.Err() == nil && speaksOfRoute(err):
		r.mu.Lock()
		r.errors++
		n := r.errors
		r.mu.Unlock()
		if n >= r.d.o.DirectErrorsMax {
			r.turnOff(RouteDemoted, EventRouteDemoted, fmt.Errorf("%d direct reads failed in a row, the last one: %w", n, err))
		}
	}
}

// speaksOfRoute says whether an error tells something about the route: not one
// that another read has counted, nor one of the caller or of the whole device,
// nor that the device or a bound leaves no room now.
func speaksOfRoute(err error) bool {
	var shared sharedError
	if errors.As(err, &shared) {
		return false
	}
	for _, other := range []error{ErrDeviceLost, ErrInvalid, ErrRouteOff, ErrClosed} {
		if errors.Is(err, other) {
			return false
		}
	}
	var e *driver.Error
	isDriver := errors.As(err, &e)
	if errors.Is(err, ErrExhausted) {
		return isDriver && e.Domain != driver.DomainCUDA
	}
	return true
}

// turnOff changes the state of a proven route and says so; false if it was off.
func (r *Route) turnOff(state RouteState, kind EventType, why error) bool {
	d := r.d
	r.mu.Lock()
	was := r.status.State
	if was == RouteBanned || was == state || state == RouteDemoted && was != RouteProven {
		r.mu.Unlock()
		return false
	}
	r.status.State, r.status.When = state, d.o.Clock.Now()
	r.status = r.status.failed(why)
	st := r.status
	r.mu.Unlock()
	if state == RouteBanned {
		d.count.banned.Add(1)
		banned.mu.Lock()
		banned.why[bannedRoute{d.uuid, st.Dir}] = st
		banned.mu.Unlock()
	} else {
		d.count.demoted.Add(1)
	}
	d.event(kind, st.Dir, st.Reason)
	return true
}

// ban turns the route off for the life of the process, and with it the routes
// to other directories of the same file system. Past the bound on calls that
// hang, all routes of the device go.
func (r *Route) ban(why error) {
	d := r.d
	r.turnOff(RouteBanned, EventRouteBanned, why)
	full := d.count.setAside.Load() >= int64(d.o.SetAsideMax)
	for _, other := range d.routes.list() {
		if other == r {
			continue
		}
		switch {
		case r.fileSystem() != "" && other.fileSystem() == r.fileSystem():
			other.turnOff(RouteBanned, EventRouteBanned, fmt.Errorf("on the same file system: %w", why))
		case full:
			other.turnOff(RouteBanned, EventRouteBanned, fmt.Errorf("%d calls of cuFile did not return, as many as are borne: %w", d.o.SetAsideMax, why))
		}
	}
}

// banAll bans all routes after a call that hung, or gave nothing back, and that
// all of them need.
func (d *Device) banAll(why error) {
	for _, r := range d.routes.list() {
		r.turnOff(RouteBanned, EventRouteBanned, why)
	}
}

func (r *Route) fileSystem() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.device
}

// list are all routes, by directory.
func (t *routeTable) list() []*Route {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []*Route
	for _, dir := range slices.Sorted(maps.Keys(t.all)) {
		out = append(out, t.all[dir])
	}
	return out
}

// offReason is why a route was turned off at run time, if one was.
func (t *routeTable) offReason() string {
	for _, r := range t.list() {
		if st := r.Status(); st.State == RouteDemoted || st.State == RouteBanned {
			return fmt.Sprintf("direct reads of %s are %s: %s", st.Dir, st.State, st.Reason)
		}
	}
	return ""
}

// closeRoutes closes all files of all routes.
func (d *Device) closeRoutes() error {
	var errs []error
	for _, r := range d.routes.list() {
		errs = append(errs, r.handles.close())
	}
	d.closing.Wait()
	return errors.Join(errs...)
}
