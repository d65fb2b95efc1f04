package hostinfo

// KernelRelease is the release of the running kernel as uname -r prints it.
func KernelRelease() string {
	s, _ := line(root(), "proc/sys/kernel/osrelease")
	return s
}

// BootID is a name of the time since the last boot, the same in all
// containers of the host.
func BootID() string {
	s, _ := line(root(), "proc/sys/kernel/random/boot_id")
	return s
}

// UringDisabled is the sysctl kernel.io_uring_disabled (Linux 6.6): 0 lets
// everybody use io_uring, 1 only a group and who may administer the system, 2
// nobody. ok is false where there is no such sysctl.
func UringDisabled() (level int, ok bool) {
	n, ok := number(root(), "proc/sys/kernel/io_uring_disabled")
	return int(n), ok
}
