//go:build !unix

package canary

import "syscall"

// errnoName is "": the system's errors have no names of that kind.
func errnoName(syscall.Errno) string { return "" }
