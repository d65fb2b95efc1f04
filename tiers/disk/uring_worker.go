package disk

import (
	"runtime"

	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/internal/uring"
)

// ringWorker is a ring and its thread. But for asleep, which belongs to
// UringReader.mu, everything in it is the thread's own.
type ringWorker struct {
	u     *UringReader
	ring  ring
	waker *uring.Waker
	slots []slot
	free  []int // indices of the slots that hold no request
	iov   *aligned.Buffer

	// armed: the ring has an entry that reads the waker.
	armed bool
	// asleep: it waits in the kernel, or is about to, and has free slots.
	asleep bool
	// pushes counts the entries pushed, to tell which of them the kernel
	// took.
	pushes uint64
	// draining: the ring broke; nothing is pushed any more.
	draining bool
}

// run is the worker's goroutine. It reports on made whether it has its first
// ring.
func (w *ringWorker) run(made chan<- error) {
	// The ring may only be used by the thread that made it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer w.u.leave(w)
	err := w.setUp()
	made <- err
	for err == nil {
		err = w.serve()
		if err != nil {
			w.giveUp(err)
		}
		errClose := w.tearDown()
		if err == nil {
			return
		}
		if errClose != nil || !w.u.mayRebuild() {
			return
		}
		if err = w.setUp(); err != nil {
			w.u.broke(err)
			return
		}
		w.u.resume(w)
	}
}

// setUp makes ring, waker and slots.
func (w *ringWorker) setUp() (err error) {
	defer func() {
		if err != nil {
			_ = w.tearDown() // a ring that did nothing closes
		}
	}()
	// One entry more than slots: the waker's.
	if w.ring, err = w.u.open(w.u.depth + 1); err != nil {
		return err
	}
	if w.waker, err = uring.NewWaker(); err != nil {
		return err
	}
	if w.iov, err = aligned.Alloc(w.u.depth * slotIovecs * uring.IovecBytes); err != nil {
		return err
	}
	iov := uring.Iovecs(w.iov.Bytes())
	w.slots, w.free = make([]slot, w.u.depth), w.free[:0]
	for i := range w.slots {
		w.slots[i].iov = iov[i*slotIovecs : (i+1)*slotIovecs]
		w.free = append(w.free, i)
	}
	w.armed, w.draining, w.pushes = false, false, 0
	w.u.mu.Lock()
	w.u.modes = w.ring.Modes()
	w.u.mu.Unlock()
	return nil
}

// tearDown gives ring, waker and slots back. Nothing is in flight.
func (w *ringWorker) tearDown() error {
	var err error
	if w.ring != nil {
		err = w.ring.Close()
	}
	if err != nil {
		// The kernel may still write to the waker's buffer.
		w.u.broke(err)
		return err
	}
	if w.waker != nil {
		w.waker.Close()
	}
	w.iov.Free()
	w.ring, w.waker, w.iov, w.slots = nil, nil, nil, nil
	return nil
}
