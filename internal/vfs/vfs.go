// Package vfs is the file system as the log, the segments and the index see
// it: positioned I/O, explicit durability, and nothing else.
//
// Names are slash separated and relative to the root that the FS was made
// for, as in fs.ValidPath: absolute names and names with empty, "." or ".."
// components are refused with ErrInvalidName; "." alone is the root, which
// can be listed, stated, synced and locked, and nothing else. No implementation
// follows a symbolic link. An operation that is not followed by the matching sync may
// be lost in a power cut, in any order and in part:
//
//   - file bytes: File.Datasync or File.Sync on that file;
//   - a created, renamed or removed name: FS.SyncDir on its directory.
//
// Two implementations: [OpenOS] for real directories and [NewMem] for tests
// that cut the power.
package vfs

import (
	"errors"
	"io"
	"io/fs"
	"time"
)

// InvalidFd is what File.Fd returns where no descriptor stands behind a file.
const InvalidFd = ^uintptr(0)

// Errors beside those of io/fs (fs.ErrNotExist, fs.ErrExist, fs.ErrClosed),
// which every implementation returns so that errors.Is finds them.
var (
	// ErrLocked: another owner holds the lock file.
	ErrLocked = errors.New("vfs: locked by another owner")
	// ErrSymlink: a component of the name is a symbolic link.
	ErrSymlink = errors.New("vfs: name goes through a symbolic link")
	// ErrDirectUnsupported: the file system refuses O_DIRECT for this file.
	ErrDirectUnsupported = errors.New("vfs: direct I/O not supported here")
	// ErrInvalidName: empty, absolute, or with an empty, "." or ".."
	// component; also "." where the root itself cannot be meant.
	ErrInvalidName = errors.New("vfs: invalid name")
	// ErrNotRegular: the name is a directory, a pipe, a socket or a device,
	// where a regular file is asked for.
	ErrNotRegular = errors.New("vfs: not a regular file")
)

// OpenFlag says how FS.Open opens a file. The zero value opens an existing
// file for reading.
type OpenFlag uint32

const (
	// ReadWrite opens for reading and writing.
	ReadWrite OpenFlag = 1 << iota
	// Create makes the file (mode 0600) if it is absent; implies ReadWrite.
	Create
	// Excl, with Create, fails with fs.ErrExist if the file is there.
	Excl
	// Trunc empties an existing file; implies ReadWrite.
	Trunc
	// Direct asks for I/O past the page cache (O_DIRECT). Where the file
	// system refuses it, Open fails with ErrDirectUnsupported; a file that
	// the same call created may stay behind, empty.
	Direct
)

// File is an open file. ReadAt and WriteAt may be called concurrently.
//
// ReadAt and Readv return fewer bytes than asked for only together with an
// error, which is io.EOF itself (not wrapped) where the file ended.
//
// Close does not wait for operations in flight: they finish, and the last of
// them closes the descriptor. Every operation after Close fails with
// fs.ErrClosed.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer

	// Readv fills bufs in order from offset off, as preadv(2) does; it
	// returns the bytes read and io.EOF when the file ended first.
	Readv(bufs [][]byte, off int64) (int, error)

	// Sync makes content and metadata durable, Datasync the content and
	// what is needed to read it back (fdatasync).
	Sync() error
	Datasync() error

	// Truncate sets the size. Preallocate reserves [off, off+length) and
	// extends the size to cover it, never shrinks it and never changes bytes;
	// where the file system cannot reserve, it only extends the size, and
	// must then not run beside writes past the end.
	Truncate(sizeBytes int64) error
	Preallocate(off, length int64) error

	// DropCache asks the kernel to forget cached pages of the range; a hint.
	DropCache(off, length int64) error

	// StartWriteback asks the kernel to begin writing cached bytes of the
	// range to the device, and does not wait for it. It makes nothing
	// durable, and swallows no error that a sync would report.
	StartWriteback(off, length int64) error

	Stat() (Info, error)
	// Fd is the descriptor, or InvalidFd. It is valid until Close: who hands
	// it to the kernel keeps the File open until the request ended.
	Fd() uintptr
}

// Info describes a file.
type Info struct {
	Name           string // last component
	SizeBytes      int64
	AllocatedBytes int64 // blocks really held (st_blocks * 512)
	IsDir          bool
	IsRegular      bool
	IsSymlink      bool
	Links          uint64
	// Modified is when the file was last written, by the system's clock; zero
	// where that is not known.
	Modified time.Time
}

// Usage is the room of the file system under the root.
type Usage struct {
	TotalBytes     int64
	AvailableBytes int64 // for an unprivileged user
}

// FS is a directory tree.
type FS interface {
	// Open opens name; see OpenFlag.
	Open(name string, flags OpenFlag) (File, error)
	// Mkdir makes one directory (mode 0700); MkdirAll its parents too and is
	// no error if it exists.
	Mkdir(name string) error
	MkdirAll(name string) error
	// Remove removes a file or an empty directory; RemoveAll a tree, and is
	// no error if it is absent.
	Remove(name string) error
	RemoveAll(name string) error
	// Rename replaces newName atomically. Link makes a hard link.
	Rename(oldName, newName string) error
	Link(oldName, newName string) error
	// List returns the names in a directory, sorted.
	List(dir string) ([]string, error)
	// Stat does not follow symbolic links.
	Stat(name string) (Info, error)
	// SyncDir makes the names in dir durable. The root is ".".
	SyncDir(dir string) error
	// Statfs reports the room of the file system.
	Statfs() (Usage, error)
	// Lock takes an exclusive, non-blocking lock on name, creating the file;
	// the lock ends with the returned File's Close or the process. It fails
	// with ErrLocked, also within one process. Content of the file is left
	// as it was. The root, ".", can be locked too, where the file system
	// takes locks on directories: the File is then good for Close alone.
	Lock(name string) (File, error)
}

// IsNotExist reports whether err says that a name is absent.
func IsNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }
