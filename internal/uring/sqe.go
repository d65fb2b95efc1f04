package uring

import "unsafe"

// Op is an operation code of io_uring.
type Op uint8

// The operations that this package prepares.
const (
	OpNop         Op = 0
	OpReadv       Op = 1
	OpWritev      Op = 2
	OpFsync       Op = 3
	OpReadFixed   Op = 4
	OpWriteFixed  Op = 5
	OpAsyncCancel Op = 14
	OpRead        Op = 22
	OpWrite       Op = 23
)

// Flags of an entry and of its operation.
const (
	sqeFixedFile  = 1 << 0
	sqeAsync      = 1 << 4
	fsyncDatasync = 1 << 0
)

// SQE is a submission queue entry, laid out as struct io_uring_sqe. Make one
// with the functions below.
type SQE struct {
	op       Op
	flags    uint8
	ioprio   uint16
	fd       int32
	off      uint64
	addr     uint64
	len      uint32
	opFlags  uint32
	userData uint64
	bufIndex uint16
	_        uint16
	_        int32
	_        [2]uint64
}

// Iovec is struct iovec: a piece of memory for OpReadv and OpWritev. The
// address is a number, so that an array of them may lie outside the Go heap.
type Iovec struct {
	base uintptr
	len  uintptr
}

// MakeIovec is the iovec of p, which lies outside the Go heap or is pinned.
func MakeIovec(p []byte) Iovec {
	return Iovec{uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p))}
}

// IovecBytes is the size of an Iovec.
const IovecBytes = int(unsafe.Sizeof(Iovec{}))

// Iovecs uses mem, which lies outside the Go heap, as an array.
func Iovecs(mem []byte) []Iovec {
	return unsafe.Slice((*Iovec)(unsafe.Pointer(unsafe.SliceData(mem))), len(mem)/IovecBytes)
}

// Nop does nothing.
func Nop() SQE { return SQE{op: OpNop, fd: -1} }

// Read reads len(p) bytes from off on. The result is the number read, 0 at
// the end of the file.
func Read(fd int, p []byte, off int64) SQE { return prepare(OpRead, fd, p, off) }

// Write writes p at off. The result is the number written.
func Write(fd int, p []byte, off int64) SQE { return prepare(OpWrite, fd, p, off) }

// ReadFixed is Read into a part of the registered buffer of that index.
func ReadFixed(fd int, p []byte, off int64, buffer int) SQE {
	e := prepare(OpReadFixed, fd, p, off)
	e.bufIndex = uint16(buffer)
	return e
}

// WriteFixed is Write from a part of the registered buffer of that index.
func WriteFixed(fd int, p []byte, off int64, buffer int) SQE {
	e := prepare(OpWriteFixed, fd, p, off)
	e.bufIndex = uint16(buffer)
	return e
}

// Readv reads into the pieces in order. The array itself must stay as it is
// until the completion: old kernels read it late.
func Readv(fd int, iov []Iovec, off int64) SQE { return prepareVector(OpReadv, fd, iov, off) }

// Writev writes the pieces in order; see Readv.
func Writev(fd int, iov []Iovec, off int64) SQE { return prepareVector(OpWritev, fd, iov, off) }

// Datasync is fdatasync(2). It is not ordered with other requests of the
// ring: only what had completed before is covered.
func Datasync(fd int) SQE { return SQE{op: OpFsync, fd: int32(fd), opFlags: fsyncDatasync} }

// Cancel asks for the end of the request with that user data. Its own result
// is 0, -ENOENT or -EALREADY; the request completes in any case.
func Cancel(userData uint64) SQE { return SQE{op: OpAsyncCancel, fd: -1, addr: userData} }

func prepare(op Op, fd int, p []byte, off int64) SQE {
	return SQE{
		op: op, fd: int32(fd), off: uint64(off),
		addr: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(p)))), len: uint32(len(p)),
	}
}

func prepareVector(op Op, fd int, iov []Iovec, off int64) SQE {
	return SQE{
		op: op, fd: int32(fd), off: uint64(off),
		addr: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(iov)))), len: uint32(len(iov)),
	}
}

// WithUserData returns e with the number that its completion will carry.
func (e SQE) WithUserData(v uint64) SQE {
	e.userData = v
	return e
}

// WithFixedFile returns e on the registered file of that slot, in place of a
// descriptor.
func (e SQE) WithFixedFile(slot int) SQE {
	e.fd = int32(slot)
	e.flags |= sqeFixedFile
	return e
}

// OnWorker returns e, to be done by a worker of the kernel from the start: the
// call that submits it never waits for a device, as it may where a file system
// can not say that it would have to (IOSQE_ASYNC).
func (e SQE) OnWorker() SQE {
	e.flags |= sqeAsync
	return e
}

// UserData is the number that the completion will carry.
func (e SQE) UserData() uint64 { return e.userData }

// CQE is a completion queue entry, laid out as struct io_uring_cqe.
type CQE struct {
	UserData uint64
	// Res is what the system call would have returned, or the negated errno.
	Res   int32
	Flags uint32
}
