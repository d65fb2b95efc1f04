//go:build !linux

package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

const (
	dirMode  = 0o700
	fileMode = 0o600
)

// OS is the tree under a real directory, here by package os alone: no direct
// I/O, no preallocation beyond the size, no vectored read, and the room of
// the file system is unknown. It is meant for development; a store that
// matters runs on Linux.
type OS struct {
	root *os.Root
	path string
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
	st, err := os.Lstat(full)
	switch {
	case err != nil:
		return nil, err
	case st.Mode()&fs.ModeSymlink != 0:
		return nil, &fs.PathError{Op: "open", Path: full, Err: ErrSymlink}
	case !st.IsDir():
		return nil, &fs.PathError{Op: "open", Path: full, Err: syscall.ENOTDIR}
	}
	root, err := os.OpenRoot(full)
	if err != nil {
		return nil, err
	}
	return &OS{root: root, path: full}, nil
}

// Name is the path of the root, for messages.
func (o *OS) Name() string { return o.path }

// Close closes the root. Open files stay usable; every later operation of o
// fails with fs.ErrClosed.
func (o *OS) Close() error { return o.root.Close() }

// fail wraps err, whatever package os wrapped it in, with the whole path.
func (o *OS) fail(op, name string, err error) error {
	if err == nil {
		return nil
	}
	var pe *fs.PathError
	var le *os.LinkError
	switch {
	case errors.As(err, &pe):
		err = pe.Err
	case errors.As(err, &le):
		err = le.Err
	}
	return &fs.PathError{Op: op, Path: filepath.Join(o.path, filepath.FromSlash(name)), Err: err}
}

// check refuses a name of which a directory on the way, or with whole the
// last component too, is a symbolic link. Unlike the Linux implementation it
// looks first and acts later: who can write to the tree can exchange names in
// between, but os.Root keeps even those inside.
func (o *OS) check(op, name string, whole bool) error {
	if err := checkName(op, name); err != nil {
		return err
	}
	parts := components(name)
	if !whole && len(parts) > 0 {
		parts = parts[:len(parts)-1]
	}
	for i := range parts {
		st, err := o.root.Lstat(filepath.FromSlash(strings.Join(parts[:i+1], "/")))
		if IsNotExist(err) {
			return nil
		}
		if err != nil {
			return o.fail(op, name, err)
		}
		if st.Mode()&fs.ModeSymlink != 0 {
			return o.fail(op, name, ErrSymlink)
		}
	}
	return nil
}

// do checks an entry's name and runs f on its path.
func (o *OS) do(op, name string, f func(path string) error) error {
	if err := checkEntry(op, name); err != nil {
		return err
	}
	if err := o.check(op, name, false); err != nil {
		return err
	}
	return o.fail(op, name, f(filepath.FromSlash(name)))
}

// Mkdir implements FS.
func (o *OS) Mkdir(name string) error {
	if name == rootName {
		return o.fail("mkdir", name, fs.ErrExist)
	}
	return o.do("mkdir", name, func(path string) error { return o.root.Mkdir(path, dirMode) })
}

// MkdirAll implements FS.
func (o *OS) MkdirAll(name string) error {
	if err := o.check("mkdir", name, true); err != nil {
		return err
	}
	return o.fail("mkdir", name, o.root.MkdirAll(filepath.FromSlash(name), dirMode))
}

// Remove implements FS.
func (o *OS) Remove(name string) error { return o.do("remove", name, o.root.Remove) }

// RemoveAll implements FS. Symbolic links are removed, not followed.
func (o *OS) RemoveAll(name string) error { return removeAll(o, name) }

// Rename implements FS.
func (o *OS) Rename(oldName, newName string) error {
	return o.two("rename", oldName, newName, o.root.Rename)
}

// Link implements FS.
func (o *OS) Link(oldName, newName string) error {
	return o.two("link", oldName, newName, o.root.Link)
}

func (o *OS) two(op, oldName, newName string, f func(oldPath, newPath string) error) error {
	if err := checkEntry(op, newName); err != nil {
		return err
	}
	if err := o.check(op, newName, false); err != nil {
		return err
	}
	return o.do(op, oldName, func(path string) error { return f(path, filepath.FromSlash(newName)) })
}

// withDir runs f on the open directory dir.
func (o *OS) withDir(op, dir string, f func(d *os.File) error) error {
	if err := o.check(op, dir, true); err != nil {
		return err
	}
	d, err := o.root.Open(filepath.FromSlash(dir))
	if err != nil {
		return o.fail(op, dir, err)
	}
	defer d.Close()
	st, err := d.Stat()
	if err == nil && !st.IsDir() {
		err = syscall.ENOTDIR
	}
	if err == nil {
		err = f(d)
	}
	return o.fail(op, dir, err)
}

// List implements FS.
func (o *OS) List(dir string) (names []string, err error) {
	err = o.withDir("list", dir, func(d *os.File) (err error) {
		names, err = d.Readdirnames(-1)
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	return names, nil
}

// Stat implements FS. AllocatedBytes is the size.
func (o *OS) Stat(name string) (Info, error) {
	if err := o.check("stat", name, false); err != nil {
		return Info{}, err
	}
	st, err := o.root.Lstat(filepath.FromSlash(name))
	if err != nil {
		return Info{}, o.fail("stat", name, err)
	}
	return infoOf(st), nil
}

func infoOf(st fs.FileInfo) Info {
	return Info{
		Name: st.Name(), SizeBytes: st.Size(), AllocatedBytes: st.Size(), Links: 1, Modified: st.ModTime(),
		IsDir: st.IsDir(), IsRegular: st.Mode().IsRegular(), IsSymlink: st.Mode()&fs.ModeSymlink != 0,
	}
}

// SyncDir implements FS.
func (o *OS) SyncDir(dir string) error { return o.withDir("sync", dir, (*os.File).Sync) }

// Statfs implements FS; here it always fails with errors.ErrUnsupported.
func (o *OS) Statfs() (Usage, error) {
	return Usage{}, o.fail("statfs", rootName, errors.ErrUnsupported)
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
	if err := o.check(op, name, true); err != nil {
		return nil, err
	}
	if flags&Direct != 0 {
		return nil, o.fail(op, name, ErrDirectUnsupported)
	}
	path := filepath.FromSlash(name)
	exclusive := flags&Create != 0 && flags&Excl != 0
	// Looked at before: the open of a pipe would wait for its other end.
	if st, err := o.root.Lstat(path); err == nil && !st.Mode().IsRegular() && !exclusive {
		return nil, o.fail(op, name, ErrNotRegular)
	}
	f, err := o.root.OpenFile(path, sysFlags(flags), fileMode)
	if err != nil {
		return nil, o.fail(op, name, err)
	}
	return &osFile{f: f, fs: o, name: name}, nil
}

func sysFlags(flags OpenFlag) int {
	sys := os.O_RDONLY
	if flags.writable() {
		sys = os.O_RDWR
	}
	if flags&Create != 0 {
		sys |= os.O_CREATE
		if flags&Excl != 0 {
			sys |= os.O_EXCL
		}
	}
	if flags&Trunc != 0 {
		sys |= os.O_TRUNC
	}
	return sys
}

// Lock implements FS, where the system has flock(2).
func (o *OS) Lock(name string) (File, error) {
	f, err := o.openToLock(name)
	if err != nil {
		return nil, err
	}
	if err := flock(f.f); err != nil {
		_ = f.Close()
		return nil, o.fail("lock", name, err)
	}
	return f, nil
}

// openToLock opens a file, or the root, which is locked as it is.
func (o *OS) openToLock(name string) (*osFile, error) {
	if name != rootName {
		return o.open("lock", name, Create)
	}
	f, err := o.root.Open(rootName)
	if err != nil {
		return nil, o.fail("lock", name, err)
	}
	return &osFile{f: f, fs: o, name: name}, nil
}

// osFile is a regular file behind an *os.File.
type osFile struct {
	f    *os.File
	fs   *OS
	name string
}

func (f *osFile) fail(op string, err error) error {
	if err == io.EOF {
		return err
	}
	return f.fs.fail(op, f.name, err)
}

func (f *osFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.f.ReadAt(p, off)
	return n, f.fail("read", err)
}

func (f *osFile) Readv(bufs [][]byte, off int64) (int, error) {
	done := 0
	for _, p := range bufs {
		n, err := f.ReadAt(p, off+int64(done))
		done += n
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

func (f *osFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.f.WriteAt(p, off)
	return n, f.fail("write", err)
}

func (f *osFile) Sync() error     { return f.fail("sync", f.f.Sync()) }
func (f *osFile) Datasync() error { return f.fail("datasync", f.f.Sync()) }

func (f *osFile) Truncate(sizeBytes int64) error {
	return f.fail("truncate", f.f.Truncate(sizeBytes))
}

func (f *osFile) Preallocate(off, length int64) error {
	if off < 0 || length <= 0 {
		return f.fail("preallocate", syscall.EINVAL)
	}
	st, err := f.f.Stat()
	if err == nil && st.Size() < off+length {
		err = f.f.Truncate(off + length)
	}
	return f.fail("preallocate", err)
}

func (f *osFile) DropCache(off, length int64) error { return nil }

func (f *osFile) StartWriteback(off, length int64) error { return nil }

func (f *osFile) Stat() (Info, error) {
	st, err := f.f.Stat()
	if err != nil {
		return Info{}, f.fail("stat", err)
	}
	return infoOf(st), nil
}

// Fd implements File. The descriptor is not lent out here: nothing on these
// systems takes it.
func (f *osFile) Fd() uintptr { return InvalidFd }

func (f *osFile) Close() error { return f.fail("close", f.f.Close()) }
