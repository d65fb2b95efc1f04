//go:build !unix

package hostinfo

// MemlockLimit is 0: the system has no such limit.
func MemlockLimit() int64 { return 0 }

// OpenFilesLimit is Unlimited.
func OpenFilesLimit() int64 { return Unlimited }
