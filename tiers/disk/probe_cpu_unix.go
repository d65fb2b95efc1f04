//go:build unix

package disk

import (
	"time"

	"golang.org/x/sys/unix"
)

// processCPU is the CPU time of the process so far, all threads, user and
// system.
func processCPU() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
