package engine

import (
	"sync"
	"time"

	"github.com/sealstone/sealstone/engine/index"
)

// Lease keeps the blocks of a match from eviction until it is released or
// expires. It holds no file and no memory of blocks: a lease that is
// forgotten costs nothing once it has expired.
type Lease struct {
	s      *Store
	blocks int
	mu     sync.Mutex
	held   []*leaseEntry // nil once released
}

// Blocks is the length of the longest stored prefix.
func (l *Lease) Blocks() int { return l.blocks }

// Renew begins the lease's time anew. It returns false after Release, or if
// the lease has expired.
func (l *Lease) Renew() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held != nil && l.s.leases.renew(l.s, l.held)
}

// Release ends the lease. Releasing twice is nothing.
func (l *Lease) Release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.s.leases.release(l.held)
	l.held = nil
}

// leaseTable holds what is leased: a bounded share of the capacity.
type leaseTable struct {
	mu       sync.Mutex
	byKey    map[index.Key]*leaseEntry
	bytes    int64
	sweepDue time.Time
	last     time.Time // what the clock was at the last look
}

// leaseEntry is one block under one or more leases.
type leaseEntry struct {
	key     index.Key
	bytes   int64
	holders int
	expires time.Time
}

func (t *leaseTable) grant(s *Store, keys []index.Key, found []lookupResult) *Lease {
	now := s.o.private.now()
	limit := int64(s.o.LeaseShare * float64(s.room.capacityBytes))
	l := &Lease{s: s, blocks: len(keys), held: []*leaseEntry{}}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.setBack(now, s.o.LeaseDuration)
	t.sweep(now, s.o.LeaseDuration)
	if t.byKey == nil {
		t.byKey = map[index.Key]*leaseEntry{}
	}
	for i, k := range keys {
		e := t.byKey[k]
		if e == nil {
			size := found[i].entry.Bytes()
			if t.bytes+size > limit {
				s.count.leasesRefused.Add(int64(len(keys) - i))
				break
			}
			e = &leaseEntry{key: k, bytes: size}
			t.byKey[k] = e
			t.bytes += size
		}
		e.holders++
		e.expires = now.Add(s.o.LeaseDuration)
		l.held = append(l.held, e)
	}
	return l
}

func (t *leaseTable) renew(s *Store, held []*leaseEntry) bool {
	now := s.o.private.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.setBack(now, s.o.LeaseDuration)
	for _, e := range held {
		if t.byKey[e.key] != e || !now.Before(e.expires) {
			return false
		}
	}
	for _, e := range held {
		e.expires = now.Add(s.o.LeaseDuration)
	}
	return true
}

func (t *leaseTable) release(held []*leaseEntry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range held {
		if e.holders--; e.holders == 0 {
			t.remove(e)
		}
	}
}

func (t *leaseTable) remove(e *leaseEntry) {
	if t.byKey[e.key] == e {
		delete(t.byKey, e.key)
		t.bytes -= e.bytes
	}
}

// sweep forgets expired entries, at most once in a quarter of a lease's time.
func (t *leaseTable) sweep(now time.Time, d time.Duration) {
	if now.Before(t.sweepDue) {
		return
	}
	t.sweepDue = now.Add(d / 4)
	for _, e := range t.byKey {
		if !now.Before(e.expires) {
			t.remove(e)
		}
	}
}

// holds reports whether a key is leased, with leases of duration d.
func (t *leaseTable) holds(k index.Key, now time.Time, d time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.setBack(now, d)
	e := t.byKey[k]
	return e != nil && now.Before(e.expires)
}

// clockSlack is by how much the times of callers that overtake each other may
// differ; a clock that goes back by more was set.
const clockSlack = time.Second

// setBack looks whether the clock was set back since the last look. Then no
// lease has more than its duration left from now on, or the blocks would be
// kept until the clock has caught up.
func (t *leaseTable) setBack(now time.Time, d time.Duration) {
	if !now.Before(t.last.Add(-clockSlack)) {
		if now.After(t.last) {
			t.last = now
		}
		return
	}
	t.last, t.sweepDue = now, now
	for _, e := range t.byKey {
		if e.expires.Sub(now) > d {
			e.expires = now.Add(d)
		}
	}
}

// heldBytes is what is leased now, without what has expired since the last
// lease was granted.
func (t *leaseTable) heldBytes(s *Store) int64 {
	now := s.o.private.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.setBack(now, s.o.LeaseDuration)
	t.sweep(now, s.o.LeaseDuration)
	return t.bytes
}
