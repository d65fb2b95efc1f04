package bench

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// processCPU is the processor time, user and system, of this process so far.
func processCPU() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// threadCPU binds the goroutine to its thread, whose processor time is then
// its own, until elapsed is called.
func threadCPU() (elapsed func() time.Duration) {
	runtime.LockOSThread()
	from := threadTime()
	return func() time.Duration {
		defer runtime.UnlockOSThread()
		return threadTime() - from
	}
}

func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
