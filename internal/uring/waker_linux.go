package uring

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/sealstone/sealstone/internal/aligned"
)

// Waker ends a wait in Enter from another thread: the ring reads from an
// eventfd(2), and Wake writes to it.
type Waker struct {
	fd  int
	buf *aligned.Buffer // where the ring reads to
}

// counterBytes is what one read or write of an eventfd moves.
const counterBytes = 8

// NewWaker makes a waker.
func NewWaker() (*Waker, error) {
	// Without EFD_NONBLOCK: a ring does not wait for a descriptor that has it.
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("uring: eventfd: %w", limitError(err))
	}
	buf, err := aligned.Alloc(counterBytes)
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("uring: eventfd: %w", err)
	}
	return &Waker{fd: fd, buf: buf}, nil
}

// Entry completes after the next Wake, or at once if there was one since the
// last completion. One at a time may be in flight.
func (w *Waker) Entry() SQE { return Read(w.fd, w.buf.Bytes(), 0) }

// Wake may be called from any thread, also when nothing waits.
func (w *Waker) Wake() {
	one := [counterBytes]byte{1}
	// It can fail only when 2^64 wakes were not read yet.
	_, _ = unix.Write(w.fd, one[:])
}

// Close gives the descriptor back. No Entry may be in flight.
func (w *Waker) Close() {
	_ = unix.Close(w.fd)
	w.buf.Free()
}
