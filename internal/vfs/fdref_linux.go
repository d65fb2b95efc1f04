package vfs

import (
	"io/fs"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// fdRef is a descriptor that can be closed while others use it. The number is
// given back to the kernel only after its last user left: else a read could
// meet another file under the same number.
type fdRef struct {
	fd int
	// state counts the users; closedBit is set by close.
	state atomic.Int64
}

const closedBit = 1 << 62

// acquire counts a user in; it answers false after close.
func (r *fdRef) acquire() bool {
	for {
		s := r.state.Load()
		if s&closedBit != 0 {
			return false
		}
		if r.state.CompareAndSwap(s, s+1) {
			return true
		}
	}
}

// release counts a user out. The last one after close closes.
func (r *fdRef) release() {
	if r.state.Add(-1) == closedBit {
		_ = closeFd(r.fd) // nobody is left to hear of it; syncs report lost data
	}
}

// close lets nobody in any more, and closes at once if nobody is in.
func (r *fdRef) close() error {
	for {
		s := r.state.Load()
		if s&closedBit != 0 {
			return fs.ErrClosed
		}
		if !r.state.CompareAndSwap(s, s|closedBit) {
			continue
		}
		if s == 0 {
			return closeFd(r.fd)
		}
		return nil
	}
}

// closeFd closes fd. On Linux the number is free again even after EINTR, so
// that a retry could close a stranger's file.
func closeFd(fd int) error {
	if err := unix.Close(fd); err != nil && err != unix.EINTR {
		return err
	}
	return nil
}

// retryEINTR repeats a system call that a signal interrupted.
func retryEINTR(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}
