package gpu

import "time"

// EventType says what happened.
type EventType string

const (
	// EventDeviceLost: the device answers no more; see ErrDeviceLost.
	EventDeviceLost EventType = "gpu-lost"
	// EventRouteProven: direct reads of a directory are on.
	EventRouteProven EventType = "gpu-route-proven"
	// EventRouteRefused: a verdict keeps direct reads of a directory off.
	EventRouteRefused EventType = "gpu-route-refused"
	// EventRouteDemoted: direct reads are off until there is a new verdict,
	// after wrong bytes or too many errors.
	EventRouteDemoted EventType = "gpu-route-demoted"
	// EventRouteBanned: direct reads are off for the life of the process,
	// after a call that did not return.
	EventRouteBanned EventType = "gpu-route-banned"
	// EventCorruptCopy: bytes that were right in host memory were wrong in
	// device memory. Nothing is turned off: there is no other path.
	EventCorruptCopy EventType = "gpu-corrupt-copy"
	// EventKernelOff: the kernel gave an answer that cannot be, and is not
	// used any more.
	EventKernelOff EventType = "gpu-kernel-off"
)

// Event is one thing that happened to a Device.
type Event struct {
	Type   EventType
	Time   time.Time
	GPU    string // UUID, as NVML prints it
	Dir    string // of a route, else empty
	Reason string
}
