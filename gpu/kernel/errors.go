package kernel

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrMismatch: the bytes of a piece do not have the wanted sum.
	ErrMismatch = errors.New("kernel: the bytes do not have the wanted sum")
	// ErrUntrusted: the kernel gave no answer for a piece, or one that
	// contradicts itself. It says nothing about the bytes: they must be verified
	// in another way, and the kernel should not be used any more.
	ErrUntrusted = errors.New("kernel: no answer that can be trusted")
	// ErrNotProven: the kernel is not used on this device. The error is a
	// *NotProvenError.
	ErrNotProven = errors.New("kernel: not proven")
	// ErrClosed: the kernel was closed.
	ErrClosed = errors.New("kernel: closed")
	// ErrInvalid: a job or a piece that cannot be given to the kernel.
	ErrInvalid = errors.New("kernel: invalid job")
)

// Step is where a proof ended.
type Step string

// Steps of a proof in their order.
const (
	StepLoad    Step = "load"    // the driver compiles the PTX and finds the entry points
	StepMemory  Step = "memory"  // device and pinned memory, and copies between them
	StepRun     Step = "run"     // the kernel is launched and ends without an error
	StepVectors Step = "vectors" // the known vectors come out as they must
	StepTime    Step = "time"    // all that within the time given
)

// NotProvenError says why a kernel is not used. It matches ErrNotProven and what
// it wraps: of the driver a *driver.Error with code, name and advice.
type NotProvenError struct {
	UUID [16]byte // of the device
	Step Step
	Log  string // what the driver's compiler said; often empty
	Err  error
}

// Error says the device, the step and the reason.
func (e *NotProvenError) Error() string {
	s := fmt.Sprintf("%v on %s, step %s: %v", ErrNotProven, uuidText(e.UUID), e.Step, e.Err)
	if log := strings.Join(strings.Fields(e.Log), " "); log != "" {
		s += "; the compiler says: " + log
	}
	return s
}

// Is matches ErrNotProven.
func (e *NotProvenError) Is(target error) bool { return target == ErrNotProven }

// Unwrap returns the reason.
func (e *NotProvenError) Unwrap() error { return e.Err }

// uuidText is a UUID as NVIDIA's tools print it.
func uuidText(u [16]byte) string {
	return fmt.Sprintf("GPU-%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}
