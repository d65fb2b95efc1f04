package vfs

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// openBeneathTries bounds the repetitions after EAGAIN, with which the kernel
// says that a rename elsewhere kept it from proving that the walk stayed
// beneath the root.
const openBeneathTries = 64

// openBeneath opens name under dirFd by openat2(2), through no symbolic link
// and never outside dirFd. ELOOP says that there was a link.
func openBeneath(dirFd int, name string, flags int, mode uint32) (int, error) {
	how := unix.OpenHow{
		Flags:   uint64(flags | unix.O_CLOEXEC),
		Mode:    uint64(mode),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	}
	for try := 0; ; try++ {
		fd, err := unix.Openat2(dirFd, name, &how)
		if err == unix.EINTR || err == unix.EAGAIN && try < openBeneathTries {
			continue
		}
		return fd, err
	}
}

// openatNoFollow opens one component. Unlike the kernel, which says ENOTDIR
// of a link where a directory is asked for, it says ELOOP of every link.
func openatNoFollow(dirFd int, name string, flags int, mode uint32) (int, error) {
	fd := -1
	err := retryEINTR(func() (err error) {
		fd, err = unix.Openat(dirFd, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
		return err
	})
	if err == unix.ENOTDIR {
		var st unix.Stat_t
		if unix.Fstatat(dirFd, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
			err = unix.ELOOP
		}
	}
	return fd, err
}

// openWalk is openBeneath for kernels and sandboxes without openat2: one
// component after the other. Names hold no "..", so no step leads out.
func openWalk(rootFd int, name string, flags int, mode uint32) (int, error) {
	parts := components(name)
	if len(parts) == 0 {
		parts = []string{rootName}
	}
	cur := rootFd
	for i, part := range parts {
		partFlags, partMode := unix.O_PATH|unix.O_DIRECTORY, uint32(0)
		if i == len(parts)-1 {
			partFlags, partMode = flags, mode
		}
		next, err := openatNoFollow(cur, part, partFlags, partMode)
		if cur != rootFd {
			_ = closeFd(cur)
		}
		if err != nil {
			return -1, err
		}
		cur = next
	}
	return cur, nil
}

// openFd opens name by the way that works here. The root is acquired.
func (o *OS) openFd(name string, flags int, mode uint32) (int, error) {
	if o.beneath {
		return openBeneath(o.root.fd, name, flags, mode)
	}
	return openWalk(o.root.fd, name, flags, mode)
}

// withDir runs f on a readable descriptor of directory dir.
func (o *OS) withDir(op, dir string, f func(fd int) error) error {
	if err := checkName(op, dir); err != nil {
		return err
	}
	if !o.root.acquire() {
		return o.fail(op, dir, fs.ErrClosed)
	}
	defer o.root.release()
	fd, err := o.openFd(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return o.fail(op, dir, err)
	}
	err = f(fd)
	if cerr := closeFd(fd); err == nil {
		err = cerr
	}
	return o.fail(op, dir, err)
}

// parentFd is a descriptor of the directory that holds name; done ends its
// use. The root is acquired.
func (o *OS) parentFd(name string) (fd int, base string, done func(), err error) {
	dir, base := splitName(name)
	if dir == rootName {
		return o.root.fd, base, func() {}, nil
	}
	fd, err = o.openFd(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return -1, "", nil, err
	}
	return fd, base, func() { _ = closeFd(fd) }, nil
}

// inParent runs f, repeated after EINTR, on the directory that holds name.
func (o *OS) inParent(op, name string, f func(dirFd int, base string) error) error {
	if err := checkEntry(op, name); err != nil {
		return err
	}
	if !o.root.acquire() {
		return o.fail(op, name, fs.ErrClosed)
	}
	defer o.root.release()
	fd, base, done, err := o.parentFd(name)
	if err != nil {
		return o.fail(op, name, err)
	}
	defer done()
	return o.fail(op, name, retryEINTR(func() error { return f(fd, base) }))
}

// inParents is inParent for operations on two names.
func (o *OS) inParents(op, oldName, newName string, f func(oldFd int, oldBase string, newFd int, newBase string) error) error {
	if err := checkEntry(op, newName); err != nil {
		return err
	}
	err := o.inParent(op, oldName, func(oldFd int, oldBase string) error {
		newFd, newBase, done, err := o.parentFd(newName)
		if err != nil {
			return err
		}
		defer done()
		return f(oldFd, oldBase, newFd, newBase)
	})
	if pe, ok := err.(*fs.PathError); ok && pe.Err != ErrInvalidName {
		pe.Path += " to " + o.full(newName)
	}
	return err
}
