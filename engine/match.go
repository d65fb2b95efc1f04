package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/sealstone/sealstone/engine/index"
)

// Match finds the longest stored prefix of a chain of block hashes and
// returns a lease on it: for Options.LeaseDuration eviction keeps those blocks
// (as far as LeaseShare goes). A lease is a promise that makes a Get likely to
// succeed, not a proof: the bytes are verified by the Get.
//
// An error means that nothing is known: treat it as a prefix of length 0.
func (n *Namespace) Match(ctx context.Context, hashes [][]byte) (*Lease, error) {
	s := n.s
	keys, err := n.keys(hashes)
	if err != nil {
		return nil, err
	}
	found, err := n.ask(ctx, keys, true)
	if err != nil {
		return nil, fmt.Errorf("engine: match: %w", err)
	}
	hits := 0
	for hits < len(found) && found[hits].ok {
		s.used.mark(found[hits].entry.Address)
		hits++
	}
	l := s.leases.grant(s, keys[:hits], found[:hits])
	// Only after the lease is entered: an eviction that has not chosen yet
	// what to move on will see it.
	l.blocks = s.staying(found[:hits])
	s.count.matchAsked.Add(int64(len(keys)))
	s.count.matched.Add(int64(l.blocks))
	if l.blocks < len(keys) {
		s.ghost.note(keys[l.blocks:])
	}
	return l, nil
}

// staying counts the blocks before the first whose segment is about to go: an
// eviction has chosen what it moves on, and this block is not moved yet.
func (s *Store) staying(found []lookupResult) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range found {
		for _, e := range []index.Extent{r.entry.Extent, r.entry.Own} {
			if seg := s.segs[e.Address.Segment]; seg != nil && seg.chosen {
				return i
			}
		}
	}
	return len(found)
}

// Has tells for each hash whether the block is stored: OK or Miss, in order.
// It reads no block; a later Get may still find it damaged.
func (n *Namespace) Has(ctx context.Context, hashes [][]byte) []Status {
	return n.each(ctx, hashes, func(lookupResult) {})
}

// Touch marks blocks as used, so that eviction prefers others. It answers OK
// or Miss for each, in order.
func (n *Namespace) Touch(ctx context.Context, hashes [][]byte) []Status {
	return n.each(ctx, hashes, func(r lookupResult) { n.s.used.mark(r.entry.Address) })
}

func (n *Namespace) each(ctx context.Context, hashes [][]byte, fn func(lookupResult)) []Status {
	out := make([]Status, len(hashes))
	all := func(st Status) []Status {
		for i := range out {
			if out[i] == statusNone {
				out[i] = st
			}
		}
		return out
	}
	keys := make([]index.Key, len(hashes))
	for i, h := range hashes {
		if checkHash(h) != nil {
			out[i] = StatusInvalid
		}
		keys[i] = index.Key{Namespace: n.info.Number, Hash: string(h)}
	}
	found, err := n.ask(ctx, keys, false)
	if err != nil {
		return all(askStatus(err))
	}
	for i, r := range found {
		if out[i] != statusNone {
			continue
		}
		if out[i] = StatusMiss; r.ok {
			out[i] = StatusOK
			fn(r)
		}
	}
	return out
}

func (n *Namespace) keys(hashes [][]byte) ([]index.Key, error) {
	keys := make([]index.Key, len(hashes))
	for i, h := range hashes {
		if err := checkHash(h); err != nil {
			return nil, err
		}
		keys[i] = index.Key{Namespace: n.info.Number, Hash: string(h)}
	}
	return keys, nil
}

// ask looks keys up on a goroutine of the store: whatever a device that hangs
// holds up, the caller can leave when its context ends.
func (n *Namespace) ask(ctx context.Context, keys []index.Key, stopAtMiss bool) ([]lookupResult, error) {
	var found []lookupResult
	var failed error
	err := n.s.run(ctx, n.s.asks, func(ctx context.Context, op *operation) {
		err := n.s.readable(n)
		var got []lookupResult
		if err == nil {
			if got, err = n.s.lookupHinted(ctx, keys, stopAtMiss); err != nil && ctx.Err() != nil {
				err = errLeft{err}
			}
		}
		if op.enter() {
			found, failed = got, err
			op.exit()
		}
	})
	if err != nil {
		return nil, err
	}
	n.noteLookup(found)
	return found, failed
}

// readable returns nil, or why every answer is a miss.
func (s *Store) readable(n *Namespace) error {
	if h := s.health.get(); h.State == HealthAllMiss {
		return fmt.Errorf("%w: %v", ErrMiss, h.Reasons)
	}
	if n.stale() {
		return ErrEpoch
	}
	return nil
}

// askStatus is the status of blocks that ask could not look up.
func askStatus(err error) Status {
	switch st := statusOfRun(err); {
	case st != StatusIOError && st != StatusShed:
		return st
	case errors.Is(err, ErrEpoch):
		return StatusStaleEpoch
	}
	return StatusMiss
}
