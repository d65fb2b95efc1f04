package engine

import (
	"fmt"

	"github.com/sealstone/sealstone/gpu"
)

// DeviceEvent takes an event of a GPU into the store's ring, and into the
// reasons of its health where it says that a path is off: pass it as
// gpu.Options.Events. The state stays as it is, since the same bytes go
// another way. It does not block.
func (s *Store) DeviceEvent(e gpu.Event) {
	about := "GPU " + e.GPU
	if e.Dir != "" {
		about += ", direct reads of " + e.Dir
	}
	s.event(EventDevice, "%s: %s: %s", e.Type, about, e.Reason)
	cause := fmt.Sprint("gpu ", e.GPU, " ", e.Dir)
	switch e.Type {
	case gpu.EventRouteProven:
		s.health.clear(cause)
	case gpu.EventRouteDemoted, gpu.EventRouteBanned, gpu.EventDeviceLost:
		s.health.clear(cause) // a ban says more than the demotion before it
		s.health.set(cause, HealthOK, "%s: %s: %s", e.Type, about, e.Reason)
	}
}
