package engine

import (
	"fmt"
	"sort"
	"sync"
)

// HealthState is how much of its work the store does.
type HealthState uint8

const (
	// HealthOK: reads and writes.
	HealthOK HealthState = iota + 1
	// HealthReadOnly: gets are answered, puts are shed.
	HealthReadOnly
	// HealthAllMiss: every get is a miss, every put is shed.
	HealthAllMiss
	// HealthClosed: the store was closed.
	HealthClosed
)

func (h HealthState) String() string {
	switch h {
	case HealthOK:
		return "ok"
	case HealthReadOnly:
		return "read-only"
	case HealthAllMiss:
		return "all-miss"
	case HealthClosed:
		return "closed"
	}
	return fmt.Sprintf("health %d", uint8(h))
}

// Health is the state and why it is not better.
type Health struct {
	State   HealthState
	Reasons []string
}

// health keeps one reason per cause; the worst decides.
type health struct {
	mu      sync.Mutex
	causes  map[string]cause
	closed  bool
	changed func(Health)
}

type cause struct {
	state  HealthState
	reason string
}

func (h *health) get() Health {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.locked()
}

func (h *health) locked() Health {
	out := Health{State: HealthOK}
	for _, c := range h.causes {
		out.State = max(out.State, c.state)
		out.Reasons = append(out.Reasons, c.reason)
	}
	if len(out.Reasons) > 1 { // asked at every put and get
		sort.Strings(out.Reasons)
	}
	if h.closed {
		out.State = HealthClosed
	}
	return out
}

// set records that cause holds the store at state; the first reason stays.
func (h *health) set(name string, state HealthState, format string, args ...any) {
	if canaryLaw5 {
		return
	}
	h.update(func() {
		if old, ok := h.causes[name]; ok && old.state >= state {
			return
		}
		if h.causes == nil {
			h.causes = map[string]cause{}
		}
		h.causes[name] = cause{state, fmt.Sprintf(format, args...)}
	})
}

func (h *health) clear(name string) { h.update(func() { delete(h.causes, name) }) }

func (h *health) close() { h.update(func() { h.closed = true }) }

func (h *health) update(fn func()) {
	h.mu.Lock()
	before := h.locked().State
	fn()
	after := h.locked()
	h.mu.Unlock()
	if after.State != before && h.changed != nil {
		h.changed(after)
	}
}

// Health tells the store's state. It never blocks.
func (s *Store) Health() Health { return s.health.get() }

// writable returns nil, or why puts are shed.
func (s *Store) writable() error {
	h := s.health.get()
	switch h.State {
	case HealthOK:
		return nil
	case HealthClosed:
		return ErrClosed
	}
	return fmt.Errorf("%w: %v", ErrReadOnly, h.Reasons)
}
