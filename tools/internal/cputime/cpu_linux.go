package cputime

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Process is the processor time, user and system, of this process so far.
func Process() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Thread binds the goroutine to its thread, whose processor time is then
// its own, until elapsed is called.
func Thread() (elapsed func() time.Duration) {
	runtime.LockOSThread()
	from := thread()
	return func() time.Duration {
		defer runtime.UnlockOSThread()
		return thread() - from
	}
}

func thread() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
