package uring

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// MaxEntries is the largest ring that New makes.
const MaxEntries = 4096

// wishes are the setup flags that are asked for, from the best set down to
// none: a kernel that does not know one answers EINVAL.
//
// SINGLE_ISSUER (6.0) spares locks; DEFER_TASKRUN (6.1) lets completions be
// worked off when the ring's thread asks for them, in place of interrupting
// it; COOP_TASKRUN (5.19) does so in part.
var wishes = []uint32{
	setupSingleIssuer | setupDeferTaskrun,
	setupSingleIssuer | setupCoopTaskrun,
	setupCoopTaskrun,
	0,
}

// Ring is an io_uring. It belongs to the thread that made it, see the
// package's comment.
type Ring struct {
	fd       int
	flags    uint32
	features uint32

	ringMem, sqeMem []byte // mapped

	sqHead, sqTail, sqFlags *atomic.Uint32
	sqes                    []SQE
	sqMask                  uint32
	cqHead, cqTail          *atomic.Uint32
	cqes                    []CQE
	cqMask                  uint32

	// tail is the submission queue's; what lies before sqTail the kernel may
	// take. taken counts the completions that Next gave out.
	tail        uint32
	taken       uint32
	inFlightMax uint32

	// waitMem holds what Enter hands over for a timeout; like the queues it
	// is no memory of the Go heap, as its address goes to the kernel as a
	// number.
	waitMem []byte
}

// waitFor is the layout of waitMem.
type waitFor struct {
	arg     waitArg
	timeout timespec
}

// New makes a ring for up to entries requests in flight: 1 to MaxEntries,
// rounded up to a power of two. The calling goroutine is locked to its
// thread.
//
// Errors: ErrUnsupported, ErrLimit, ErrInvalid, or those of the system.
func New(entries int) (*Ring, error) {
	if entries < 1 || entries > MaxEntries {
		return nil, fmt.Errorf("%w: %d entries, want 1 to %d", ErrInvalid, entries, MaxEntries)
	}
	fd, p, err := setup(uint32(entries))
	if err != nil {
		return nil, fmt.Errorf("uring: set up a ring of %d entries: %w", entries, err)
	}
	r := &Ring{fd: fd, flags: p.flags, features: p.features}
	if p.features&featSingleMmap == 0 || p.features&featNoDrop == 0 {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("uring: %w: the kernel is older than 5.5 (features %#x)", ErrUnsupported, p.features)
	}
	if err := r.mapQueues(p); err != nil {
		r.unmap()
		_ = unix.Close(fd)
		return nil, fmt.Errorf("uring: map a ring of %d entries: %w", entries, limitError(err))
	}
	return r, nil
}

// setup asks for the best ring that the kernel can make. As many completions
// fit as requests may be in flight.
func setup(entries uint32) (int, *params, error) {
	var errno unix.Errno
	for _, flags := range wishes {
		p := &params{flags: flags}
		var fd uintptr
		fd, _, errno = unix.Syscall(unix.SYS_IO_URING_SETUP, uintptr(entries), uintptr(unsafe.Pointer(p)), 0)
		if errno == 0 {
			unix.CloseOnExec(int(fd)) // the kernel sets it as well
			return int(fd), p, nil
		}
		if errno != unix.EINVAL {
			break
		}
	}
	return -1, nil, setupError(errno)
}

// setupError says what a refusal of io_uring_setup(2) means.
func setupError(errno unix.Errno) error {
	switch errno {
	case unix.ENOSYS:
		return fmt.Errorf("%w: the kernel has no io_uring, or a seccomp profile hides it: %w", ErrUnsupported, errno)
	case unix.EPERM, unix.EACCES:
		return fmt.Errorf("%w: refused by a seccomp profile, a security module or sysctl kernel.io_uring_disabled: %w",
			ErrUnsupported, errno)
	}
	return limitError(errno)
}

// limitError names the limit behind an errno, if there is one.
func limitError(err error) error {
	switch {
	case errors.Is(err, unix.ENOMEM):
		return fmt.Errorf("%w: no memory, or above RLIMIT_MEMLOCK (ulimit -l): %w", ErrLimit, err)
	case errors.Is(err, unix.EMFILE):
		return fmt.Errorf("%w: no descriptor left, see RLIMIT_NOFILE (ulimit -n): %w", ErrLimit, err)
	case errors.Is(err, unix.ENFILE):
		return fmt.Errorf("%w: no descriptor left in the system (fs.file-max): %w", ErrLimit, err)
	}
	return err
}

// mapQueues maps the two queues, which share one mapping, and the entries.
func (r *Ring) mapQueues(p *params) error {
	size := max(p.sq.array+p.sqEntries*4, p.cq.cqes+p.cqEntries*uint32(unsafe.Sizeof(CQE{})))
	const prot, how = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_SHARED | unix.MAP_POPULATE
	var err error
	if r.ringMem, err = unix.Mmap(r.fd, offSQRing, int(size), prot, how); err != nil {
		return err
	}
	sqeBytes := int(p.sqEntries) * int(unsafe.Sizeof(SQE{}))
	if r.sqeMem, err = unix.Mmap(r.fd, offSQEs, sqeBytes, prot, how); err != nil {
		return err
	}
	const private = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	if r.waitMem, err = unix.Mmap(-1, 0, int(unsafe.Sizeof(waitFor{})), prot, private); err != nil {
		return err
	}
	word := func(off uint32) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&r.ringMem[off])) }
	r.sqHead, r.sqTail, r.sqFlags = word(p.sq.head), word(p.sq.tail), word(p.sq.flags)
	r.cqHead, r.cqTail = word(p.cq.head), word(p.cq.tail)
	r.sqMask, r.cqMask = p.sqEntries-1, p.cqEntries-1
	r.sqes = unsafe.Slice((*SQE)(unsafe.Pointer(&r.sqeMem[0])), p.sqEntries)
	r.cqes = unsafe.Slice((*CQE)(unsafe.Pointer(&r.ringMem[p.cq.cqes])), p.cqEntries)
	// The kernel finds entries through an array of indices; here each index
	// stands at its own place, for ever.
	array := unsafe.Slice((*uint32)(unsafe.Pointer(&r.ringMem[p.sq.array])), p.sqEntries)
	for i := range array {
		array[i] = uint32(i)
	}
	r.inFlightMax = p.cqEntries
	return nil
}

func (r *Ring) unmap() {
	for _, mem := range []*[]byte{&r.ringMem, &r.sqeMem, &r.waitMem} {
		if *mem != nil {
			_ = unix.Munmap(*mem)
			*mem = nil
		}
	}
}

// Close ends the ring. While requests are in flight it fails with ErrInFlight
// and does nothing: the kernel would work on after it, unseen. Entries that
// were not submitted are forgotten, registered files and buffers given back.
// A second Close does nothing.
func (r *Ring) Close() error {
	if r.fd < 0 {
		return nil
	}
	if n := r.InFlight(); n > 0 {
		return fmt.Errorf("uring: close: %d %w", n, ErrInFlight)
	}
	err := unix.Close(r.fd)
	r.fd = -1
	r.unmap()
	if err != nil && err != unix.EINTR {
		return fmt.Errorf("uring: close: %w", err)
	}
	return nil
}

// Entries is how many requests fit the submission queue.
func (r *Ring) Entries() int { return len(r.sqes) }

// Modes names the setup flags that the kernel granted, best first; "plain" if
// it knows none of them.
func (r *Ring) Modes() string {
	var granted []string
	for _, f := range []struct {
		bit  uint32
		name string
	}{{setupSingleIssuer, "single-issuer"}, {setupDeferTaskrun, "defer-taskrun"}, {setupCoopTaskrun, "coop-taskrun"}} {
		if r.flags&f.bit != 0 {
			granted = append(granted, f.name)
		}
	}
	if granted == nil {
		return "plain"
	}
	return strings.Join(granted, "+")
}
