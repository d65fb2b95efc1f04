package core

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// eventBell is an eventfd: readable while completions wait.
type eventBell struct{ fd int }

func newBell() (*eventBell, error) {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	return &eventBell{fd}, nil
}

// ring counts up. The counter holds more than can be submitted in a lifetime.
func (b *eventBell) ring() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	for {
		if _, err := unix.Write(b.fd, one[:]); err != unix.EINTR {
			return
		}
	}
}

// quiet sets the counter to 0; the host may have read it already.
func (b *eventBell) quiet() {
	var count [8]byte
	for {
		if _, err := unix.Read(b.fd, count[:]); err != unix.EINTR {
			return
		}
	}
}

func (b *eventBell) close() { _ = unix.Close(b.fd) }
