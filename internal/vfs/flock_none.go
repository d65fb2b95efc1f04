//go:build !linux && !darwin && !dragonfly && !freebsd && !netbsd && !openbsd

package vfs

import (
	"errors"
	"os"
)

// flock has nothing to stand on here. It fails, rather than let two owners in.
func flock(*os.File) error { return errors.ErrUnsupported }
