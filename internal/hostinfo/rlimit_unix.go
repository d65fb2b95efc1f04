//go:build unix

package hostinfo

import "golang.org/x/sys/unix"

// MemlockLimit is how many bytes the process may lock in memory
// (RLIMIT_MEMLOCK): Unlimited, or 0 where the system has no such limit.
func MemlockLimit() int64 { return limit(unix.RLIMIT_MEMLOCK) }

// OpenFilesLimit is how many descriptors the process may have open
// (RLIMIT_NOFILE), or Unlimited.
func OpenFilesLimit() int64 { return limit(unix.RLIMIT_NOFILE) }

func limit(resource int) int64 {
	var l unix.Rlimit
	if err := unix.Getrlimit(resource, &l); err != nil {
		return 0
	}
	if uint64(l.Cur) >= 1<<63-1 { // RLIM_INFINITY, of either sign
		return Unlimited
	}
	return int64(l.Cur)
}
