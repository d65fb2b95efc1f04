package disk

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/sealstone/sealstone/internal/uring"
)

const (
	// maxBusyRetries bounds how often in a row the kernel may have no memory
	// for a request, or no room for completions.
	maxBusyRetries = 1000
	busyPause      = 50 * time.Microsecond
)

// errRing: a ring did what it must not do.
var errRing = errors.New("disk: ring is broken")

// serve works until the reader is closed and nothing is left to do (nil), or
// until the ring breaks.
func (w *ringWorker) serve() error {
	var taken [submitBatchMax]*request
	for {
		n, state := w.take(taken[:])
		if state == tookLast {
			return w.disarm()
		}
		for i, r := range taken[:n] {
			taken[i] = nil
			w.begin(r)
		}
		if err := w.enter(state == tookNone); err != nil {
			return err
		}
		if err := w.reap(submitBatchMax, w.u.submitBytes); err != nil {
			return err
		}
	}
}

// What take found.
type tookState int

const (
	tookSome tookState = iota
	tookNone           // but there are requests in flight: wait for them
	tookLast           // and there never will be: the reader is closed
)

// take takes a few requests from the queue, as many as are this ring's share
// of what is to do: each ring shall have some, so that what Done does is
// spread over the threads. With nothing in flight it waits.
func (w *ringWorker) take(into []*request) (int, tookState) {
	u := w.u
	u.mu.Lock()
	defer u.mu.Unlock()
	w.asleep = false
	for {
		used := len(w.slots) - len(w.free)
		share := (u.queue.len() + int(u.inFlight.Load()) + len(u.workers) - 1) / len(u.workers)
		most := min(len(into), u.queue.len(), len(w.free), share-used)
		if n := u.pop(into[:max(most, 0)]); n > 0 {
			return n, tookSome
		}
		if used > 0 {
			u.wakeFor(u.queue.len()) // what is left is others' share
			w.asleep = len(w.free) > 0
			return 0, tookNone
		}
		if u.closed {
			return 0, tookLast
		}
		u.idle++
		u.wake.Wait()
		u.idle--
	}
}

// pop takes requests from the queue, which has enough, as long as they are
// not too many bytes for one submission. u.mu is held.
func (u *UringReader) pop(into []*request) (n int) {
	for left := u.submitBytes; n < len(into); n++ {
		left -= u.queue.peek().length
		if n > 0 && left < 0 {
			break
		}
		into[n] = u.queue.pop()
	}
	u.inFlight.Add(int64(n))
	return n
}

// enter hands the pushed entries to the kernel and, with wait, waits for a
// completion or for the waker.
func (w *ringWorker) enter(wait bool) error {
	min := 0
	if wait {
		min = 1
		if !w.armed {
			if w.armed = w.push(w.waker.Entry().WithUserData(wakerData)); !w.armed {
				return fmt.Errorf("%w: no room for the waker", errRing)
			}
		}
	}
	for try := 0; ; try++ {
		err := w.ring.Enter(min, 0)
		switch {
		case err == nil && w.ring.Pending() == 0:
			return nil
		case err != nil && !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EBUSY):
			return fmt.Errorf("%w: %w", errRing, err)
		case try >= maxBusyRetries:
			return fmt.Errorf("%w: the kernel took none of %d entries %d times: %v", errRing, w.ring.Pending(), try, err)
		}
		time.Sleep(busyPause)
		if w.ring.InFlight() > 0 {
			return nil // taking completions makes room; then it comes back
		}
	}
}

// reap works off completions, up to a number and, but for the first, to a
// number of bytes; then the device gets new work.
func (w *ringWorker) reap(most, mostBytes int) error {
	for ; most > 0 && mostBytes > 0; most-- {
		c, ok := w.ring.Next()
		if !ok {
			return nil
		}
		mostBytes -= int(max(c.Res, 0))
		if err := w.complete(c); err != nil {
			return err
		}
	}
	return nil
}

// complete brings a completion to its request.
func (w *ringWorker) complete(c uring.CQE) error {
	if c.UserData == wakerData && w.armed {
		w.armed = false
		if c.Res < 0 && c.Res != -int32(syscall.EINTR) {
			return fmt.Errorf("%w: nothing can wake it: %w", errRing, syscall.Errno(-c.Res))
		}
		return nil
	}
	i, generation := int(uint32(c.UserData)), uint32(c.UserData>>32)
	if i >= len(w.slots) || w.slots[i].r == nil || w.slots[i].generation != generation {
		return fmt.Errorf("%w: a completion of %#x, which is no request's", errRing, c.UserData)
	}
	w.advance(i, c.Res)
	return nil
}

// disarm ends the read of the waker; then nothing is in flight.
func (w *ringWorker) disarm() error {
	if w.armed {
		w.waker.Wake()
	}
	for w.armed {
		if err := w.enter(true); err != nil {
			return err
		}
		if err := w.reap(1, 1); err != nil {
			return err
		}
	}
	return nil
}

// push puts an entry into the ring, which has room for one of each slot and
// one of the waker.
func (w *ringWorker) push(e uring.SQE) bool {
	ok := w.ring.Push(e)
	if ok {
		w.pushes++
	}
	return ok
}
