package vfs

import (
	"fmt"
	"io"
	"io/fs"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// osFile is a regular file behind a descriptor.
type osFile struct {
	ref    fdRef
	base   string
	full   string
	direct bool
	lock   atomic.Pointer[lockWatch] // of a file that Lock returned; ended once
}

// Open implements FS.
func (o *OS) Open(name string, flags OpenFlag) (File, error) {
	f, err := o.open("open", name, flags)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (o *OS) open(op, name string, flags OpenFlag) (*osFile, error) {
	if err := checkEntry(op, name); err != nil {
		return nil, err
	}
	if !o.root.acquire() {
		return nil, o.fail(op, name, fs.ErrClosed)
	}
	defer o.root.release()
	sys, mode := sysFlags(flags)
	fd, err := o.openFd(name, sys, mode)
	if err != nil {
		return nil, o.fail(op, name, openError(flags, err))
	}
	if err := checkOpened(fd, sys); err != nil {
		_ = closeFd(fd)
		return nil, o.fail(op, name, err)
	}
	_, base := splitName(name)
	f := &osFile{base: base, full: o.full(name), direct: flags&Direct != 0}
	f.ref.fd = fd
	return f, nil
}

// sysFlags translates flags. O_NONBLOCK keeps the open of a pipe or a device
// from waiting; checkOpened refuses those.
func sysFlags(flags OpenFlag) (sys int, mode uint32) {
	sys = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY
	if flags.writable() {
		sys = unix.O_RDWR | unix.O_NONBLOCK | unix.O_NOCTTY
	}
	if flags&Create != 0 {
		sys |= unix.O_CREAT
		mode = fileMode
		if flags&Excl != 0 {
			sys |= unix.O_EXCL
		}
	}
	if flags&Trunc != 0 {
		sys |= unix.O_TRUNC
	}
	if flags&Direct != 0 {
		sys |= unix.O_DIRECT
	}
	return sys, mode
}

// openError puts this package's words for what open(2) says.
func openError(flags OpenFlag, err error) error {
	switch {
	case err == unix.EINVAL && flags&Direct != 0:
		return ErrDirectUnsupported
	case err == unix.EISDIR, err == unix.ENXIO: // a directory; a socket or a device without driver
		return ErrNotRegular
	}
	return err
}

// checkOpened refuses what is no regular file, and makes the descriptor
// blocking: io_uring would take O_NONBLOCK for "fail rather than wait".
func checkOpened(fd, sys int) error {
	var st unix.Stat_t
	if err := retryEINTR(func() error { return unix.Fstat(fd, &st) }); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return ErrNotRegular
	}
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, sys&unix.O_DIRECT)
	return err
}

// fail wraps what went wrong with the file as a whole.
func (f *osFile) fail(op string, err error) error { return pathError(op, f.full, err) }

// failAt wraps what went wrong with a range.
func (f *osFile) failAt(op string, length int, off int64, err error) error {
	return pathError(fmt.Sprintf("%s %d bytes at %d of", op, length, off), f.full, err)
}

// ReadAt implements io.ReaderAt by pread(2).
func (f *osFile) ReadAt(p []byte, off int64) (int, error) {
	if !f.ref.acquire() {
		return 0, f.fail("read", fs.ErrClosed)
	}
	defer f.ref.release()
	done := 0
	for done < len(p) {
		n, err := unix.Pread(f.ref.fd, p[done:], off+int64(done))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return done, f.failAt("read", len(p)-done, off+int64(done), err)
		}
		done += n
		if n == 0 || done < len(p) && f.endsBefore(off+int64(done)) {
			return done, io.EOF
		}
	}
	return done, nil
}

// endsBefore says, of a direct file only, that nothing is to be read from off
// on. Asking on from an unaligned end of file would answer EINVAL there, and
// not that the file ended.
func (f *osFile) endsBefore(off int64) bool {
	if !f.direct {
		return false
	}
	var st unix.Stat_t
	err := retryEINTR(func() error { return unix.Fstat(f.ref.fd, &st) })
	return err == nil && off >= st.Size
}

// iovMax is the kernel's limit on vectors per call (UIO_MAXIOV).
const iovMax = 1024

// Readv implements File by preadv(2).
func (f *osFile) Readv(bufs [][]byte, off int64) (int, error) {
	if !f.ref.acquire() {
		return 0, f.fail("read", fs.ErrClosed)
	}
	defer f.ref.release()
	want := 0
	for _, b := range bufs {
		want += len(b)
	}
	done := 0
	left := bufs
	for done < want {
		n, err := unix.Preadv(f.ref.fd, left[:min(len(left), iovMax)], off+int64(done))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return done, f.failAt("read", want-done, off+int64(done), err)
		}
		// An answer of 0 is the end only if the vectors asked for something:
		// the first iovMax may all be empty.
		empty := n == 0 && sumLen(left[:min(len(left), iovMax)]) == 0
		done += n
		if n == 0 && !empty || done < want && f.endsBefore(off+int64(done)) {
			return done, io.EOF
		}
		left = advance(left, n)
	}
	return done, nil
}

func sumLen(bufs [][]byte) (n int) {
	for _, b := range bufs {
		n += len(b)
	}
	return n
}

// advance is bufs without their first n bytes, and without empty buffers
// before the rest. It leaves the caller's slice as it is.
func advance(bufs [][]byte, n int) [][]byte {
	for len(bufs) > 0 && n >= len(bufs[0]) {
		n -= len(bufs[0])
		bufs = bufs[1:]
	}
	if n == 0 {
		return bufs
	}
	rest := make([][]byte, len(bufs))
	copy(rest, bufs)
	rest[0] = rest[0][n:]
	return rest
}

// WriteAt implements io.WriterAt by pwrite(2); it goes on after short writes.
func (f *osFile) WriteAt(p []byte, off int64) (int, error) {
	if !f.ref.acquire() {
		return 0, f.fail("write", fs.ErrClosed)
	}
	defer f.ref.release()
	done := 0
	for done < len(p) {
		n, err := unix.Pwrite(f.ref.fd, p[done:], off+int64(done))
		if err == unix.EINTR {
			continue
		}
		if err == nil && n == 0 {
			err = io.ErrShortWrite
		}
		if err != nil {
			return done, f.failAt("write", len(p)-done, off+int64(done), err)
		}
		done += n
	}
	return done, nil
}

// call runs one system call on the descriptor, repeated after EINTR.
func (f *osFile) call(op string, sys func(fd int) error) error {
	if !f.ref.acquire() {
		return f.fail(op, fs.ErrClosed)
	}
	defer f.ref.release()
	return f.fail(op, retryEINTR(func() error { return sys(f.ref.fd) }))
}

func (f *osFile) Sync() error     { return f.call("sync", unix.Fsync) }
func (f *osFile) Datasync() error { return f.call("datasync", unix.Fdatasync) }

func (f *osFile) Truncate(sizeBytes int64) error {
	return f.call("truncate", func(fd int) error { return unix.Ftruncate(fd, sizeBytes) })
}

func (f *osFile) Preallocate(off, length int64) error {
	return f.call("preallocate", func(fd int) error {
		err := unix.Fallocate(fd, 0, off, length)
		if err == unix.EOPNOTSUPP || err == unix.ENOSYS {
			return growTo(fd, off, length)
		}
		return err
	})
}

// growTo extends the file to cover the range where fallocate(2) is missing.
func growTo(fd int, off, length int64) error {
	if off < 0 || length <= 0 {
		return unix.EINVAL
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Size >= off+length {
		return err
	}
	return unix.Ftruncate(fd, off+length)
}

func (f *osFile) DropCache(off, length int64) error {
	return f.call("drop cache", func(fd int) error {
		return unix.Fadvise(fd, off, length, unix.FADV_DONTNEED)
	})
}

func (f *osFile) StartWriteback(off, length int64) error {
	return f.call("start writeback of", func(fd int) error {
		// Without the flags that wait, the call reads no error of earlier
		// writes away.
		return unix.SyncFileRange(fd, off, length, unix.SYNC_FILE_RANGE_WRITE)
	})
}

func (f *osFile) Stat() (Info, error) {
	var st unix.Stat_t
	if err := f.call("stat", func(fd int) error { return unix.Fstat(fd, &st) }); err != nil {
		return Info{}, err
	}
	return infoOf(f.base, &st), nil
}

func (f *osFile) Fd() uintptr {
	if !f.ref.acquire() {
		return InvalidFd
	}
	defer f.ref.release()
	return uintptr(f.ref.fd)
}

func (f *osFile) Close() error {
	err := f.ref.close()
	f.lock.Swap(nil).end()
	return f.fail("close", err)
}
