package uring

// What io_uring_setup(2) takes and gives back; see linux/io_uring.h.

type sqOffsets struct {
	head, tail, ringMask, ringEntries, flags, dropped, array, _ uint32

	userAddr uint64
}

type cqOffsets struct {
	head, tail, ringMask, ringEntries, overflow, cqes, flags, _ uint32

	userAddr uint64
}

type params struct {
	sqEntries, cqEntries, flags, sqThreadCPU, sqThreadIdle, features, wqFd uint32

	_  [3]uint32
	sq sqOffsets
	cq cqOffsets
}

// Setup flags.
const (
	setupCQSize       = 1 << 3
	setupCoopTaskrun  = 1 << 8
	setupSingleIssuer = 1 << 12
	setupDeferTaskrun = 1 << 13
)

// Features.
const (
	featSingleMmap = 1 << 0
	featNoDrop     = 1 << 1
	featExtArg     = 1 << 8
)

const (
	offSQRing = 0
	offSQEs   = 0x10000000

	sqCQOverflow = 1 << 1 // in the flags of the submission queue

	enterGetEvents = 1 << 0
	enterExtArg    = 1 << 3
)

// Codes of io_uring_register(2).
const (
	registerBuffers     = 0
	unregisterBuffers   = 1
	registerFiles       = 2
	unregisterFiles     = 3
	registerFilesUpdate = 6
	registerProbe       = 8
)

type filesUpdate struct {
	offset, _ uint32
	fds       uint64
}

type probeOp struct {
	op    uint8
	_     uint8
	flags uint16
	_     uint32
}

const (
	probeOpsMax   = 256
	probeOpExists = 1 << 0
)

type probe struct {
	lastOp, opsLen uint8

	_   uint16
	_   [3]uint32
	ops [probeOpsMax]probeOp
}

// waitArg is struct io_uring_getevents_arg.
type waitArg struct {
	sigmask     uint64
	sigmaskSize uint32
	_           uint32
	timeout     uint64 // address of a timespec
}

type timespec struct{ sec, nsec int64 }
