//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package vfs

import (
	"os"

	"golang.org/x/sys/unix"
)

// flock takes the exclusive lock on f, or fails with ErrLocked at once.
func flock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		return ErrLocked
	}
	return err
}
