package shm

import (
	"errors"
	"fmt"
	"math"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Supported: peers can share memory with the server on this system.
const Supported = true

// PeerUID is the user that the other end of a Unix socket ran as when it
// connected.
func PeerUID(c *net.UnixConn) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := errors.Join(err, failed); err != nil {
		return 0, fmt.Errorf("shm: who the peer is: %w", err)
	}
	return int(cred.Uid), nil
}

// mapFile maps sizeBytes of a file for reading and writing, if it is one that
// may be shared.
func mapFile(file *os.File, sizeBytes int64, peerUID int) ([]byte, error) {
	if sizeBytes > math.MaxInt {
		return nil, fmt.Errorf("%w: a region of %d bytes is more than this processor can address", ErrLimit, sizeBytes)
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("descriptor: %w", err)
	}
	var mem []byte
	var failed error
	err = raw.Control(func(fd uintptr) {
		if failed = checkFile(int(fd), sizeBytes, peerUID); failed == nil {
			mem, failed = mapShared(int(fd), sizeBytes)
		}
	})
	return mem, errors.Join(err, failed)
}

// checkFile refuses all but regular files in memory, of the peer or the server.
//
// The first question is for seals, as only files in memory have an answer: a
// file of a file system that the peer serves itself (FUSE), or of a server far
// away, could keep whoever asks it anything else waiting.
func checkFile(fd int, sizeBytes int64, peerUID int) error {
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0); err != nil {
		return fmt.Errorf("descriptor: neither a memfd nor a file on tmpfs (F_GET_SEALS: %w); files on disks, pipes, directories and devices cannot be shared", err)
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return fmt.Errorf("descriptor: fstatfs: %w", err)
	}
	if fs.Type != unix.TMPFS_MAGIC {
		return fmt.Errorf("descriptor: file system of type %#x; only memfds and files on tmpfs can be shared, and those on hugetlbfs cannot", fs.Type)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("descriptor: fstat: %w", err)
	}
	switch uid := int(st.Uid); {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return fmt.Errorf("descriptor: not a regular file (mode %#o)", st.Mode)
	case peerUID != AnyUser && uid != peerUID && uid != os.Geteuid():
		return fmt.Errorf("descriptor: the file belongs to user %d, the peer is %d", uid, peerUID)
	case sizeBytes > st.Size:
		return fmt.Errorf("descriptor: the file has %d bytes, the region %d; make the file longer first", st.Size, sizeBytes)
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return fmt.Errorf("descriptor: F_GETFL: %w", err)
	}
	if flags&unix.O_ACCMODE != unix.O_RDWR {
		return errors.New("descriptor: not open for reading and writing; open it with O_RDWR")
	}
	return nil
}

func mapShared(fd int, sizeBytes int64) ([]byte, error) {
	mem, err := unix.Mmap(fd, 0, int(sizeBytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("descriptor: mmap of %d bytes for reading and writing: %w", sizeBytes, err)
	}
	_ = unix.Madvise(mem, unix.MADV_DONTDUMP) // the peer's, not for our core file
	// A wish, heard where shmem_enabled is "advise": a device has 512 times the
	// pages to map without.
	_ = unix.Madvise(mem, unix.MADV_HUGEPAGE)
	return mem, nil
}

func unmap(mem []byte) { _ = unix.Munmap(mem) }
