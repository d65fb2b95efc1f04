package disk

import (
	"slices"
	"sync/atomic"
	"time"
)

// drainPauseMax is the longest pause between two tries to take completions
// from a broken ring.
const drainPauseMax = 100 * time.Millisecond

// giveUp brings a broken ring to where it can be closed. What the kernel did
// not take goes to the pread path at once. What it took is waited for: until
// then spans and buffers are the kernel's, as with a device that hangs. With
// nothing in flight any more, requests without a completion have lost theirs,
// and are done again by the pread path.
func (w *ringWorker) giveUp(reason error) {
	w.draining = true
	w.u.broke(reason)
	w.u.withdraw(w)
	notTaken := uint64(w.ring.Pending())
	for i := range w.slots {
		if w.slots[i].r != nil && w.slots[i].pushed > w.pushes-notTaken {
			w.handOver(i)
		}
	}
	if w.armed {
		w.waker.Wake() // its entry ends as well
	}
	for pause := time.Millisecond; w.ring.InFlight() > 0; {
		if w.drain() {
			continue
		}
		if w.ring.Wait(1, 0) != nil {
			time.Sleep(pause)
			pause = min(2*pause, drainPauseMax)
		}
	}
	for i := range w.slots {
		if w.slots[i].r != nil {
			w.handOver(i)
		}
	}
}

// drain takes a completion; false if there is none.
func (w *ringWorker) drain() bool {
	c, ok := w.ring.Next()
	if ok {
		_ = w.complete(c) // the ring is given up already
	}
	return ok
}

// broke keeps the reason why a ring was given up.
func (u *UringReader) broke(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.broken = err.Error()
}

// mayRebuild says whether a ring may be made anew, and counts that in.
func (u *UringReader) mayRebuild() bool {
	now := time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	recent := u.rebuilds[:0]
	for _, t := range u.rebuilds {
		if now.Sub(t) < rebuildPeriod {
			recent = append(recent, t)
		}
	}
	u.rebuilds = recent
	if len(recent) >= u.maxRebuilds {
		return false
	}
	u.rebuilds = append(u.rebuilds, now)
	return true
}

// resume puts a worker with a new ring in.
func (u *UringReader) resume(w *ringWorker) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.rebuilt++
	u.workers = append(u.workers, w)
}

// withdraw takes a worker out. With the last one the pread path serves what
// still waits, and what comes.
func (u *UringReader) withdraw(w *ringWorker) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if i := slices.Index(u.workers, w); i >= 0 {
		u.workers = slices.Delete(u.workers, i, i+1)
	}
	if len(u.workers) > 0 {
		u.wakeFor(u.queue.len()) // for what this one was woken for
		return
	}
	for u.queue.len() > 0 {
		u.fallbacks.Add(1)
		u.pread.takeOver(u.queue.pop())
	}
}

// leave counts a worker's goroutine out.
func (u *UringReader) leave(w *ringWorker) {
	u.withdraw(w)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.threads--; u.threads == 0 {
		close(u.gone)
	}
}

// refusalOf is where a refusal of such a request is kept.
func (w *ringWorker) refusalOf(r *request) *atomic.Pointer[string] {
	if r.b.write {
		return &w.u.refusalW
	}
	return &w.u.refusal
}
