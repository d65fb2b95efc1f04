package vfs

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"syscall"
	"unsafe"
)

const (
	// sectorBytes is what direct I/O on a Mem is aligned to.
	sectorBytes = 512
	// maxFileBytes is where EFBIG begins.
	maxFileBytes = 1 << 44
)

// memFile is an open file of a Mem.
type memFile struct {
	fs     *Mem
	node   *memNode
	name   string
	flags  OpenFlag
	holds  *memNode // locked until Close
	closed bool
}

// enter locks the tree; leave ends it. After Close it fails.
func (f *memFile) enter(op string) error {
	f.fs.mu.Lock()
	if f.closed {
		f.fs.mu.Unlock()
		return memFail(op, f.name, fs.ErrClosed)
	}
	return nil
}

func (f *memFile) leave() { f.fs.mu.Unlock() }

func (f *memFile) failAt(op string, length int, off int64, err error) error {
	return memFail(fmt.Sprintf("%s %d bytes at %d of", op, length, off), f.name, err)
}

// checkRange refuses what the kernel refuses of a transfer.
func (f *memFile) checkRange(p []byte, off int64) error {
	switch {
	case len(p) == 0:
		return nil
	case off < 0:
		return syscall.EINVAL
	case f.flags&Direct == 0:
		return nil
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(p)))
	if off%sectorBytes != 0 || len(p)%sectorBytes != 0 || at%sectorBytes != 0 {
		return syscall.EINVAL
	}
	return nil
}

// ReadAt implements io.ReaderAt.
func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	return f.Readv([][]byte{p}, off)
}

// Readv implements File.
func (f *memFile) Readv(bufs [][]byte, off int64) (int, error) {
	if err := f.enter("read"); err != nil {
		return 0, err
	}
	defer f.leave()
	for _, p := range bufs {
		if err := f.checkRange(p, off); err != nil {
			return 0, f.failAt("read", len(p), off, err)
		}
	}
	done := 0
	for _, p := range bufs {
		n := f.node.now.readAt(p, off+int64(done))
		done += n
		if n < len(p) {
			return done, io.EOF
		}
	}
	return done, nil
}

// WriteAt implements io.WriterAt. Where room ends within p, what fits is
// written, as the kernel does.
func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.enter("write"); err != nil {
		return 0, err
	}
	defer f.leave()
	if !f.flags.writable() {
		return 0, f.failAt("write", len(p), off, syscall.EBADF)
	}
	if err := f.checkRange(p, off); err != nil {
		return 0, f.failAt("write", len(p), off, err)
	}
	if off > maxFileBytes-int64(len(p)) {
		return 0, f.failAt("write", len(p), off, syscall.EFBIG)
	}
	n := int(f.node.now.fit(off, int64(len(p)), f.fs.roomPages()))
	if n > 0 {
		f.fs.change(f.node, fileOp{kind: fileWrite, off: off, length: int64(n), data: bytes.Clone(p[:n])})
	}
	if n < len(p) {
		return n, f.failAt("write", len(p)-n, off+int64(n), syscall.ENOSPC)
	}
	return n, nil
}

// Sync implements File.
func (f *memFile) Sync() error { return f.sync("sync") }

// Datasync implements File; it does what Sync does.
func (f *memFile) Datasync() error { return f.sync("datasync") }

func (f *memFile) sync(op string) error {
	if err := f.enter(op); err != nil {
		return err
	}
	defer f.leave()
	f.node.sync()
	return nil
}

// Truncate implements File.
func (f *memFile) Truncate(sizeBytes int64) error {
	if err := f.enter("truncate"); err != nil {
		return err
	}
	defer f.leave()
	switch {
	case sizeBytes < 0 || !f.flags.writable():
		return memFail("truncate", f.name, syscall.EINVAL)
	case sizeBytes > maxFileBytes:
		return memFail("truncate", f.name, syscall.EFBIG)
	}
	op := fileOp{kind: fileTruncate, off: sizeBytes}
	op.length = max(f.node.now.sizeBytes-sizeBytes, 0)
	f.fs.change(f.node, op)
	return nil
}

// Preallocate implements File. Without room for all of it nothing changes.
func (f *memFile) Preallocate(off, length int64) error {
	if err := f.enter("preallocate"); err != nil {
		return err
	}
	defer f.leave()
	var err error
	switch {
	case off < 0 || length <= 0:
		err = syscall.EINVAL
	case !f.flags.writable():
		err = syscall.EBADF
	case off > maxFileBytes-length:
		err = syscall.EFBIG
	case f.node.now.fit(off, length, f.fs.roomPages()) < length:
		err = syscall.ENOSPC
	default:
		f.fs.change(f.node, fileOp{kind: fileReserve, off: off, length: length})
	}
	return memFail("preallocate", f.name, err)
}

// DropCache implements File; there is no cache to drop.
func (f *memFile) DropCache(off, length int64) error {
	if err := f.enter("drop cache"); err != nil {
		return err
	}
	defer f.leave()
	return nil
}

// StartWriteback implements File; what is not synced stays unsynced.
func (f *memFile) StartWriteback(off, length int64) error {
	if err := f.enter("start writeback of"); err != nil {
		return err
	}
	defer f.leave()
	return nil
}

// Stat implements File.
func (f *memFile) Stat() (Info, error) {
	if err := f.enter("stat"); err != nil {
		return Info{}, err
	}
	defer f.leave()
	_, base := splitName(f.name)
	return f.node.info(base), nil
}

// Fd implements File.
func (f *memFile) Fd() uintptr { return InvalidFd }

// Close implements File; it ends the lock that the file holds.
func (f *memFile) Close() error {
	if err := f.enter("close"); err != nil {
		return err
	}
	defer f.leave()
	f.closed = true
	f.node.opens--
	if f.holds != nil {
		f.holds.locked = false
	}
	f.fs.release(f.node)
	return nil
}
