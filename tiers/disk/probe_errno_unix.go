//go:build unix

package disk

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sealstone/sealstone/internal/vfs"
)

// errnoName is the name of the system's error inside err, or "".
func errnoName(err error) string {
	var errno syscall.Errno
	switch {
	case errors.As(err, &errno):
		return unix.ErrnoName(errno)
	case errors.Is(err, vfs.ErrDirectUnsupported): // what open(2) says to O_DIRECT
		return "EINVAL"
	}
	return ""
}
