package disk

import (
	"time"

	"github.com/sealstone/sealstone/internal/uring"
)

// Limits and defaults of [UringOptions].
const (
	DefaultUringDepth = 64
	MaxUringDepth     = 1024
	MaxUringRings     = 16

	// DefaultSubmitBytes fits the cache of a CPU of its own, with room for
	// what else is in there.
	DefaultSubmitBytes = 1 << 20

	uringRingsAtMost = 4  // of the default
	submitBatchMax   = 16 // requests in one call

	// A ring that breaks is made anew, but not for ever: more often than
	// this in a minute, and its requests go to the pread path.
	maxRebuilds   = 3
	rebuildPeriod = time.Minute
)

// UringOptions sets up a [UringReader].
type UringOptions struct {
	// Rings is the number of rings, each with a thread of its own on which
	// Item.Done runs. 0 means the number of CPUs, at most 4; more than
	// MaxUringRings is cut to that.
	Rings int
	// Depth is the number of requests in the kernel at one time, over all
	// rings. 0 means DefaultUringDepth; more than MaxUringDepth is cut to
	// that, less than one per ring raised to it.
	Depth int
	// SubmitBytes is how much a ring hands to the kernel in one call: at
	// least one request, at most 16. A device in memory completes them inside
	// the call, and what is not too much is still in the CPU's cache when
	// Done looks at it. 0 means DefaultSubmitBytes.
	SubmitBytes int
	// Pread is the path for what a ring can not do; its QueueMax bounds the
	// queue of the rings as well, and its Pool gives the bounce buffers.
	Pread PreadOptions

	// open makes a ring in place of uring.New, in tests, and rebuilds
	// replaces maxRebuilds.
	open     func(entries int) (ring, error)
	rebuilds int
}

// ring is what a worker needs of uring.Ring, so that tests can break it.
type ring interface {
	Push(uring.SQE) bool
	Pending() int
	InFlight() int
	Enter(min int, timeout time.Duration) error
	Wait(min int, timeout time.Duration) error
	Next() (uring.CQE, bool)
	Close() error
	Modes() string
}

func openRing(entries int) (ring, error) {
	r, err := uring.New(entries)
	if err != nil {
		return nil, err
	}
	return r, nil
}
