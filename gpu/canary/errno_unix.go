//go:build unix

package canary

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// errnoName is EIO for EIO; "" for a number without a name.
func errnoName(e syscall.Errno) string { return unix.ErrnoName(e) }
