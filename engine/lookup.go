package engine

import (
	"context"

	"github.com/sealstone/sealstone/engine/index"
)

// lookupResult is what the store knows of a key.
type lookupResult struct {
	entry index.Entry
	ok    bool // stored and visible
	bad   bool // stored, and known not to verify
}

// lookup finds keys in the overlay and then in the index: what is applied
// enters the index before it leaves the overlay, so a key is always in one of
// them. stopAtMiss ends at the first absent key.
func (s *Store) lookup(ctx context.Context, keys []index.Key, stopAtMiss bool) ([]lookupResult, error) {
	return s.find(ctx, keys, stopAtMiss, nil)
}

// lookupHinted is lookup for those who only read: what the hint table denies
// is not asked of the index. Puts and drops decide by the index alone.
func (s *Store) lookupHinted(ctx context.Context, keys []index.Key, stopAtMiss bool) ([]lookupResult, error) {
	return s.find(ctx, keys, stopAtMiss, s.hint)
}

func (s *Store) find(ctx context.Context, keys []index.Key, stopAtMiss bool, hint *hintTable) ([]lookupResult, error) {
	for {
		out, overtaken, err := s.findOnce(ctx, keys, stopAtMiss, hint)
		if err != nil || !overtaken {
			return out, err
		}
		// Each try more takes a quarantine that was applied meanwhile, and
		// those are few: see stormGuard.
	}
}

// findOnce is one try. It was overtaken if a quarantine came to be applied
// meanwhile: an entry read before is of a block that is gone by now, and
// nothing says any more that it is bad. A put would take it for stored.
func (s *Store) findOnce(ctx context.Context, keys []index.Key, stopAtMiss bool, hint *hintTable) (out []lookupResult, overtaken bool, err error) {
	l := search{keys: keys, out: make([]lookupResult, len(keys)), stopAtMiss: stopAtMiss}
	s.mu.Lock()
	l.overlay(&s.overlay)
	gone := s.badGone
	s.mu.Unlock()
	l.skip(hint)
	if len(l.ask) > 0 {
		found, err := s.idx.Get(ctx, l.ask, stopAtMiss)
		if err != nil {
			return nil, false, err
		}
		l.take(found)
	}
	s.o.private.points("lookup:read")
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.badGone != gone {
		return nil, true, nil
	}
	s.judgeLocked(&l)
	return l.out, false, nil
}

// search is one lookup under way.
type search struct {
	keys       []index.Key
	out        []lookupResult
	stopAtMiss bool
	// ask are the keys that the overlay does not have, at their places in
	// keys; at is nil where those are all.
	ask []index.Key
	at  []int
	// drops are the sequences up to which the overlay drops; nil: none.
	drops []uint64
}

// overlay looks keys up in the overlay.
func (l *search) overlay(o *overlay) {
	if len(o.keys) == 0 {
		l.ask = l.keys
		return
	}
	l.ask, l.at = make([]index.Key, 0, len(l.keys)), make([]int, 0, len(l.keys))
	for i, k := range l.keys {
		v := o.look(k)
		if v.found {
			l.out[i].entry, l.out[i].ok = v.entry, true
			continue
		}
		l.ask, l.at = append(l.ask, k), append(l.at, i)
		if v.dropSeq > 0 {
			if l.drops == nil {
				l.drops = make([]uint64, len(l.keys))
			}
			l.drops[i] = v.dropSeq
		}
	}
}

// skip leaves out what the hint table denies. With stopAtMiss nothing behind
// that matters. It must come after overlay: see hintTable.maybe.
func (l *search) skip(hint *hintTable) {
	if !hint.is(hintComplete) {
		return
	}
	var ask []index.Key
	var at []int
	for j, k := range l.ask {
		if hint.maybe(k) {
			ask, at = append(ask, k), append(at, l.place(j))
		} else if l.stopAtMiss {
			break
		}
	}
	if len(ask) < len(l.ask) {
		l.ask, l.at = ask, at
	}
}

// place is where the j-th key asked for stands.
func (l *search) place(j int) int {
	if l.at == nil {
		return j
	}
	return l.at[j]
}

// take enters the answers of the index.
func (l *search) take(found []index.Found) {
	for j, f := range found {
		i := l.place(j)
		if f.OK && (l.drops == nil || f.Seq > l.drops[i]) {
			l.out[i].entry, l.out[i].ok = f.Entry, true
		}
	}
}

// judgeLocked hides what lies under an epoch floor or is known to be bad.
func (s *Store) judgeLocked(l *search) {
	for i := range l.out {
		r := &l.out[i]
		switch {
		case !r.ok:
		case r.entry.Seq < s.floorLocked(l.keys[i].Namespace):
			*r = lookupResult{}
		default:
			_, r.bad = s.bad[r.entry.Address]
			r.ok = !r.bad
		}
		if l.stopAtMiss && !r.ok {
			clear(l.out[i+1:])
			return
		}
	}
}

// unanswered is the status after a lookup that failed: Timeout if it is the
// caller's time that ended, else st.
func unanswered(ctx context.Context, st Status) Status {
	if ctx.Err() != nil {
		return StatusTimeout
	}
	return st
}
