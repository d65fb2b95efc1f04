package uring

import (
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Push puts an entry in the submission queue; false if that is full, or if
// the completion queue could not hold the completion. Nothing happens before
// the next Enter.
func (r *Ring) Push(e SQE) bool {
	if r.fd < 0 || r.tail-r.sqHead.Load() > r.sqMask || r.tail-r.taken >= r.inFlightMax {
		return false
	}
	r.sqes[r.tail&r.sqMask] = e
	r.tail++
	r.sqTail.Store(r.tail)
	return true
}

// Pending is the number of entries pushed that the kernel has not taken yet.
func (r *Ring) Pending() int {
	if r.fd < 0 {
		return 0
	}
	return int(r.tail - r.sqHead.Load())
}

// InFlight is the number of entries that the kernel took and whose completion
// Next has not given out: what it may be at work on.
func (r *Ring) InFlight() int {
	if r.fd < 0 {
		return 0
	}
	return int(r.sqHead.Load() - r.taken)
}

// Enter submits what was pushed and waits until at least min completions are
// there; with min 0 it does not wait, but works off what the device ended.
// It returns early, without an error, after a signal: count completions, not
// calls. With a timeout above 0 a longer wait fails with ErrTimeout; that
// takes kernel 5.11, else ErrUnsupported.
//
// EAGAIN (no memory for a request) and EBUSY (completions must be taken
// first) are returned as they are, wrapped: take completions, then try again.
// After any other error the ring is of no more use than to take completions.
func (r *Ring) Enter(min int, timeout time.Duration) error {
	return r.enter(r.Pending(), min, timeout)
}

// Wait is Enter without submitting anything.
func (r *Ring) Wait(min int, timeout time.Duration) error { return r.enter(0, min, timeout) }

func (r *Ring) enter(submit, min int, timeout time.Duration) error {
	if r.fd < 0 {
		return fmt.Errorf("uring: enter: %w: the ring is closed", ErrInvalid)
	}
	flags, arg, size := uintptr(enterGetEvents), unsafe.Pointer(nil), uintptr(0)
	if timeout > 0 && min > 0 {
		if r.features&featExtArg == 0 {
			return fmt.Errorf("uring: enter with a timeout: %w: the kernel is older than 5.11", ErrUnsupported)
		}
		w := (*waitFor)(unsafe.Pointer(&r.waitMem[0]))
		w.timeout = timespec{int64(timeout / time.Second), int64(timeout % time.Second)}
		w.arg.timeout = uint64(uintptr(unsafe.Pointer(&w.timeout)))
		flags |= enterExtArg
		arg, size = unsafe.Pointer(&w.arg), unsafe.Sizeof(w.arg)
	}
	for {
		n, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), uintptr(submit), uintptr(min), flags, uintptr(arg), size)
		switch {
		case errno == unix.EINTR && submit == 0, errno == unix.EINTR && min > 0:
			return nil
		case errno == unix.EINTR:
			submit = r.Pending()
			continue
		case errno == unix.ETIME:
			return fmt.Errorf("uring: enter: %w after %v", ErrTimeout, timeout)
		case errno != 0:
			return fmt.Errorf("uring: enter: %w", errno)
		case int(n) < submit && n > 0:
			// An entry that can not even be prepared stops the submission
			// behind it; it has its completion, and the rest goes on.
			submit = r.Pending()
			continue
		}
		return nil
	}
}

// Next takes a completion; false if none is there. It does not wait.
func (r *Ring) Next() (CQE, bool) {
	if r.fd < 0 {
		return CQE{}, false
	}
	head := r.cqHead.Load()
	if head == r.cqTail.Load() {
		if r.sqFlags.Load()&sqCQOverflow == 0 {
			return CQE{}, false
		}
		// More completions came than the queue holds: the kernel kept the
		// rest, and moves it over on the next call.
		if r.Wait(0, 0) != nil || head == r.cqTail.Load() {
			return CQE{}, false
		}
	}
	c := r.cqes[head&r.cqMask]
	r.cqHead.Store(head + 1)
	r.taken++
	return c, true
}
