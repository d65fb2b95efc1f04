package gpu

import "time"

// Clock is the time that timeouts are measured by. Tests set one that stands
// still, so that a slow machine is not taken for a hang.
type Clock interface {
	Now() time.Time
	// After returns a channel that gets a value once d has passed, and a
	// function that ends the wait.
	After(d time.Duration) (<-chan time.Time, func())
}

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) After(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}
