package disk

import (
	"context"

	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers"
)

// ReadBatch implements tiers.Reader.
func (u *UringReader) ReadBatch(ctx context.Context, items []tiers.Item) error {
	return newBatch(ctx, items).run(u)
}

// WriteBatch implements tiers.ReadWriter.
func (u *UringReader) WriteBatch(items []tiers.Item) error {
	return newWriteBatch(items).run(u)
}

// route decides whether a ring serves the request.
func (u *UringReader) route(r *request) bool {
	var f vfs.File
	switch {
	case r.b.write:
		if u.refusalW.Load() == nil {
			f = u.pread.directWriter(r)
		}
	case u.refusal.Load() == nil:
		f = u.pread.directReader(r)
	}
	if f == nil {
		return false
	}
	fd := f.Fd()
	r.fd = int(fd)
	return fd != vfs.InvalidFd
}

// submit implements queue. The pread path is closed after u is, so under the
// lock it is open.
func (u *UringReader) submit(b *batch) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return tiers.ErrClosed
	}
	queued, other := 0, 0
	room := u.queueMax + len(u.workers)*u.depth - int(u.inFlight.Load()) - u.queue.len()
	for i := range b.reqs {
		r := &b.reqs[i]
		if r.item == nil {
			continue
		}
		if r.onRing = len(u.workers) > 0 && u.route(r); !r.onRing {
			other++
			continue
		}
		if queued >= room {
			r.noRoom = true
			continue
		}
		queued++
		r.file.Retain()
		u.queue.push(r)
	}
	u.wakeFor(queued)
	if other == 0 {
		return nil
	}
	return u.pread.submit(b)
}

// wakeFor gets workers going for n new requests: first those that have
// nothing to do, then those that wait in the kernel. u.mu is held.
func (u *UringReader) wakeFor(n int) {
	for range min(n, u.idle) {
		u.wake.Signal()
		n--
	}
	for _, w := range u.workers {
		if n <= 0 {
			return
		}
		if w.asleep {
			w.asleep = false
			w.waker.Wake()
			n--
		}
	}
}

// abandon implements queue.
func (u *UringReader) abandon(b *batch) {
	u.pread.abandon(b)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.queue.dropAbandoned()
}
