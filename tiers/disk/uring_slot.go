package disk

import (
	"errors"
	"io"
	"syscall"

	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/internal/uring"
	"github.com/sealstone/sealstone/tiers"
)

const (
	// slotIovecs is how many pieces one entry moves; a request of more goes
	// on behind them as after a short count.
	slotIovecs = 64
	// wakerData marks the completion of the waker.
	wakerData = ^uint64(0)
)

// slot is a request in a ring.
type slot struct {
	r *request
	// generation is in the user data beside the slot's index, so that a
	// completion is never taken for one of the slot's next request.
	generation uint32
	pushed     uint64 // which push of the worker was its last

	// from is where in the file the transfer begins. Its memory is head
	// bytes of the spans, then size-head bytes of buf; need of its bytes
	// make a success.
	from       int64
	head, size int
	need       int
	lead       int // bytes of buf before the range, with head 0
	buf        *aligned.Buffer
	path       tiers.Path

	done int // bytes moved, whole blocks
	most int // the furthest that a read came
	idle int // tries without progress
	iov  []uring.Iovec
}

// begin starts a request that was taken from the queue.
func (w *ringWorker) begin(r *request) {
	if !r.start() {
		w.u.inFlight.Add(-1)
		return // given up; its batch released the file
	}
	if !r.pinned && r.b.ctx.Err() != nil {
		w.u.inFlight.Add(-1)
		r.deliver(outcome{err: abandoned(r.b.ctx)})
		return
	}
	i := w.free[len(w.free)-1]
	w.free = w.free[:len(w.free)-1]
	s := &w.slots[i]
	s.r, s.generation = r, s.generation+1
	s.done, s.most, s.idle = 0, 0, 0
	if !s.layOut(w.u.pread.pool) || !w.submit(i) {
		w.handOver(i)
	}
}

// layOut decides where the bytes go. False: there is no buffer now; the pread
// path can wait for one.
func (s *slot) layOut(pool *aligned.Pool) bool {
	r := s.r
	s.from, s.lead, s.need, s.path = r.offset, 0, r.length, tiers.PathDirect
	s.head = r.length &^ (directAlignBytes - 1)
	if r.b.write || s.head == r.length && r.pinned && r.suitable {
		s.size = r.length
		return true
	}
	if !r.pinned || !r.suitable {
		s.from = r.offset &^ (directAlignBytes - 1)
		s.lead, s.head, s.path = int(r.offset-s.from), 0, tiers.PathDirectBounce
		s.need += s.lead
	}
	s.size = (s.need + directAlignBytes - 1) &^ (directAlignBytes - 1)
	var err error
	s.buf, err = pool.TryGet(s.size - s.head)
	return err == nil
}

// submit pushes the rest of the slot's transfer.
func (w *ringWorker) submit(i int) bool {
	s := &w.slots[i]
	s.pushed = w.pushes + 1
	return w.push(s.entry().WithUserData(uint64(i) | uint64(s.generation)<<32))
}

// entry is the transfer from done on, as far as the iovecs go.
func (s *slot) entry() uring.SQE {
	n, at := 0, 0
	var only []byte
	add := func(p []byte) {
		if lo := max(s.done-at, 0); lo < len(p) && n < len(s.iov) {
			only = p[lo:]
			s.iov[n] = uring.MakeIovec(only)
			n++
		}
		at += len(p)
	}
	for _, p := range s.r.spans {
		if at >= s.head {
			break
		}
		add(p[:min(len(p), s.head-at)])
	}
	if s.buf != nil {
		add(s.buf.Bytes())
	}
	fd, off := s.r.fd, s.from+int64(s.done)
	switch {
	// A write that waits inside the system call (for the inode's lock, or for a
	// file system in user space) would hold the thread that reads wait for.
	case s.r.b.write && n == 1:
		return uring.Write(fd, only, off).OnWorker()
	case s.r.b.write:
		return uring.Writev(fd, s.iov[:n], off).OnWorker()
	case n == 1:
		return uring.Read(fd, only, off)
	}
	return uring.Readv(fd, s.iov[:n], off)
}

// advance takes the result of a slot's entry: the request is finished, goes
// on, or is handed over.
func (w *ringWorker) advance(i int, res int32) {
	s := &w.slots[i]
	again, err := s.take(res)
	switch {
	case err != nil && isRefusal(err):
		refuse(w.refusalOf(s.r), err)
		w.handOver(i)
	case errors.Is(err, errNotByRing):
		w.handOver(i)
	case again && (w.draining || !w.submit(i)):
		w.handOver(i)
	case !again:
		w.finish(i, err)
	}
}

// errNotByRing: the ring's own trouble, not the device's.
var errNotByRing = errors.New("disk: the ring can not do it")

// take counts the result in. It says whether the transfer goes on; if not,
// err is its outcome.
//
// Direct I/O can only go on at a block. So a broken last block is read again,
// and when that brings no more, the file ends there.
func (s *slot) take(res int32) (again bool, err error) {
	const block = directAlignBytes - 1
	if res < 0 {
		return s.takeErrno(syscall.Errno(-res))
	}
	reached := s.done + int(res)
	if s.r.b.write {
		if reached >= s.need {
			return false, nil
		}
		if reached&^block == s.done {
			return s.retry(io.ErrShortWrite)
		}
		s.done, s.idle = reached&^block, 0
		return true, nil
	}
	if reached >= s.need {
		return false, nil
	}
	if res == 0 || reached <= s.most {
		return false, io.ErrUnexpectedEOF
	}
	s.most, s.done, s.idle = reached, reached&^block, 0
	return true, nil
}

func (s *slot) takeErrno(errno syscall.Errno) (again bool, err error) {
	switch errno {
	case syscall.EINTR, syscall.EAGAIN, syscall.EBUSY:
		return s.retry(errNotByRing)
	case syscall.ECANCELED, syscall.ENOMEM, syscall.EBADF:
		return false, errNotByRing
	}
	return false, errno
}

// retry goes on, a bounded number of times without progress.
func (s *slot) retry(otherwise error) (again bool, err error) {
	if s.idle++; s.idle > maxTransientRetries {
		return false, otherwise
	}
	return true, nil
}

// finish answers the slot's request. The slot is free before Done is told, so
// nothing refers to the request after its answer.
func (w *ringWorker) finish(i int, err error) {
	s := &w.slots[i]
	r, buf, path := s.r, s.buf, s.path
	lead, head := s.lead, s.head
	w.release(i)
	if r.b.write {
		r.file.Release()
		r.finish(path, err)
		return
	}
	out := outcome{path: path, err: err}
	switch {
	case buf == nil:
	case head > 0 || path == tiers.PathDirect:
		if err == nil { // such a request is pinned
			out.err = scatterAt(r.spans, head, buf.Bytes()[:r.length-head])
		}
		buf.Free()
	default:
		out.buf, out.data = buf, buf.Bytes()[lead:lead+r.length]
	}
	r.deliver(out)
}

// handOver gives the slot's request to the pread path, from its beginning on.
func (w *ringWorker) handOver(i int) {
	s := &w.slots[i]
	r := s.r
	s.buf.Free()
	w.release(i)
	w.u.fallbacks.Add(1)
	w.u.pread.takeOver(r)
}

// release empties the slot, of which the kernel has nothing any more.
func (w *ringWorker) release(i int) {
	s := &w.slots[i]
	s.r, s.buf = nil, nil
	w.free = append(w.free, i)
	w.u.inFlight.Add(-1)
}
