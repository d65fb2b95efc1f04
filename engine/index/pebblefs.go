package index

import (
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"

	pvfs "github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sealstone/sealstone/internal/vfs"
)

// pebbleFS lets Pebble run on the store's file system, so that a test can
// freeze index, log and segments at one instant. Once the index has failed it
// changes nothing any more: a Pebble that is left behind must not write into
// the index that takes its place.
type pebbleFS struct {
	fs   vfs.FS
	fail *failure
	// locked is told of the lock that Pebble takes on its directory.
	locked func(io.Closer)
}

var _ pvfs.FS = pebbleFS{}

func clean(name string) string {
	if name = path.Clean(strings.TrimPrefix(name, "/")); name == "" {
		return "."
	}
	return name
}

func (p pebbleFS) open(name string, flags vfs.OpenFlag) (pvfs.File, error) {
	if flags != 0 && p.fail.err() != nil {
		return nil, p.fail.err()
	}
	f, err := p.fs.Open(clean(name), flags)
	if err != nil {
		return nil, err
	}
	return &pebbleFile{f: f, fail: p.fail}, nil
}

func (p pebbleFS) Create(name string, _ pvfs.DiskWriteCategory) (pvfs.File, error) {
	return p.open(name, vfs.Create|vfs.ReadWrite|vfs.Trunc)
}

func (p pebbleFS) Open(name string, _ ...pvfs.OpenOption) (pvfs.File, error) {
	return p.open(name, 0)
}

func (p pebbleFS) OpenReadWrite(name string, _ pvfs.DiskWriteCategory, _ ...pvfs.OpenOption) (pvfs.File, error) {
	return p.open(name, vfs.Create|vfs.ReadWrite)
}

func (p pebbleFS) OpenDir(name string) (pvfs.File, error) {
	if _, err := p.fs.Stat(clean(name)); err != nil {
		return nil, err
	}
	return &pebbleDir{fs: p.fs, name: clean(name), fail: p.fail}, nil
}

func (p pebbleFS) ReuseForWrite(oldName, newName string, c pvfs.DiskWriteCategory) (pvfs.File, error) {
	if err := p.Rename(oldName, newName); err != nil {
		return nil, err
	}
	return p.open(newName, vfs.ReadWrite)
}

// change does fn, unless the index has failed.
func (p pebbleFS) change(fn func() error) error {
	if err := p.fail.err(); err != nil {
		return err
	}
	return fn()
}

func (p pebbleFS) Link(oldName, newName string) error {
	return p.change(func() error { return p.fs.Link(clean(oldName), clean(newName)) })
}
func (p pebbleFS) Remove(name string) error {
	return p.change(func() error { return p.fs.Remove(clean(name)) })
}
func (p pebbleFS) RemoveAll(name string) error {
	return p.change(func() error { return p.fs.RemoveAll(clean(name)) })
}
func (p pebbleFS) Rename(oldName, newName string) error {
	return p.change(func() error { return p.fs.Rename(clean(oldName), clean(newName)) })
}
func (p pebbleFS) Lock(name string) (io.Closer, error) {
	f, err := p.fs.Lock(clean(name))
	if err != nil {
		return nil, err
	}
	p.locked(f)
	return f, nil
}
func (p pebbleFS) MkdirAll(dir string, _ os.FileMode) error {
	return p.change(func() error { return p.fs.MkdirAll(clean(dir)) })
}
func (p pebbleFS) List(dir string) ([]string, error) { return p.fs.List(clean(dir)) }
func (p pebbleFS) PathBase(name string) string       { return path.Base(name) }
func (p pebbleFS) PathJoin(elem ...string) string    { return path.Join(elem...) }
func (p pebbleFS) PathDir(name string) string        { return path.Dir(name) }
func (p pebbleFS) Unwrap() pvfs.FS                   { return nil }

func (p pebbleFS) Stat(name string) (pvfs.FileInfo, error) {
	i, err := p.fs.Stat(clean(name))
	if err != nil {
		return nil, err
	}
	return fileInfo{i}, nil
}

func (p pebbleFS) GetDiskUsage(string) (pvfs.DiskUsage, error) {
	u, err := p.fs.Statfs()
	if err != nil {
		return pvfs.DiskUsage{}, err
	}
	return pvfs.DiskUsage{
		AvailBytes: uint64(u.AvailableBytes),
		TotalBytes: uint64(u.TotalBytes),
		UsedBytes:  uint64(u.TotalBytes - u.AvailableBytes),
	}, nil
}

// pebbleFile gives a positioned file the two cursors that Pebble expects.
type pebbleFile struct {
	f           vfs.File
	fail        *failure
	read, write int64
}

func (p *pebbleFile) Close() error { return p.f.Close() }

func (p *pebbleFile) Read(b []byte) (int, error) {
	n, err := p.f.ReadAt(b, p.read)
	p.read += int64(n)
	if n > 0 && err == io.EOF {
		err = nil
	}
	return n, err
}

func (p *pebbleFile) Write(b []byte) (int, error) {
	if err := p.fail.err(); err != nil {
		return 0, err
	}
	n, err := p.f.WriteAt(b, p.write)
	p.write += int64(n)
	return n, err
}

func (p *pebbleFile) ReadAt(b []byte, off int64) (int, error) { return p.f.ReadAt(b, off) }

func (p *pebbleFile) WriteAt(b []byte, off int64) (int, error) {
	if err := p.fail.err(); err != nil {
		return 0, err
	}
	return p.f.WriteAt(b, off)
}

// Preallocate is left out: a table is written once and front to back, and
// reserved blocks behind its end would count against the capacity.
func (p *pebbleFile) Preallocate(int64, int64) error { return nil }

func (p *pebbleFile) Stat() (pvfs.FileInfo, error) {
	i, err := p.f.Stat()
	if err != nil {
		return nil, err
	}
	return fileInfo{i}, nil
}

func (p *pebbleFile) Sync() error                 { return p.f.Sync() }
func (p *pebbleFile) SyncTo(int64) (bool, error)  { return true, p.f.Datasync() }
func (p *pebbleFile) SyncData() error             { return p.f.Datasync() }
func (p *pebbleFile) Prefetch(int64, int64) error { return nil }
func (p *pebbleFile) Fd() uintptr                 { return p.f.Fd() }

// pebbleDir is a directory handle: Pebble only syncs it.
type pebbleDir struct {
	fs   vfs.FS
	name string
	fail *failure
}

func (d *pebbleDir) Close() error { return nil }

// Sync never returns an error to Pebble, which panics on one where it moves a
// marker, on a goroutine of its own, and tries again elsewhere: what a failed
// sync left of the names is unknown. The index fails and the goroutine is
// parked, as in Fatalf.
func (d *pebbleDir) Sync() error {
	if err := d.fs.SyncDir(d.name); err != nil {
		d.fail.setCause(fmt.Sprintf("pebble: sync of %s/: %v", d.name, err), err)
		select {}
	}
	return nil
}
func (d *pebbleDir) SyncTo(int64) (bool, error)         { return true, d.Sync() }
func (d *pebbleDir) SyncData() error                    { return d.Sync() }
func (d *pebbleDir) Read([]byte) (int, error)           { return 0, os.ErrInvalid }
func (d *pebbleDir) Write([]byte) (int, error)          { return 0, os.ErrInvalid }
func (d *pebbleDir) ReadAt([]byte, int64) (int, error)  { return 0, os.ErrInvalid }
func (d *pebbleDir) WriteAt([]byte, int64) (int, error) { return 0, os.ErrInvalid }
func (d *pebbleDir) Preallocate(int64, int64) error     { return os.ErrInvalid }
func (d *pebbleDir) Prefetch(int64, int64) error        { return os.ErrInvalid }
func (d *pebbleDir) Fd() uintptr                        { return vfs.InvalidFd }
func (d *pebbleDir) Stat() (pvfs.FileInfo, error) {
	i, err := d.fs.Stat(d.name)
	return fileInfo{i}, err
}

type fileInfo struct{ i vfs.Info }

func (f fileInfo) Name() string       { return f.i.Name }
func (f fileInfo) Size() int64        { return f.i.SizeBytes }
func (f fileInfo) ModTime() time.Time { return time.Time{} }
func (f fileInfo) IsDir() bool        { return f.i.IsDir }
func (f fileInfo) Sys() any           { return nil }
func (f fileInfo) DeviceID() pvfs.DeviceID {
	return pvfs.DeviceID{}
}
func (f fileInfo) Mode() os.FileMode {
	if f.i.IsDir {
		return os.ModeDir | 0o700
	}
	return 0o600
}
