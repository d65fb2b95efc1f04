package gpu

import (
	"errors"

	"github.com/sealstone/sealstone/gpu/driver"
)

var (
	// ErrDeviceLost is the driver's: a call failed in a way that ends the
	// context, or did not return in time. Every later call of the Device fails
	// with it at once; only a new process can use the GPU again.
	ErrDeviceLost = driver.ErrDeviceLost
	// ErrClosed: the Device is closed.
	ErrClosed = errors.New("gpu: device closed")
	// ErrExhausted: no room within a bound now, or before the context or
	// Options.HangTimeout ended.
	ErrExhausted = errors.New("gpu: no room")
	// ErrTooLarge: the request can never fit a bound. It is an ErrExhausted.
	ErrTooLarge error = tooLarge{}
	// ErrInvalid: the request makes no sense, and nothing was done.
	ErrInvalid = errors.New("gpu: invalid request")
	// ErrMismatch: bytes in device memory do not have their sum. They were not
	// copied to the caller's memory.
	ErrMismatch = errors.New("gpu: bytes do not match their sum")
	// ErrShort: cuFile read less than was asked for.
	ErrShort = errors.New("gpu: short read")
	// ErrHung: a call of cuFile did not return within Options.HangTimeout.
	ErrHung = errors.New("gpu: call did not return")
	// ErrRouteOff: the route may not be used; the message says since when and
	// why. The same bytes go through the host.
	ErrRouteOff = errors.New("gpu: direct reads are off")
	// ErrLeaked: Close found memory that is still held, or set aside.
	ErrLeaked = errors.New("gpu: memory not given back")
	// ErrPinning: the driver refuses to pin host memory, also in the smallest
	// pieces. Memory that is not pinned is not used instead: when the driver
	// has read it is not defined well enough to give it to its next owner.
	ErrPinning = errors.New("gpu: host memory cannot be pinned")
)

type tooLarge struct{}

func (tooLarge) Error() string        { return "gpu: larger than the bound" }
func (tooLarge) Is(target error) bool { return target == ErrExhausted }
