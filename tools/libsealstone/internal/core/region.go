package core

import "sync"

// region is memory that a store knows.
type region struct {
	store   *Store
	once    sync.Once
	release func()
}

// Register makes memory known to a store; see sealstone_register_region.
func (l *Lib) Register(h uint64, memory Span, fd int) (uint64, *Error) {
	s, e := l.store(h)
	if e != nil {
		return 0, e
	}
	release, err := s.b.register(memory.bytes(), fd)
	if err != nil {
		return 0, callError(err)
	}
	r := &region{store: s, release: release}
	handle, e := enter(s, l.regions, r, "regions")
	if e != nil {
		r.once.Do(release)
		return 0, e
	}
	return handle, nil
}

// Unregister ends a region of the store.
func (l *Lib) Unregister(store, h uint64) *Error {
	r, ok := l.regions.get(h)
	if !ok || r.store.handle != store {
		return errBadHandle
	}
	if _, ok := l.regions.take(h); !ok {
		return errBadHandle
	}
	r.once.Do(r.release)
	return nil
}
