package hostinfo

import (
	"golang.org/x/sys/unix"
)

// File is what the kernel tells of an open file beside its content.
type File struct {
	Filesystem Filesystem
	// Major and Minor number the device that the file is on; of btrfs,
	// overlays and network file systems it is one that exists nowhere else.
	Major, Minor uint32
	// BlockBytes is the unit of allocation.
	BlockBytes int64
	// MemAlignBytes, OffsetAlignBytes and ReadOffsetAlignBytes are what
	// statx(2) asks of direct I/O (STATX_DIOALIGN, Linux 6.1, and
	// STATX_DIO_READ_ALIGN, Linux 6.15). Told is set where it answered;
	// zeros then mean that there is no direct I/O on this file.
	Told                                                  bool
	MemAlignBytes, OffsetAlignBytes, ReadOffsetAlignBytes int64
}

// FilesystemAt says which file system a directory or file is on.
func FilesystemAt(path string) (Filesystem, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return Filesystem{}, err
	}
	return FilesystemOf(int64(st.Type)), nil
}

// ReadFile asks the kernel about the file behind a descriptor.
func ReadFile(fd uintptr) (File, error) {
	var f File
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(fd), &st); err != nil {
		return f, err
	}
	f.Filesystem, f.BlockBytes = FilesystemOf(int64(st.Type)), int64(st.Bsize)
	var x unix.Statx_t
	const want = unix.STATX_BASIC_STATS | unix.STATX_DIOALIGN | statxDioReadAlign
	if err := unix.Statx(int(fd), "", unix.AT_EMPTY_PATH, want, &x); err != nil {
		// Before Linux 4.11, or a seccomp profile of that time: the device
		// alone.
		var old unix.Stat_t
		if err := unix.Fstat(int(fd), &old); err != nil {
			return f, err
		}
		f.Major, f.Minor = unix.Major(uint64(old.Dev)), unix.Minor(uint64(old.Dev))
		return f, nil
	}
	f.Major, f.Minor = x.Dev_major, x.Dev_minor
	if x.Mask&unix.STATX_DIOALIGN != 0 {
		f.Told = true
		f.MemAlignBytes, f.OffsetAlignBytes = int64(x.Dio_mem_align), int64(x.Dio_offset_align)
	}
	if x.Mask&statxDioReadAlign != 0 {
		f.ReadOffsetAlignBytes = int64(x.Dio_read_offset_align)
	}
	return f, nil
}

// statxDioReadAlign is STATX_DIO_READ_ALIGN of linux/stat.h.
const statxDioReadAlign = 0x00020000
