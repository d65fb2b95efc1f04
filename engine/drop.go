package engine

import (
	"context"
	"errors"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/tiers"
	"github.com/sealstone/sealstone/tiers/disk"
	"github.com/sealstone/sealstone/wal"
)

// Result is the outcome for one block of a drop.
type Result struct {
	Status Status
	Err    error // nil if OK, else a *BlockError
}

// Drop removes blocks. It answers OK when they are gone for good: not even a
// power cut, or an index rebuilt from segments, brings one back. A block that
// is not stored is Miss. When the context ends first the drop is unknown
// (Timeout): done later, or not at all.
func (n *Namespace) Drop(ctx context.Context, hashes [][]byte) []Result {
	out := make([]Result, len(hashes))
	keys := make([]index.Key, len(hashes))
	for i, h := range hashes {
		keys[i] = index.Key{Namespace: n.info.Number, Hash: string(h)}
	}
	err := n.s.run(ctx, n.s.slots, func(ctx context.Context, op *operation) { n.drop(ctx, op, keys, out) })
	for i := range out {
		if out[i].Status == statusNone {
			st := statusOfRun(err)
			out[i] = Result{st, &BlockError{Status: st, Hash: hashes[i], Offset: -1, Err: err}}
		}
	}
	return out
}

func (n *Namespace) drop(ctx context.Context, op *operation, keys []index.Key, out []Result) {
	s := n.s
	last := wal.LSN(0)
	results := make([]Result, len(keys))
	for i, k := range keys {
		end, st, err := s.dropOne(ctx, n, k)
		results[i] = Result{Status: st}
		if st != StatusOK {
			results[i].Err = &BlockError{Status: st, Hash: []byte(k.Hash), Offset: -1, Err: err}
		}
		last = max(last, end)
	}
	// Rule dropdur: answered when the record is durable.
	if last != 0 {
		if err := s.waitDurable(ctx, last); err != nil {
			for i := range results {
				if results[i].Status == StatusOK {
					st := unknownStatus(err)
					results[i] = Result{st, &BlockError{Status: st, Hash: []byte(keys[i].Hash), Offset: -1, Reason: "not known to be durable", Err: err}}
				}
			}
		}
	}
	if op.enter() {
		copy(out, results)
		op.exit()
	}
}

// dropOne writes the tombstone, then the record.
func (s *Store) dropOne(ctx context.Context, n *Namespace, k index.Key) (wal.LSN, Status, error) {
	if err := checkHash([]byte(k.Hash)); err != nil {
		return 0, StatusInvalid, err
	}
	if n.stale() {
		return 0, StatusStaleEpoch, ErrEpoch
	}
	if err := s.writable(); err != nil {
		return 0, shedStatus(err), err
	}
	for {
		end, st, err := s.tryDrop(ctx, k)
		switch {
		case st != statusNone:
			return end, st, err
		case err != nil:
			return 0, putStatus(err), err
		}
	}
}

// tryDrop returns no status if the block's segment went meanwhile.
func (s *Store) tryDrop(ctx context.Context, k index.Key) (wal.LSN, Status, error) {
	s.mu.Lock()
	moved := s.moved
	s.mu.Unlock()
	found, err := s.lookup(ctx, []index.Key{k}, false)
	if err != nil {
		return 0, unanswered(ctx, StatusShed), err
	}
	if !found[0].ok {
		return 0, StatusMiss, nil
	}
	e := found[0].entry
	home := e.Home().Address
	guest := s.beGuest(home, guestBuries)
	if guest == nil { // evicted in a moment; then it is gone, or moved
		return 0, statusNone, s.awaitProgress(ctx, moved)
	}
	defer s.endGuest(&guest)
	r := &record{Kind: recordDrop, Key: k, Entry: index.Entry{Seq: e.Seq}, From: home}
	s.o.private.points("drop:before-tombstone")
	err = s.vol.AppendTombstones(home.Segment, []disk.Tombstone{{
		Kind: disk.TombstoneDrop, Namespace: k.Namespace, Hash: []byte(k.Hash), Seq: e.Seq, Page: home.Page,
	}})
	if err != nil {
		if isNoSpace(err) {
			s.noSpace(err)
		}
		if errors.Is(err, tiers.ErrBusy) { // nothing was written
			return 0, StatusShed, err
		}
		if errors.Is(err, disk.ErrPoisoned) {
			// It may stand, and no put may be told meanwhile that the key exists.
			s.mu.Lock()
			s.debts.oweLocked(r)
			s.breakLocked("tombstones", err)
			s.mu.Unlock()
		}
		return 0, StatusIOError, err
	}
	s.o.private.points("drop:before-log")
	if err := s.logOne(r); err != nil { // its tombstone stands
		return 0, StatusIOError, err
	}
	s.count.dropped.Add(1)
	return r.end, StatusOK, nil
}

// awaitProgress waits for the next step of sync, applier or eviction.
func (s *Store) awaitProgress(ctx context.Context, moved chan struct{}) error {
	if s.o.private.noBackground {
		s.syncAndApply()
		return ctx.Err()
	}
	select {
	case <-moved:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.stop:
		return ErrClosed
	}
}
