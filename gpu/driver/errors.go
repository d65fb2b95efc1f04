package driver

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
)

var (
	// ErrUnavailable says that there is no GPU driver to call: no library, a
	// library that refuses to start, no cgo, another system. Open returns it,
	// and CuFile where only libcufile is missing. The message says which library
	// and why.
	ErrUnavailable = errors.New("driver: not available")
	// ErrMissingSymbol says that the library is there and lacks a function: it
	// is older than the function.
	ErrMissingSymbol = errors.New("driver: function missing in the installed library")
	// ErrDeviceLost says that the context is dead: this call and every later one
	// on it fail. Only a new process gets the device back.
	ErrDeviceLost = errors.New("driver: device lost")
)

// Domain says whose number an [Error] carries.
type Domain uint8

// Domains.
const (
	DomainCUDA   Domain = iota + 1 // CUresult
	DomainCuFile                   // CUfileOpError
	DomainSystem                   // errno
)

// String returns the name of the library, or "system".
func (d Domain) String() string {
	switch d {
	case DomainCUDA:
		return "CUDA"
	case DomainCuFile:
		return "cuFile"
	case DomainSystem:
		return "system"
	}
	return fmt.Sprintf("Domain(%d)", uint8(d))
}

// Error is the failure of one call. It matches ErrDeviceLost where the code
// tells of a dead context, and its Errno where there is one.
type Error struct {
	Call   string        // the C function, as it was resolved: cuMemAlloc_v2
	Domain Domain        // whose number Code is
	Code   int           // the number as the library gave it
	Name   string        // its name in the library's header; "" if unknown
	CUDA   int           // the CUresult beside cuFile's 5011; 0 otherwise
	Errno  syscall.Errno // in DomainSystem, the same as Code
	Advice string        // what to do about it; "" if nothing is known
}

// Error says the call, the number, its name and the advice.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "driver: %s: ", e.Call)
	switch e.Domain {
	case DomainSystem:
		fmt.Fprintf(&b, "errno %d (%s)", e.Code, e.Errno.Error())
	default:
		fmt.Fprintf(&b, "%s error %d", e.Domain, e.Code)
		if e.Name != "" {
			fmt.Fprintf(&b, " (%s)", e.Name)
		}
	}
	if e.CUDA != 0 {
		fmt.Fprintf(&b, ", CUDA error %d", e.CUDA)
		if name := cudaCodes[e.CUDA].name; name != "" {
			fmt.Fprintf(&b, " (%s)", name)
		}
	}
	if e.Advice != "" {
		fmt.Fprintf(&b, ": %s", e.Advice)
	}
	return b.String()
}

// Is matches ErrDeviceLost.
func (e *Error) Is(target error) bool { return target == ErrDeviceLost && e.lost() }

// Unwrap returns the errno of a system error.
func (e *Error) Unwrap() error {
	if e.Domain == DomainSystem && e.Errno != 0 {
		return e.Errno
	}
	return nil
}

// lost says whether the context is dead, by the code and the call.
func (e *Error) lost() bool {
	switch e.Domain {
	case DomainCUDA:
		return cudaLost(e.Call, e.Code)
	case DomainCuFile:
		return e.CUDA != 0 && cudaLost(e.Call, e.CUDA)
	}
	return false
}

// cudaError makes the error of a CUresult; nil for success.
func cudaError(call string, code int) error {
	if code == 0 {
		return nil
	}
	c := cudaCodes[code]
	e := &Error{Call: call, Domain: DomainCUDA, Code: code, Name: c.name, Advice: c.advice}
	if e.lost() {
		e.Advice = adviceLost
	}
	return e
}

// cuFileError makes the error of a CUfileError_t; nil for success. Some versions
// return an errno, or either number negative, in the same field.
func cuFileError(call string, code, cuda int) error {
	if code < 0 {
		code = -code
	}
	switch {
	case code == 0: // cu_err means nothing beside success
		return nil
	case code < cuFileBase:
		return systemError(call, syscall.Errno(code))
	}
	c := cuFileCodes[code]
	e := &Error{Call: call, Domain: DomainCuFile, Code: code, Name: c.name, Advice: c.advice}
	if code == cuFileCUDAError {
		e.CUDA = cuda
		if advice := cudaCodes[cuda].advice; advice != "" {
			e.Advice = advice
		}
		if e.lost() {
			e.Advice = adviceLost
		}
	}
	return e
}

// systemError makes the error of an errno.
func systemError(call string, errno syscall.Errno) error {
	return &Error{Call: call, Domain: DomainSystem, Code: int(errno), Name: errnoName(errno), Errno: errno, Advice: systemAdvice(errno)}
}

// missing makes the error of a function that the library lacks.
func missing(call string) error {
	return fmt.Errorf("%w: %s", ErrMissingSymbol, call)
}
