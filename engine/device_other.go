//go:build !linux

package engine

import "syscall"

// deviceErrnos are what a system answers for a device that it can not read or
// write.
var deviceErrnos = []syscall.Errno{syscall.EIO, syscall.ETIMEDOUT, syscall.ENODEV, syscall.ENXIO}
