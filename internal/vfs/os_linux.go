package vfs

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	dirMode  = 0o700
	fileMode = 0o600
)

// OS is the tree under a real directory. All its operations start at the
// descriptor of that directory, so they stay inside it whatever happens to
// the path; errors are *fs.PathError with the whole path.
type OS struct {
	root fdRef
	path string
	// beneath: openat2 works here. Else names are walked one by one.
	beneath bool
}

// OpenOS opens the existing directory dir as the root of a tree. It fails
// with ErrSymlink if dir itself (not a parent of it) is a symbolic link, with
// ENOTDIR if it is something else than a directory, and with fs.ErrNotExist
// or fs.ErrPermission. The caller closes it.
func OpenOS(dir string) (*OS, error) {
	full, err := filepath.Abs(dir)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	fd, err := openatNoFollow(unix.AT_FDCWD, full, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, pathError("open", full, err)
	}
	o := &OS{path: full}
	o.root.fd = fd
	probe, err := openBeneath(fd, rootName, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err == nil {
		o.beneath = true
		_ = closeFd(probe)
	}
	return o, nil
}

// Name is the path of the root, for messages.
func (o *OS) Name() string { return o.path }

// Close closes the root. Open files stay usable; every later operation of o
// fails with fs.ErrClosed.
func (o *OS) Close() error {
	if err := o.root.close(); err != nil {
		return pathError("close", o.path, err)
	}
	return nil
}

// full is the whole path of name.
func (o *OS) full(name string) string { return filepath.Join(o.path, filepath.FromSlash(name)) }

// pathError wraps err, with this package's words for the kernel's.
func pathError(op, full string, err error) error {
	switch {
	case err == unix.ELOOP:
		err = ErrSymlink
	case err == nil:
		return nil
	}
	return &fs.PathError{Op: op, Path: full, Err: err}
}

// fail is pathError for name.
func (o *OS) fail(op, name string, err error) error { return pathError(op, o.full(name), err) }

// Mkdir implements FS.
func (o *OS) Mkdir(name string) error {
	if name == rootName {
		return o.fail("mkdir", name, fs.ErrExist)
	}
	return o.inParent("mkdir", name, func(dirFd int, base string) error {
		return unix.Mkdirat(dirFd, base, dirMode)
	})
}

// MkdirAll implements FS. It walks by descriptors, so a component that is
// exchanged meanwhile cannot lead it elsewhere.
func (o *OS) MkdirAll(name string) error {
	if err := checkName("mkdir", name); err != nil {
		return err
	}
	if !o.root.acquire() {
		return o.fail("mkdir", name, fs.ErrClosed)
	}
	defer o.root.release()
	cur := o.root.fd
	for _, part := range components(name) {
		err := retryEINTR(func() error { return unix.Mkdirat(cur, part, dirMode) })
		next := -1
		if err == nil || err == unix.EEXIST {
			next, err = openatNoFollow(cur, part, unix.O_PATH|unix.O_DIRECTORY, 0)
		}
		if cur != o.root.fd {
			_ = closeFd(cur)
		}
		if err != nil {
			return o.fail("mkdir", name, err)
		}
		cur = next
	}
	if cur != o.root.fd {
		_ = closeFd(cur)
	}
	return nil
}

// Remove implements FS.
func (o *OS) Remove(name string) error {
	return o.inParent("remove", name, func(dirFd int, base string) error {
		err := unix.Unlinkat(dirFd, base, 0)
		if err == unix.EISDIR {
			err = unix.Unlinkat(dirFd, base, unix.AT_REMOVEDIR)
		}
		return err
	})
}

// RemoveAll implements FS. Symbolic links are removed, not followed.
func (o *OS) RemoveAll(name string) error { return removeAll(o, name) }

// Rename implements FS.
func (o *OS) Rename(oldName, newName string) error {
	return o.inParents("rename", oldName, newName, unix.Renameat)
}

// Link implements FS.
func (o *OS) Link(oldName, newName string) error {
	return o.inParents("link", oldName, newName, func(oldFd int, oldBase string, newFd int, newBase string) error {
		return unix.Linkat(oldFd, oldBase, newFd, newBase, 0)
	})
}

// List implements FS.
func (o *OS) List(dir string) ([]string, error) {
	var names []string
	err := o.withDir("list", dir, func(fd int) error {
		buf := make([]byte, 32<<10)
		for {
			var n int
			err := retryEINTR(func() (err error) { n, err = unix.ReadDirent(fd, buf); return err })
			if err != nil || n <= 0 {
				return err
			}
			_, _, names = unix.ParseDirent(buf[:n], -1, names)
		}
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	return names, nil
}

// Stat implements FS.
func (o *OS) Stat(name string) (Info, error) {
	if name == rootName {
		var info Info
		err := o.withDir("stat", name, func(fd int) error {
			var st unix.Stat_t
			err := retryEINTR(func() error { return unix.Fstat(fd, &st) })
			info = infoOf(rootName, &st)
			return err
		})
		return info, err
	}
	var st unix.Stat_t
	err := o.inParent("stat", name, func(dirFd int, base string) error {
		return unix.Fstatat(dirFd, base, &st, unix.AT_SYMLINK_NOFOLLOW)
	})
	if err != nil {
		return Info{}, err
	}
	_, base := splitName(name)
	return infoOf(base, &st), nil
}

// infoOf translates what the kernel says of a file.
func infoOf(base string, st *unix.Stat_t) Info {
	kind := st.Mode & unix.S_IFMT
	return Info{
		Name:           base,
		SizeBytes:      st.Size,
		AllocatedBytes: st.Blocks * 512,
		IsDir:          kind == unix.S_IFDIR,
		IsRegular:      kind == unix.S_IFREG,
		IsSymlink:      kind == unix.S_IFLNK,
		Links:          uint64(st.Nlink),
		Modified:       time.Unix(st.Mtim.Unix()),
	}
}

// SyncDir implements FS.
func (o *OS) SyncDir(dir string) error {
	return o.withDir("sync", dir, func(fd int) error {
		return retryEINTR(func() error { return unix.Fsync(fd) })
	})
}

// Statfs implements FS.
func (o *OS) Statfs() (Usage, error) {
	if !o.root.acquire() {
		return Usage{}, o.fail("statfs", rootName, fs.ErrClosed)
	}
	defer o.root.release()
	var st unix.Statfs_t
	if err := retryEINTR(func() error { return unix.Fstatfs(o.root.fd, &st) }); err != nil {
		return Usage{}, o.fail("statfs", rootName, err)
	}
	unit := int64(st.Frsize)
	if unit == 0 {
		unit = int64(st.Bsize)
	}
	return Usage{TotalBytes: int64(st.Blocks) * unit, AvailableBytes: int64(st.Bavail) * unit}, nil
}

// lockTries bounds how often Lock starts over because the file it locked was
// replaced under its name meanwhile.
const lockTries = 4

// Lock implements FS by flock(2): the kernel ends the lock with the process.
func (o *OS) Lock(name string) (File, error) {
	if name == rootName {
		return o.lockRoot()
	}
	for range lockTries {
		f, err := o.open("lock", name, Create)
		if err != nil {
			return nil, err
		}
		f.lock.Store(watchLock(f.ref.fd))
		err = retryEINTR(func() error { return unix.Flock(f.ref.fd, unix.LOCK_EX|unix.LOCK_NB) })
		still := false
		if err == nil {
			still, err = o.isStill(name, f)
		}
		if still {
			return f, nil
		}
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrLocked
		}
		if err != nil {
			return nil, o.fail("lock", name, err)
		}
	}
	return nil, o.fail("lock", name, ErrLocked)
}

// lockRoot locks the directory itself, which is there under whatever name as
// long as the store is.
func (o *OS) lockRoot() (File, error) {
	if !o.root.acquire() {
		return nil, o.fail("lock", rootName, fs.ErrClosed)
	}
	defer o.root.release()
	// A description of its own: the lock belongs to it, and ends with it.
	fd, err := openatNoFollow(o.root.fd, rootName, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, o.fail("lock", rootName, err)
	}
	watch := watchLock(fd)
	if err = retryEINTR(func() error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) }); err != nil {
		_ = closeFd(fd)
		watch.end()
		if err == unix.EWOULDBLOCK {
			err = ErrLocked
		}
		return nil, o.fail("lock", rootName, err)
	}
	f := &osFile{base: rootName, full: o.path}
	f.ref.fd = fd
	f.lock.Store(watch)
	return f, nil
}

// isStill says whether name is the file f: a lock on a file that lost its
// name would exclude nobody. The error says that it could not be found out (no
// descriptor left, say): that is no other owner.
func (o *OS) isStill(name string, f *osFile) (bool, error) {
	var at, own unix.Stat_t
	err := o.inParent("lock", name, func(dirFd int, base string) error {
		return unix.Fstatat(dirFd, base, &at, unix.AT_SYMLINK_NOFOLLOW)
	})
	if IsNotExist(err) {
		return false, nil
	}
	if err != nil {
		return false, errors.Unwrap(err) // Lock names the file
	}
	err = retryEINTR(func() error { return unix.Fstat(f.ref.fd, &own) })
	return err == nil && at.Dev == own.Dev && at.Ino == own.Ino, err
}
