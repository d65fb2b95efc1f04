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
	out := make([]lookupResult, len(keys))
	views := make([]view, len(keys))
	ask := make([]index.Key, 0, len(keys))
	at := make([]int, 0, len(keys))
	s.mu.Lock()
	for i, k := range keys {
		if views[i] = s.overlay.look(k); !views[i].found {
			ask, at = append(ask, k), append(at, i)
		}
	}
	s.mu.Unlock()
	if len(ask) > 0 {
		found, err := s.idx.Get(ctx, ask, stopAtMiss)
		if err != nil {
			return nil, err
		}
		for j, f := range found {
			if v := &views[at[j]]; f.OK && f.Seq > v.dropSeq {
				v.entry, v.found = f.Entry, true
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, k := range keys {
		r := &out[i]
		if v := views[i]; v.found && v.entry.Seq >= s.floorLocked(k.Namespace) {
			_, r.bad = s.bad[v.entry.Address]
			r.entry, r.ok = v.entry, !r.bad
		}
		if stopAtMiss && !r.ok {
			break
		}
	}
	return out, nil
}

// unanswered is the status after a lookup that failed: Timeout if it is the
// caller's time that ended, else st.
func unanswered(ctx context.Context, st Status) Status {
	if ctx.Err() != nil {
		return StatusTimeout
	}
	return st
}
