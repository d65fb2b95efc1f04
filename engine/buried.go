package engine

import (
	"context"
	"fmt"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/tiers/disk"
)

// A drop, or a quarantine, has its tombstone before its record. Where a crash
// came in between, the index still leads to the block, and a rebuild would not
// find it: a put that is told "stored already" would then be lost. So Open
// finishes what tombstones say.

// buriedKey is a tombstone of a drop or a quarantine, and where it stands.
type buriedKey struct {
	index.Key
	kind disk.TombstoneKind
	seq  uint64
	at   disk.Address
}

// finishBuried takes out of the index what tombstones of drops and quarantines
// name, after the replay. It also fills in the addresses that earlier runs
// quarantined (see rememberSpoilt). Each drop that is still remembered costs a
// lookup, of a key that is absent as a rule.
func (r *recovery) finishBuried() error {
	for _, i := range r.s.vol.Segments() {
		all := r.s.buriedIn(i.ID)
		for len(all) > 0 {
			n := min(len(all), applyRecordsMax)
			if err := r.finishSome(all[:n]); err != nil {
				return err
			}
			all = all[n:]
		}
	}
	return nil
}

// buriedIn reads the drops and quarantines in the sidecar of a segment. What
// of a damaged sidecar is sound comes with the error; a missing one names
// nothing.
func (s *Store) buriedIn(segment uint64) (out []buriedKey) {
	ts, _ := s.vol.ReadTombstones(segment)
	for _, t := range ts {
		at := disk.Address{Segment: segment, Page: t.Page}
		if t.Kind == disk.TombstoneQuarantine {
			s.spoilt[at] = struct{}{}
		}
		if t.Kind != disk.TombstoneDead {
			out = append(out, buriedKey{index.Key{Namespace: t.Namespace, Hash: string(t.Hash)}, t.Kind, t.Seq, at})
		}
	}
	return out
}

func (r *recovery) finishSome(all []buriedKey) error {
	s := r.s
	ctx, cancel := openContext()
	defer cancel()
	open, err := s.unfinished(ctx, all)
	if err != nil || len(open) == 0 {
		return err
	}
	a := s.newApplication()
	n, where := 0, map[uint64]bool{}
	err = s.idx.Update(ctx, s.live, func(b *index.Batch) error {
		for _, k := range open {
			had, err := a.finish(b, k)
			if err != nil {
				return err
			}
			if had {
				n++
				where[k.at.Segment] = true
			}
		}
		return a.run(b, nil, r.applied)
	})
	if err != nil {
		return fmt.Errorf("finish drops: %w", err)
	}
	// The tombstones may be in the page cache only. Footers that leave out what
	// they name must not outlive them.
	for segment := range where {
		if err := s.vol.SyncTombstones(segment); err != nil {
			return err
		}
	}
	if n > 0 {
		s.event(EventRecovered, "%d drops or quarantines that had no record were finished: their tombstones stand", n)
	}
	return nil
}

// unfinished leaves out the drops of keys that the index does not have, or has
// under a later put.
func (s *Store) unfinished(ctx context.Context, all []buriedKey) ([]buriedKey, error) {
	keys := make([]index.Key, len(all))
	for i, k := range all {
		keys[i] = k.Key
	}
	found, err := s.idx.Get(ctx, keys, false)
	if err != nil {
		return nil, err
	}
	var out []buriedKey
	for i, k := range all {
		if k.kind == disk.TombstoneQuarantine || found[i].OK && found[i].Seq == k.seq {
			out = append(out, k)
		}
	}
	return out, nil
}

// finish does what one tombstone says, and tells whether there was anything
// to do.
func (a *application) finish(b *index.Batch, k buriedKey) (bool, error) {
	if k.kind == disk.TombstoneDrop {
		e, ok, err := b.Get(k.Key)
		if err != nil || !ok || e.Seq != k.seq {
			return false, err
		}
		return true, a.drop(b, &record{Kind: recordDrop, Key: k.Key, Entry: index.Entry{Seq: k.seq}, From: k.at})
	}
	// A quarantine is of all that refer to the address.
	all, err := b.Referrers(k.at)
	if err != nil || len(all) == 0 {
		return false, err
	}
	o := all[0]
	return true, a.quarantine(b, &record{Kind: recordQuarantine, Key: o.Key, Entry: o.Entry})
}
