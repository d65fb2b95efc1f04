package uring

import "errors"

var (
	// ErrUnsupported: no io_uring here, or none that is good enough. The
	// message says why; the errno, if there was one, is wrapped beside it.
	ErrUnsupported = errors.New("uring: not available")
	// ErrLimit: a limit of the process (RLIMIT_MEMLOCK, RLIMIT_NOFILE) is in
	// the way. The errno is wrapped beside it.
	ErrLimit = errors.New("uring: above a limit of the process")
	// ErrInFlight: the ring still has requests in the kernel.
	ErrInFlight = errors.New("uring: requests in flight")
	// ErrTimeout: the wait ended before the completions came.
	ErrTimeout = errors.New("uring: timed out")
	// ErrInvalid: an argument is out of range; the message names it.
	ErrInvalid = errors.New("uring: invalid argument")
)
