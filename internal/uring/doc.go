// Package uring is a small binding of io_uring(7): a ring, the few operations
// that a storage engine needs, and nothing that hides what the kernel does.
//
// A [Ring] belongs to one thread. The goroutine that calls [New] locks itself
// to its thread first (runtime.LockOSThread) and makes every call from there:
// with IORING_SETUP_SINGLE_ISSUER the kernel refuses any other thread, and
// the queues have no lock of their own.
//
// Memory named by an entry is the kernel's until its completion was taken
// from the ring, whatever the caller thinks of the request by then. The
// garbage collector does not see those addresses, so buffers and iovec arrays
// lie outside the Go heap (package aligned) or are pinned (runtime.Pinner).
// The same goes for descriptors: closing one does not end its requests. So a
// ring that has requests in flight can not be closed, see [Ring.Close].
//
// Order of memory. Each queue is an array with a head and a tail in memory
// that is shared with the kernel. Who fills an array element stores the tail
// with release order behind it, and who reads one loads the tail with acquire
// order before it; the same for the head when an element is given back. The
// operations of sync/atomic are sequentially consistent, hence both. The
// kernel reads the submission queue only inside io_uring_enter(2), as no ring
// here uses SQPOLL.
//
// The layout of what is shared is that of linux/io_uring.h. Least kernel: 5.5
// (IORING_FEAT_NODROP: no completion is ever lost). Other systems have a stub
// that answers ErrUnsupported.
package uring
