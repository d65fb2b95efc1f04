package uring

import (
	"fmt"
	"math"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

func (r *Ring) register(what string, code int, arg unsafe.Pointer, n int) error {
	for {
		_, _, errno := unix.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(r.fd), uintptr(code), uintptr(arg), uintptr(n), 0, 0)
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
			continue
		case unix.EINVAL:
			return fmt.Errorf("uring: %s: %w: %w", what, ErrUnsupported, errno)
		}
		return fmt.Errorf("uring: %s: %w", what, limitError(errno))
	}
}

// RegisterFiles makes a table of n empty slots for files; see UpdateFile. A
// ring has one table.
func (r *Ring) RegisterFiles(n int) error {
	if n < 1 || n > math.MaxInt16 {
		return fmt.Errorf("uring: register files: %w: %d slots", ErrInvalid, n)
	}
	fds := make([]int32, n)
	for i := range fds {
		fds[i] = -1
	}
	return r.register("register files", registerFiles, unsafe.Pointer(&fds[0]), n)
}

// UpdateFile puts a descriptor into a slot of the table, or empties it with
// fd -1. The ring holds the open file until then, even when the descriptor is
// closed: so a file that is to go away must be taken out. Requests that were
// submitted keep the file that they began with.
func (r *Ring) UpdateFile(slot, fd int) error {
	fds := new(int32)
	*fds = int32(fd)
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(fds)
	u := &filesUpdate{offset: uint32(slot), fds: uint64(uintptr(unsafe.Pointer(fds)))}
	return r.register(fmt.Sprintf("update file slot %d", slot), registerFilesUpdate, unsafe.Pointer(u), 1)
}

// UnregisterFiles takes the table away.
func (r *Ring) UnregisterFiles() error {
	return r.register("unregister files", unregisterFiles, nil, 0)
}

// RegisterBuffers pins buffers for ReadFixed and WriteFixed, numbered from 0.
// They lie outside the Go heap and stay mapped until they are unregistered or
// the ring is closed. Without CAP_IPC_LOCK their pages count against
// RLIMIT_MEMLOCK: ErrLimit.
func (r *Ring) RegisterBuffers(bufs [][]byte) error {
	if len(bufs) == 0 || len(bufs) > math.MaxUint16 {
		return fmt.Errorf("uring: register buffers: %w: %d of them", ErrInvalid, len(bufs))
	}
	iov := make([]Iovec, len(bufs))
	for i, b := range bufs {
		iov[i] = MakeIovec(b)
	}
	return r.register("register buffers", registerBuffers, unsafe.Pointer(&iov[0]), len(iov))
}

// UnregisterBuffers gives the buffers back; no request on them may be in
// flight.
func (r *Ring) UnregisterBuffers() error {
	return r.register("unregister buffers", unregisterBuffers, nil, 0)
}

// Probe asks the kernel which operations it knows (5.6).
func (r *Ring) Probe() (*Operations, error) {
	p := new(probe)
	if err := r.register("probe", registerProbe, unsafe.Pointer(p), probeOpsMax); err != nil {
		return nil, err
	}
	o := &Operations{}
	for _, op := range p.ops[:p.opsLen] {
		o.known[op.op] = op.flags&probeOpExists != 0
	}
	return o, nil
}
