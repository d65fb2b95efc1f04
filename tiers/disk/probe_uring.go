package disk

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"syscall"

	"github.com/sealstone/sealstone/internal/uring"
	"github.com/sealstone/sealstone/internal/vfs"
)

// ringTries bounds how often a request is submitted anew where the kernel is
// out of memory for it or was interrupted.
const ringTries = 64

// tryUring makes a ring and moves bytes with each kind of request that the
// store uses. Without the required ones the path is refused; the others are
// only reported.
func (p *prober) tryUring(context.Context) {
	switch {
	case p.file == nil || p.r.Path(PathUring).State == PathRefused:
		return
	case p.file.buffered.Fd() == vfs.InvalidFd:
		p.untried(PathUring, "there are no descriptors to give to a ring", "")
		return
	case !p.r.Proven(PathPread):
		p.refuseFor(PathUring, "direct I/O is refused: "+p.r.DirectRefusal(), p.r.Path(PathPread).Errno)
		return
	}
	runtime.LockOSThread() // a ring belongs to a thread
	defer runtime.UnlockOSThread()
	ring, err := uring.New(ringEntries)
	if err != nil {
		p.refuseFor(PathUring, p.explainUring(err), errnoName(err))
		return
	}
	t := &ringTrial{prober: p, ring: ring, fd: int(p.file.direct.Fd()), off: directPart + PageBytes, length: partBytes - PageBytes}
	if p.file.readOnly {
		t.off, t.length = 0, PageBytes
	}
	p.r.Uring.Setup, p.r.Uring.Flags = true, strings.Split(ring.Modes(), "+")
	t.run()
}

// explainUring puts what an operator can do in the place of a bare errno.
func (p *prober) explainUring(err error) string {
	level := p.r.Uring.DisabledLevel
	switch {
	case level > 0 && (errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES)):
		return fmt.Sprintf("sysctl kernel.io_uring_disabled is %d, which refuses io_uring here (%v)", level, err)
	// A kernel that has the sysctl has io_uring: what hides it is a filter.
	case level == 0 && (errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSYS)):
		return fmt.Sprintf("a seccomp profile, as container runtimes set by default, or a security module refuses io_uring (%v)", err)
	}
	return err.Error()
}

// ringTrial tries requests on one ring, one at a time.
type ringTrial struct {
	*prober
	ring   *uring.Ring
	fd     int // for direct I/O
	off    int64
	length int
	number uint64
}

const ringEntries = 4

func (t *ringTrial) run() {
	defer t.end()
	// A request that fails may still be in the kernel when the ring failed:
	// nothing more is tried then.
	for _, op := range []struct {
		name     string
		required bool
		run      func() error
	}{
		{"nop", true, func() error { return t.do(uring.Nop(), 0) }},
		{"write", true, t.write},
		{"read", true, func() error { return t.read(func(p []byte) uring.SQE { return uring.Read(t.fd, p, t.off) }) }},
		{"readv", true, t.readv},
		{"read_fixed", false, t.readFixed},
		{"registered_file", false, t.registeredFile},
	} {
		if op.name == "write" && t.file.readOnly {
			continue
		}
		err := op.run()
		o := ProbeOperation{Name: op.name, OK: err == nil}
		if err != nil {
			o.Reason, o.Errno = err.Error(), errnoName(err)
		}
		t.r.Uring.Operations = append(t.r.Uring.Operations, o)
		if err != nil && (op.required || errors.Is(err, errContent)) {
			t.refuse(PathUring, doing("io_uring "+op.name, err))
		}
		if t.ring.InFlight() > 0 {
			return
		}
	}
	t.prove(PathUring, PageBytes)
}

// end closes the ring. With a request in flight that will not complete, ring
// and memory are set aside for good: the kernel may still use them.
func (t *ringTrial) end() {
	if t.ring.InFlight() > 0 {
		t.trial.buf = nil
		t.warn("io_uring did not complete a request of the probe; its ring is set aside")
		return
	}
	_ = t.ring.Close()
}

// do submits one request and wants the result. It waits as long as the kernel
// takes: a probe that is late is left behind as a whole.
func (t *ringTrial) do(e uring.SQE, want int) error {
	t.number++
	if !t.ring.Push(e.WithUserData(t.number)) {
		return errors.New("the ring takes no entry")
	}
	for failed := 0; failed < ringTries; {
		err := t.ring.Enter(1, 0) // comes back early after a signal, without an error
		if c, ok := t.ring.Next(); ok {
			switch {
			case c.UserData != t.number:
				return fmt.Errorf("completion of request %d, expected %d", c.UserData, t.number)
			case c.Res < 0:
				return syscall.Errno(-c.Res)
			case int(c.Res) != want:
				return fmt.Errorf("moved %d of %d bytes", c.Res, want)
			}
			return nil
		}
		if err != nil && !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EBUSY) && !errors.Is(err, syscall.EINTR) {
			return err
		}
		if err != nil {
			failed++
		}
	}
	return errors.New("no completion")
}

func (t *ringTrial) write() error {
	src := t.trial.source(t.length, PageBytes)
	_, _ = t.trial.rand.Read(src) // never fails
	if err := t.do(uring.Write(t.fd, src, t.off), t.length); err != nil {
		return err
	}
	copy(t.trial.want[t.off:], src)
	if err := t.trial.read(t.file.direct, t.off, t.length, PageBytes); err != nil {
		return doing("direct read of what the ring wrote", err)
	}
	return doing("buffered read of what the ring wrote", t.trial.read(t.file.buffered, t.off, t.length, PageBytes))
}

// read has an entry made for the destination and compares.
func (t *ringTrial) read(entry func(dst []byte) uring.SQE) error {
	return t.trial.check(t.off, t.length, PageBytes, func(dst []byte) error {
		return t.do(entry(dst), len(dst))
	})
}

// readv reads into two pieces.
func (t *ringTrial) readv() error {
	var pin runtime.Pinner
	defer pin.Unpin()
	return t.read(func(dst []byte) uring.SQE {
		half := len(dst) / 2 &^ (PageBytes - 1)
		iov := []uring.Iovec{uring.MakeIovec(dst[half:])}
		if half > 0 {
			iov = []uring.Iovec{uring.MakeIovec(dst[:half]), iov[0]}
		}
		pin.Pin(&iov[0])
		return uring.Readv(t.fd, iov, t.off)
	})
}

func (t *ringTrial) readFixed() error {
	if err := t.ring.RegisterBuffers([][]byte{t.trial.mem[trialPlaceBytes:]}); err != nil {
		return err
	}
	err := t.read(func(dst []byte) uring.SQE { return uring.ReadFixed(t.fd, dst, t.off, 0) })
	if t.ring.InFlight() > 0 {
		return err
	}
	return errors.Join(err, t.ring.UnregisterBuffers())
}

func (t *ringTrial) registeredFile() error {
	if err := t.ring.RegisterFiles(1); err != nil {
		return err
	}
	if err := t.ring.UpdateFile(0, t.fd); err != nil {
		return err
	}
	err := t.read(func(dst []byte) uring.SQE { return uring.Read(0, dst, t.off).WithFixedFile(0) })
	if t.ring.InFlight() > 0 {
		return err
	}
	return errors.Join(err, t.ring.UnregisterFiles())
}
