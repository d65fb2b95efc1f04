package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sealstone/sealstone/tiers/disk"
	"github.com/sealstone/sealstone/wal"
)

// debts are what failures left half done. All of it is made good before the
// store writes again, so that a put or a drop that is answered from then on
// means what it says, also after a rebuild. Bounded by Options.MaxPendingBytes,
// as what can fail together is. Guarded by Store.mu.
type debts struct {
	// dead are extents that are on disk, perhaps whole, under puts and moves
	// that were withdrawn or never logged. Without a tombstone a rebuild could
	// bring one back past a later drop of its key.
	dead []deadExtent
	// done are drops and quarantines whose tombstones stand, or may stand, and
	// whose records are lost. A rebuild would leave the blocks out, so that no
	// put may be told that its key exists.
	done []*record
}

// oweLocked keeps in mind what a record that will not be applied leaves.
func (d *debts) oweLocked(r *record) {
	switch r.Kind {
	case recordPut, recordMove:
		d.dead = append(d.dead, deadExtent{r.Entry.Home().Address, r.Key, r.Entry.Seq})
	case recordDrop, recordQuarantine:
		d.done = append(d.done, r)
	}
}

// writeAgain ends the time without writes, once the debts are paid. orderMu is
// held, so that nothing is logged meanwhile.
func (s *Store) writeAgain() error {
	for {
		s.mu.Lock()
		log, paid := s.log, s.debts
		s.mu.Unlock()
		err := s.bury(paid.dead)
		for _, r := range paid.done {
			err = errors.Join(err, s.buryAgain(r))
		}
		if err != nil {
			return fmt.Errorf("engine: tombstones of what had failed: %w", err)
		}
		logged, err := logAll(log, paid.done)
		if err != nil {
			return fmt.Errorf("engine: log drops anew: %w", err)
		}
		if s.writeAgainIf(paid, logged) {
			return nil
		}
	}
}

// logAll appends records in groups; they get their positions.
func logAll(log *wal.Log, recs []*record) (groups []loggedGroup, err error) {
	for part := range slices.Chunk(recs, groupRecordsMax) {
		data := make([][]byte, len(part))
		for i, r := range part {
			data[i] = r.encode()
		}
		g := loggedGroup{recs: part}
		if g.first, g.end, err = log.Append(data...); err != nil {
			return nil, err
		}
		groups = append(groups, g)
	}
	return groups, nil
}

type loggedGroup struct {
	recs       []*record
	first, end wal.LSN
}

// writeAgainIf enters what was logged and lets the store write, in one: no put
// comes in between and is told that a key exists which is about to go. It
// does neither if more debts have come up.
func (s *Store) writeAgainIf(paid debts, logged []loggedGroup) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.debts.dead) > len(paid.dead) || len(s.debts.done) > len(paid.done) {
		return false
	}
	s.debts = debts{}
	for _, g := range logged {
		s.enterLocked(g.recs, g.first, g.end)
		for _, r := range g.recs {
			if r.Kind == recordQuarantine {
				s.bad[r.Entry.Address] = struct{}{}
			}
		}
	}
	s.broken, s.resumeWait = nil, 0
	s.progressLocked()
	kick(s.kickApply)
	kick(s.kickSync)
	return true
}

// buryAgain makes sure of the tombstone of a drop or a quarantine.
func (s *Store) buryAgain(r *record) error {
	t, at := disk.Tombstone{Kind: disk.TombstoneDrop}, r.From
	if r.Kind == recordQuarantine {
		t.Kind, at = disk.TombstoneQuarantine, r.Entry.Address
	}
	t.Namespace, t.Hash, t.Seq, t.Page = r.Key.Namespace, []byte(r.Key.Hash), r.Entry.Seq, at.Page
	err := s.vol.AppendTombstones(at.Segment, []disk.Tombstone{t})
	if errors.Is(err, disk.ErrNoSegment) {
		return nil // and with it the block, or it has moved and its record says so
	}
	return err
}

// bury writes the tombstones of dead extents into their segments' sidecars.
func (s *Store) bury(dead []deadExtent) error {
	bySegment := map[uint64][]disk.Tombstone{}
	for _, d := range dead {
		bySegment[d.at.Segment] = append(bySegment[d.at.Segment], disk.Tombstone{
			Kind: disk.TombstoneDead, Namespace: d.key.Namespace, Hash: []byte(d.key.Hash), Seq: d.seq, Page: d.at.Page,
		})
	}
	var errs []error
	for segment, ts := range bySegment {
		if err := s.vol.AppendTombstones(segment, ts); err != nil && !errors.Is(err, disk.ErrNoSegment) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
