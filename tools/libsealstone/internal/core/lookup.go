package core

import (
	"context"
	"sync/atomic"
	"time"
)

// cut makes hashes of size bytes each out of bytes that hold them one behind
// the other.
func cut(flat []byte, size int) [][]byte {
	out := make([][]byte, 0, len(flat)/max(size, 1))
	for ; len(flat) >= size && size > 0; flat = flat[size:] {
		out = append(out, flat[:size:size])
	}
	return out
}

// LookupNow answers for hashes of size bytes from memory alone, one status each
// into out. Flat may be memory of C: nothing of it is kept.
func (l *Lib) LookupNow(h uint64, flat []byte, size int, out []byte) *Error {
	n, ok := l.spaces.get(h)
	if !ok {
		return errBadHandle
	}
	for i, st := range n.space.lookupNow(cut(flat, size)) {
		out[i] = byte(st)
	}
	return nil
}

// leased is a lease that the host holds.
type leased struct {
	space *Space
	lease lease
	since atomic.Int64 // of the match or the last renewal, nanoseconds
}

// leaseForgotten is how old a lease must be to be taken for forgotten, when
// there is no room for another: far longer than leases last.
const leaseForgotten = time.Hour

// Match finds the longest stored prefix of a chain of hashes. The lease is 0 if
// there is nothing to keep, or no room for its handle.
func (l *Lib) Match(h uint64, flat []byte, size int, timeout time.Duration) (blocks int, handle uint64, e *Error) {
	n, ok := l.spaces.get(h)
	if !ok {
		return 0, 0, errBadHandle
	}
	ctx, cancel := n.store.context(timeout)
	defer cancel()
	// A call that leaves at its timeout may leave somebody behind who still
	// looks at the hashes: those are the library's.
	got, err := n.space.match(ctx, cut(append([]byte(nil), flat...), size))
	if err != nil {
		return 0, 0, callError(err)
	}
	if got.Blocks() == 0 {
		got.Release()
		return 0, 0, nil
	}
	v := &leased{space: n, lease: got}
	v.since.Store(time.Now().UnixNano())
	handle, e = enter(n.store, l.leases, v, "leases")
	if e != nil && e.Status == Shed {
		l.dropForgotten()
		handle, e = enter(n.store, l.leases, v, "leases")
	}
	switch {
	case e == nil:
	case e.Status == Shed: // what was found is there without a promise, too
		got.Release()
	default:
		got.Release()
		return 0, 0, e
	}
	return got.Blocks(), handle, nil
}

func (l *Lib) dropForgotten() {
	before := time.Now().Add(-leaseForgotten).UnixNano()
	for _, v := range l.leases.takeAll(func(v *leased) bool { return v.since.Load() < before }) {
		v.lease.Release()
	}
}

// Renew begins a lease's time anew.
func (l *Lib) Renew(h uint64) *Error {
	v, ok := l.leases.get(h)
	if !ok {
		return errBadHandle
	}
	ctx, cancel := context.WithTimeout(context.Background(), v.space.store.timeout)
	defer cancel()
	if !v.lease.renew(ctx) {
		return failf(Miss, "the lease has expired: match again")
	}
	v.since.Store(time.Now().UnixNano())
	return nil
}

// Release ends a lease.
func (l *Lib) Release(h uint64) *Error {
	v, ok := l.leases.take(h)
	if !ok {
		return errBadHandle
	}
	v.lease.Release()
	return nil
}
