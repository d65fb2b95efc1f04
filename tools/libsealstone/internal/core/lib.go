package core

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// Lib is all that the library holds. The C functions work on one; tests make
// their own.
type Lib struct {
	stores  *table[*Store]
	spaces  *table[*Space]
	regions *table[*region]
	leases  *table[*leased]

	mu     sync.Mutex
	panics []string // the latest few
	faults int64    // how many there were
}

// New makes an empty Lib.
func New() *Lib {
	return &Lib{
		stores: newTable[*Store](storesMax), spaces: newTable[*Space](handlesMax),
		regions: newTable[*region](handlesMax), leases: newTable[*leased](handlesMax),
	}
}

// panicsKept bounds what is remembered of panics.
const panicsKept = 4

// Caught records a panic that was recovered, for health: a bug in here must
// neither end the host nor go unseen.
func (l *Lib) Caught(v any) *Error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults++
	if len(l.panics) == panicsKept {
		l.panics = l.panics[1:]
	}
	l.panics = append(l.panics, fmt.Sprintf("internal error, please report it: %v: %.2000s", v, debug.Stack()))
	return failf(Internal, "internal error: %v (sealstone_health has more)", v)
}

func (l *Lib) caught() (texts []string, n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.panics...), l.faults
}

// Store is an open store.
type Store struct {
	lib     *Lib
	handle  uint64
	b       backend
	q       *queue
	bell    *eventBell
	timeout time.Duration
	closing chan struct{} // holds a token while nobody closes it
}

// Open opens a store by the JSON of its options.
func (l *Lib) Open(optionsJSON []byte) (uint64, *Error) {
	o, err := parseOptions(optionsJSON)
	if err != nil {
		return 0, failf(Invalid, "%v", err)
	}
	b, err := openBackend(o)
	if err != nil {
		return 0, callError(err)
	}
	return l.adopt(b, o)
}

func openBackend(o *options) (backend, error) {
	if o.server == "" {
		return openEmbedded(o)
	}
	ctx, cancel := context.WithTimeout(context.Background(), o.callTimeout)
	defer cancel()
	return openRemote(ctx, o)
}

// adopt gives a backend its queue and its handle, or closes it.
func (l *Lib) adopt(b backend, o *options) (uint64, *Error) {
	s := &Store{lib: l, b: b, timeout: o.callTimeout, closing: make(chan struct{}, 1)}
	s.closing <- struct{}{}
	bell, err := newBell()
	if err == nil {
		s.bell = bell
		s.q = newQueue(o, bell, s.perform)
		var ok bool
		if s.handle, ok = l.stores.add(s); ok {
			return s.handle, nil
		}
		bell.close()
		err = failf(Shed, "%d stores are open, as many as there may be", storesMax)
	}
	ctx, cancel := context.WithTimeout(context.Background(), o.callTimeout)
	defer cancel()
	_ = b.close(ctx) // nothing was put; what matters is why it was not adopted
	return 0, callError(err)
}

// perform does a job for the queue. A panic is the job's end and not the
// host's.
func (s *Store) perform(ctx context.Context, it *queued) (results []Result, reasons []reason) {
	defer func() {
		if v := recover(); v != nil {
			e := s.lib.Caught(v)
			results, reasons = unfinished(it.id, it.job, Internal, e.Text)
		}
	}()
	return perform(ctx, it.space, it.id, it.job)
}

func (l *Lib) store(h uint64) (*Store, *Error) {
	s, ok := l.stores.get(h)
	if !ok {
		return nil, errBadHandle
	}
	return s, nil
}

// context bounds a call: 0 is the store's own timeout.
func (s *Store) context(timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout == 0 {
		timeout = s.timeout
	}
	return context.WithTimeout(context.Background(), timeout)
}

// Close closes a store and ends its handles; see sealstone_close.
func (l *Lib) Close(h uint64, timeout time.Duration) *Error {
	s, e := l.store(h)
	if e != nil {
		return e
	}
	ctx, cancel := s.context(timeout)
	defer cancel()
	s.q.close()
	select {
	case <-s.closing:
		defer func() { s.closing <- struct{}{} }()
	case <-ctx.Done():
		return failf(Closing, "another call closes the store and has not come to its end")
	}
	if _, ok := l.stores.get(h); !ok {
		return errBadHandle
	}
	if err := s.q.waitIdle(ctx); err != nil {
		return failf(Closing, "%v; call close again", err)
	}
	err := s.b.close(ctx)
	if err != nil && isClosing(err) {
		return failf(Closing, "%v; call close again", err)
	}
	l.forget(s)
	if err != nil {
		return callError(err)
	}
	return nil
}

// forget takes all handles of a closed store.
func (l *Lib) forget(s *Store) {
	l.stores.take(s.handle)
	l.spaces.takeAll(func(n *Space) bool { return n.store == s })
	l.leases.takeAll(func(v *leased) bool { return v.space.store == s })
	l.regions.takeAll(func(r *region) bool { return r.store == s })
	s.q.discard()
	s.bell.close()
}

// EventFd is the descriptor that is readable while completions wait.
func (l *Lib) EventFd(h uint64) (int, *Error) {
	s, e := l.store(h)
	if e != nil {
		return -1, e
	}
	return s.bell.fd, nil
}

// WaitIdle waits until no operation is queued or running.
func (l *Lib) WaitIdle(h uint64, timeout time.Duration) *Error {
	s, e := l.store(h)
	if e != nil {
		return e
	}
	ctx, cancel := s.context(timeout)
	defer cancel()
	if err := s.q.waitIdle(ctx); err != nil {
		return callError(err)
	}
	return nil
}

// Submit takes a job in; it never blocks. See sealstone_submit.
func (l *Lib) Submit(store, space uint64, j *Job) (uint64, *Error) {
	s, e := l.store(store)
	if e != nil {
		return 0, e
	}
	n, ok := l.spaces.get(space)
	if !ok || n.store != s {
		return 0, errBadHandle
	}
	return s.q.submit(n.space, j)
}

// Drain takes completions; see sealstone_drain. With none, needed is the room
// that the first wants, or 0 if none waits.
func (l *Lib) Drain(h uint64, most, room int) (taken []*Completion, needed int, e *Error) {
	s, e := l.store(h)
	if e != nil {
		return nil, 0, e
	}
	taken, needed = s.q.drain(most, room)
	return taken, needed, nil
}

// Reason is why an item of a drained operation was not OK.
func (l *Lib) Reason(h, op uint64, item uint32) (string, *Error) {
	s, e := l.store(h)
	if e != nil {
		return "", e
	}
	text, ok := s.q.reason(op, item)
	if !ok {
		return "", failf(Miss, "no reason is kept")
	}
	return text, nil
}
