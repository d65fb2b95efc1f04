package driver

import "syscall"

// errnoName is the symbol of the errnos that reads of files give; "" for others,
// which their text names well enough.
func errnoName(errno syscall.Errno) string { return systemCodes[errno].name }

func systemAdvice(errno syscall.Errno) string { return systemCodes[errno].advice }

var systemCodes = map[syscall.Errno]codeInfo{
	syscall.EPERM:  {"EPERM", "the system does not permit it; look at seccomp and at the container's rights"},
	syscall.EINTR:  {"EINTR", "the read was interrupted"},
	syscall.EIO:    {"EIO", "the device failed to read, or cannot be read directly; look at the kernel log"},
	syscall.EBADF:  {"EBADF", "the file descriptor is not open for reading; this is a defect of the caller"},
	syscall.EAGAIN: {"EAGAIN", "the system was out of some resource for now"},
	syscall.ENOMEM: {"ENOMEM", "memory ran out"},
	syscall.EACCES: {"EACCES", "the file is not readable for this user"},
	syscall.EFAULT: {"EFAULT", "the memory cannot be reached by the device"},
	syscall.ENODEV: {"ENODEV", "the device went away"},
	syscall.EINVAL: {"EINVAL", "offset, length or address is not aligned as the path needs it (4 KiB)"},
	syscall.ENOSPC: {"ENOSPC", ""},
}
