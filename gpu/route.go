package gpu

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/sealstone/sealstone/gpu/driver"
)

// RouteState says whether files of a directory may be read straight into a
// device.
type RouteState string

const (
	// RouteProven: a canary passed, and nothing has gone wrong since.
	RouteProven RouteState = "proven"
	// RouteRefused: the verdict says no, or this process cannot do it.
	RouteRefused RouteState = "refused"
	// RouteDemoted: it gave wrong bytes, or too many errors; a new verdict may
	// turn it on again.
	RouteDemoted RouteState = "demoted"
	// RouteBanned: a call did not return; it stays off in this process.
	RouteBanned RouteState = "banned"
)

// RouteStatus is the state of a route and where it comes from.
type RouteStatus struct {
	Dir    string     `json:"dir"`
	State  RouteState `json:"state"`
	Code   int        `json:"code,omitempty"` // of the call that failed, else 0
	Name   string     `json:"name,omitempty"` // of the code, or a word such as wrong-bytes
	Reason string     `json:"reason,omitempty"`
	When   time.Time  `json:"when"`
}

// Route is the direct path between one directory and one device. A proven one
// is permission to try: what is read is verified each time.
type Route struct {
	d       *Device
	device  string // of the file system, as the verdict says; empty if unknown
	handles handleCache

	mu     sync.Mutex
	status RouteStatus
	errors int // since the last good read
}

// routeTable are the routes of a device by directory.
type routeTable struct {
	mu  sync.Mutex
	all map[string]*Route
}

// banned are the routes that hung in this process, for its life: also a Device
// that is opened anew must not try them.
var banned = struct {
	mu  sync.Mutex
	why map[bannedRoute]RouteStatus
}{why: map[bannedRoute]RouteStatus{}}

type bannedRoute struct{ gpu, dir string }

// AllowDirect takes the verdict of a canary on this GPU and a directory, and
// turns the route on if it says proven, nothing hung there in this process,
// and cuFile can be opened in its strict mode here too. A later verdict
// replaces an earlier one. Status says what became of it. The first one opens
// cuFile, which may take as long as Options.HangTimeout.
func (d *Device) AllowDirect(dir string, v Verdict) *Route {
	dir = wholePath(dir)
	r := d.routeOf(dir)
	if d.gate.enter() {
		defer d.gate.leave()
	}
	st := d.judgeVerdict(dir, v)
	r.mu.Lock()
	if r.status.State == RouteBanned {
		st = r.status
	}
	news := st.State != r.status.State
	r.status, r.errors, r.device = st, 0, v.Key.Device
	r.mu.Unlock()
	switch {
	case !news:
	case st.State == RouteProven:
		d.event(EventRouteProven, dir, v.String())
	case st.State == RouteRefused:
		d.event(EventRouteRefused, dir, st.Reason)
	}
	return r
}

// wholePath names a directory in one way, whether the caller's path is relative
// or not.
func wholePath(dir string) string {
	if whole, err := filepath.Abs(dir); err == nil {
		return whole
	}
	return filepath.Clean(dir)
}

func (d *Device) routeOf(dir string) *Route {
	d.routes.mu.Lock()
	defer d.routes.mu.Unlock()
	r := d.routes.all[dir]
	if r == nil {
		r = &Route{d: d}
		r.handles.init(r)
		if d.routes.all == nil {
			d.routes.all = map[string]*Route{}
		}
		d.routes.all[dir] = r
	}
	return r
}

// judgeVerdict is the state that a verdict leads to.
func (d *Device) judgeVerdict(dir string, v Verdict) RouteStatus {
	st := RouteStatus{Dir: dir, State: RouteRefused, Code: v.Code, Name: v.Name, Reason: v.Reason, When: d.o.Clock.Now()}
	banned.mu.Lock()
	before, isBanned := banned.why[bannedRoute{d.uuid, dir}]
	banned.mu.Unlock()
	switch {
	case isBanned:
		return before
	case d.usable() != nil:
		return st.failed(d.usable())
	case v.State == VerdictProven && !v.Proven(d.uuid):
		st.Name, st.Reason = "other-gpu", fmt.Sprintf("the verdict is of %s, this is %s", v.Key.GPU, d.uuid)
		return st
	case !v.Proven(d.uuid):
		if st.Reason == "" {
			st.Name, st.Reason = "not-tried", "no canary has passed"
		}
		return st
	case d.ordersNothing():
		st.Name, st.Reason = "no-order", "the GPU does not order writes of other devices before its own reads, and offers no flush to the host"
		return st
	}
	if err := d.openFiles(); err != nil {
		return st.failed(err)
	}
	st.State = RouteProven
	return st
}

// failed is the status with an error as the reason.
func (st RouteStatus) failed(err error) RouteStatus {
	var e *driver.Error
	if errors.As(err, &e) {
		st.Code, st.Name = e.Code, e.Name
	} else {
		st.Code, st.Name = 0, wordFor(err)
	}
	st.Reason = err.Error()
	return st
}

// wordFor names an error that is no code of a driver.
func wordFor(err error) string {
	for _, w := range []struct {
		err  error
		word string
	}{
		{ErrMismatch, "wrong-bytes"}, {ErrHung, "hung"}, {ErrShort, "short-read"},
		{ErrNotStrict, "compat-mode"}, {driver.ErrUnavailable, "no-library"}, {ErrExhausted, "no-memory"},
	} {
		if errors.Is(err, w.err) {
			return w.word
		}
	}
	return "error"
}

// ordersNothing says that bytes of another device's DMA may be seen too late by
// kernels of this one, and that nothing can be done about it (CUDA driver API,
// attributes GPU_DIRECT_RDMA_WRITES_ORDERING and _FLUSH_WRITES_OPTIONS).
func (d *Device) ordersNothing() bool {
	return d.needsFlush() && d.info.Attributes.FlushWritesOptions&driver.FlushHost == 0
}

func (d *Device) needsFlush() bool {
	return d.info.Attributes.WritesOrdering < driver.OrderingOwner
}

// Route is the route by which files of a directory may be read straight into
// the device now; nil: they go through the host.
func (d *Device) Route(dir string) *Route {
	d.routes.mu.Lock()
	r := d.routes.all[wholePath(dir)]
	d.routes.mu.Unlock()
	if r == nil || r.usable() != nil {
		return nil
	}
	return r
}

// Routes are the states of all routes that there was a verdict for.
func (d *Device) Routes() []RouteStatus {
	var out []RouteStatus
	for _, r := range d.routes.list() {
		out = append(out, r.Status())
	}
	return out
}

// Status is the state of the route now.
func (r *Route) Status() RouteStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// Forget closes the file, if the route has it open: it is about to go away,
// and would take space on the disk as long. A read that uses it ends first,
// and nobody waits for that here.
func (r *Route) Forget(file FileID) {
	if r.d.gate.enter() { // else Close does it
		defer r.d.gate.leave()
		r.handles.forget(file)
	}
}

// usable is why no direct read may begin; nil if one may.
func (r *Route) usable() error {
	st := r.Status()
	if st.State == RouteProven {
		return nil
	}
	return fmt.Errorf("%w for %s: %s since %s: %s", ErrRouteOff, st.Dir, st.State, st.When.UTC().Format(time.RFC3339), st.Reason)
}
