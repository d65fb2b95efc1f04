package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/tiers/disk"
)

// compactFlushRecords is how many moves are logged before they are made
// durable and applied: it bounds the records that wait.
const compactFlushRecords = 4096

// empty moves on all that is live in a segment and removes it. The order is
// that of an eviction, and so are the reasons; beside it
//   - nothing live may be left when EVICT is logged, or the segment stays;
//   - a victim need not be the oldest segment. What an older one holds of a
//     block that was dropped may have no tombstone of its own (a put that was
//     never acknowledged), so the drops in the victim's sidecar are copied to
//     one that outlives it, before EVICT is logged.
func (c *compaction) empty(ctx context.Context, id uint64) error {
	s := c.s
	if err := c.mayGoOn(ctx); err != nil {
		return err
	}
	if err := s.evictMu.lock(ctx); err != nil {
		return err
	}
	defer s.evictMu.unlock()
	if err := s.writable(); err != nil {
		return err
	}
	s.mu.Lock()
	victim := s.segs[id]
	if victim == nil || !victim.sealed || victim.lost {
		s.mu.Unlock()
		return errKept{"it is gone, or failed, since the plan was made"}
	}
	victim.victim = true
	// A copy goes to a later segment than its source (rule tie).
	if into := s.active[classMoved]; into != nil && into.id < id {
		s.retireLocked(into)
	}
	s.mu.Unlock()
	err := c.emptyVictim(ctx, victim)
	if err != nil {
		s.mu.Lock()
		victim.victim = victim.evicted // shared from again, unless it is as good as gone
		s.mu.Unlock()
	}
	return err
}

func (c *compaction) emptyVictim(ctx context.Context, victim *segment) error {
	s := c.s
	if err := s.waitNoGuests(ctx, victim); err != nil {
		return err
	}
	s.o.private.points("compact:drained")
	purged, err := c.moveAll(ctx, victim)
	if err != nil {
		return err
	}
	if err := c.carryDrops(victim); err != nil {
		return err
	}
	s.o.private.points("compact:moved")
	ctx, cancel := s.bounded(context.WithoutCancel(ctx)) // now or never
	defer cancel()
	if err := s.removeVictim(ctx, victim); err != nil {
		return err
	}
	c.report.Removed++
	c.report.Purged += int64(purged)
	s.count.compactedSegments.Add(1)
	s.events.add(s.o.private.now(), EventCompact, fmt.Sprintf("segment %d: all that is live was moved on", victim.id))
	return nil
}

// waitNoGuests waits for those who write to the victim's sidecar or share an
// extent of it, and until the index knows all that was logged.
func (s *Store) waitNoGuests(ctx context.Context, victim *segment) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if err := s.waitFor(ctx, s.kickSync, s.syncAndSeal, func() bool { return victim.guests == 0 }); err != nil {
		return fmt.Errorf("waiting for the users of segment %d: %w", victim.id, err)
	}
	return s.flushUpTo(ctx)
}

// settleFor makes what was put before durable and applied.
func (s *Store) settleFor(ctx context.Context) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	return s.flushUpTo(ctx)
}

// moveRounds is how often a victim is looked at again: an alias's bytes move
// first, then its page; a block that was quarantined is seen to be gone.
const moveRounds = 4

// moveAll moves on what is live in the victim, and returns how many keys of
// older epochs are left.
func (c *compaction) moveAll(ctx context.Context, victim *segment) (purged int, err error) {
	for range moveRounds {
		keys, err := c.s.segmentKeys(ctx, victim.id)
		if err != nil {
			return 0, err
		}
		live := c.s.fresh(keys)
		if len(live) == 0 {
			return len(keys), nil
		}
		if err := c.moveRound(ctx, victim, live); err != nil {
			return 0, err
		}
		if err := c.s.settleFor(ctx); err != nil {
			return 0, err
		}
	}
	return 0, errKept{"live blocks are left in it: they do not verify and too many did not before, or are being changed"}
}

// moveRound copies the extents of the victim; if it holds none any more, the
// pages of aliases.
func (c *compaction) moveRound(ctx context.Context, victim *segment, live []index.KeyEntry) error {
	extents := extentsOf(victim.id, live)
	for i, m := range extents {
		if err := c.before(ctx, i, m.key.Bytes()); err != nil {
			return err
		}
		if err := c.moved(c.s.copyOn(ctx, m), m.key.Extent); err != nil {
			return err
		}
		c.report.ExtentsMoved++
	}
	if len(extents) > 0 {
		return nil
	}
	for i, k := range live { // all that is left lies in here by its own page alone
		if err := c.before(ctx, i, k.Own.Bytes()); err != nil {
			return err
		}
		if err := c.moved(c.s.moveAlias(ctx, k), k.Own); err != nil {
			return err
		}
		c.report.AliasesMoved++
	}
	return nil
}

// before is what comes before each copy.
func (c *compaction) before(ctx context.Context, i int, sizeBytes int64) error {
	if err := c.mayGoOn(ctx); err != nil {
		return err
	}
	if i%compactFlushRecords == compactFlushRecords-1 {
		if err := c.s.settleFor(ctx); err != nil {
			return err
		}
	}
	return c.pace.wait(ctx, sizeBytes)
}

// moved judges the outcome of a copy.
func (c *compaction) moved(err error, e index.Extent) error {
	switch {
	case err == nil:
		c.report.BytesCopied += e.Bytes()
		c.o.Progress(min(c.report.BytesCopied, c.total), c.total)
		return nil
	case errors.Is(err, ErrCorrupt):
		// Quarantined by now, or, in a storm, still there: the next round sees.
		c.report.Damaged++
		return nil
	case errors.Is(err, ErrShed), errors.Is(err, ErrReadOnly), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return errKept{fmt.Sprintf("a block at %s can not be moved: %v", e.Address, err)}
}

// extentsOf lists the extents in a segment that keys refer to, in order of
// address, each under the key that a copy is written for: its owner while that
// lives, else any alias.
func extentsOf(segment uint64, keys []index.KeyEntry) []*candidate {
	at := map[disk.Address]*candidate{}
	var out []*candidate
	for _, k := range keys {
		if k.Address.Segment != segment {
			continue
		}
		c := at[k.Address]
		if c == nil {
			c = &candidate{key: k}
			at[k.Address], out = c, append(out, c)
		}
		c.keys++
		if !k.IsAlias() {
			c.key = k
		}
	}
	return out
}

// carryDrops copies the drops of a sidecar that is to go to that of the
// youngest other segment, where an older one stays. Page 0 names no extent.
func (c *compaction) carryDrops(victim *segment) error {
	s := c.s
	youngest, older := uint64(0), false
	for _, i := range s.vol.Segments() {
		if i.ID != victim.id {
			youngest, older = i.ID, older || i.ID < victim.id
		}
	}
	if !older {
		return nil
	}
	ts, err := s.vol.ReadTombstones(victim.id)
	if err != nil {
		return errKept{fmt.Sprintf("its tombstones can not be read, and older segments need them: %v", err)}
	}
	var drops []disk.Tombstone
	for _, t := range ts {
		if t.Kind == disk.TombstoneDrop {
			t.Page = 0
			drops = append(drops, t)
		}
	}
	if err := s.vol.AppendTombstones(youngest, drops); err != nil {
		return errKept{fmt.Sprintf("its tombstones can not be copied: %v", err)}
	}
	c.report.TombstonesCarried += int64(len(drops))
	return nil
}

// sealMoved closes the segment of moved blocks, so that what it does not need
// of its room goes back.
func (s *Store) sealMoved(ctx context.Context) error {
	s.mu.Lock()
	seg := s.active[classMoved]
	if seg != nil {
		s.retireLocked(seg)
	}
	s.mu.Unlock()
	if seg == nil {
		return nil
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	return s.waitFor(ctx, s.kickSync, s.syncAndSeal, func() bool { return seg.sealed || seg.lost })
}
