package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/sealstone/sealstone/engine/index"
)

// KeysMax is the most blocks that one call of Keys looks at.
const KeysMax = 1000

// KeyEntry is a stored block as Keys lists it.
type KeyEntry struct {
	Hash []byte
	// PlainKey is nil for a block that was put without one, and for one whose
	// header could not be read or did not verify.
	PlainKey []byte
	// SizeBytes is the raw size of the block.
	SizeBytes int64
}

// Keys lists the visible blocks of the namespace a page at a time, in the order
// of the index, which is no order that a caller could know: those behind the
// hash after, or from the beginning with nil. next is the after of the next
// page, nil at the end. A call looks at limit blocks, 1 to KeysMax, and reads
// their headers for the plain keys; as some may be of older epochs, a page may
// have fewer or none with more to follow.
//
// A block that is stored from the first page to the last is listed exactly
// once; one that is put or dropped meanwhile may be.
func (n *Namespace) Keys(ctx context.Context, after []byte, limit int) (keys []KeyEntry, next []byte, err error) {
	if limit < 1 || limit > KeysMax {
		return nil, nil, invalidf("Keys of %d blocks a page: 1 to %d are allowed", limit, KeysMax)
	}
	if after != nil {
		if err := checkHash(after); err != nil {
			return nil, nil, err
		}
	}
	from := index.Key{Namespace: n.info.Number, Hash: string(after)}
	var failed error
	err = n.s.run(ctx, n.s.slots, func(ctx context.Context, op *operation) {
		got, last, err := n.keysPage(ctx, op, from, limit)
		if op.enter() {
			keys, next, failed = got, last, err
			op.exit()
		}
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return nil, nil, fmt.Errorf("engine: keys: %w", err)
	}
	return keys, next, nil
}

func (n *Namespace) keysPage(ctx context.Context, op *operation, from index.Key, limit int) (out []KeyEntry, next []byte, err error) {
	if err := n.s.readable(n); err != nil {
		return nil, nil, err
	}
	page, next, err := n.list(ctx, from, limit)
	if err != nil {
		return nil, nil, err
	}
	if n.stale() { // by now: what is listed may be of the epoch after it
		return nil, nil, ErrEpoch
	}
	heads, wants := n.headsOf(ctx, op, page)
	for i, k := range page {
		switch heads[i].Status {
		case statusNone, StatusTimeout: // without its plain key it would look like a block put without one
			return nil, nil, errLeft{cmp.Or(ctx.Err(), context.DeadlineExceeded)}
		case StatusMiss:
			// Dropped or evicted meanwhile; or still there, and a limit of the store
			// kept its header from being read.
			if !wants[i].found.ok {
				continue
			}
		}
		out = append(out, KeyEntry{Hash: []byte(k.Hash), PlainKey: heads[i].PlainKey, SizeBytes: k.RawBytes})
	}
	return out, next, nil
}

// headsOf reads the headers of blocks that were found. What is known of where
// they lie by now stands in wants.
func (n *Namespace) headsOf(ctx context.Context, op *operation, page []index.KeyEntry) (heads []BlockStat, wants []want) {
	g := &getBatch{
		n: n, s: n.s, op: op, out: make([]GetResult, len(page)), heads: make([]BlockStat, len(page)),
		keys: make([]index.Key, len(page)), wants: make([]want, len(page)),
	}
	found := make([]lookupResult, len(page))
	for i, k := range page {
		g.keys[i], g.wants[i] = k.Key, want{i: i}
		found[i] = lookupResult{entry: k.Entry, ok: true}
	}
	g.readFound(ctx, found)
	return g.stats(), g.wants
}

// list is one page of the visible blocks behind from, and where the next one
// begins. The overlay is looked at before the index, as in a lookup: what is
// applied enters the index before it leaves the overlay.
func (n *Namespace) list(ctx context.Context, from index.Key, limit int) (page []index.KeyEntry, next []byte, err error) {
	fresh := n.overlayAfter(from)
	stored, err := n.s.idx.KeysAfter(ctx, &from, limit)
	if err != nil {
		return nil, nil, err
	}
	more := len(stored) == limit
	if i := slices.IndexFunc(stored, func(k index.KeyEntry) bool { return k.Namespace != from.Namespace }); i >= 0 {
		stored, more = stored[:i], false
	}
	merged := merge(stored, fresh)
	if more { // what the index was not asked for is of a later page
		last := stored[len(stored)-1].Key
		merged = merged[:slices.IndexFunc(merged, func(k listed) bool { return k.Key == last })+1]
	}
	if len(merged) > limit {
		merged, more = merged[:limit], true
	}
	if more {
		next = []byte(merged[len(merged)-1].Hash)
	}
	return n.s.visibleOf(merged), next, nil
}

// listed is a key of a page: what the index holds, and what the overlay says.
type listed struct {
	index.KeyEntry
	view view
}

// overlayAfter lists what the overlay knows of the namespace behind from, in
// order. It is bounded by Options.MaxPendingBytes.
func (n *Namespace) overlayAfter(from index.Key) (out []listed) {
	n.s.mu.Lock()
	for k := range n.s.overlay.keys {
		if k.Namespace == from.Namespace && k.Compare(from) > 0 {
			v := n.s.overlay.look(k)
			out = append(out, listed{index.KeyEntry{Key: k, Entry: v.entry}, v})
		}
	}
	n.s.mu.Unlock()
	slices.SortFunc(out, compareListed)
	return out
}

func compareListed(a, b listed) int { return a.Key.Compare(b.Key) }

// merge joins what the index lists with what the overlay knows, each key once.
func merge(stored []index.KeyEntry, fresh []listed) []listed {
	out := make([]listed, 0, len(stored)+len(fresh))
	for _, k := range stored {
		out = append(out, listed{KeyEntry: k})
	}
	for _, k := range fresh {
		i, ok := slices.BinarySearchFunc(out[:len(stored)], k, compareListed)
		if ok && !k.view.found {
			out[i].view = k.view // a drop, perhaps of this very put
		} else if ok {
			out[i] = k
		} else {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, compareListed)
	return out
}

// visibleOf leaves out what a lookup would not find.
func (s *Store) visibleOf(page []listed) (out []index.KeyEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range page {
		_, bad := s.bad[k.Address]
		if !bad && k.Seq > k.view.dropSeq && k.Seq >= s.floorLocked(k.Namespace) {
			out = append(out, k.KeyEntry)
		}
	}
	return out
}
