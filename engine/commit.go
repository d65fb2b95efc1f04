package engine

import (
	"context"
	"fmt"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/tiers/disk"
	"github.com/sealstone/sealstone/wal"
)

// commit logs the records of written extents in one group and makes them
// visible. It returns the items that were logged; the others are settled.
func (p *putBatch) commit(items []*putItem) (logged []*putItem) {
	if len(items) == 0 {
		return nil
	}
	s := p.s
	s.o.private.points("put:before-log")
	ok, refused, err := p.logPuts(items)
	for _, it := range items {
		s.endGuest(&it.shared)
	}
	// The tombstones of what was refused stand before the refusal is
	// answered (rule deadtomb). Without them it is none: the block may turn up.
	p.refuse(refused)
	if err != nil {
		for _, it := range ok {
			p.fail(it, StatusIOError, "the log failed; whether the block will be there is unknown", err)
		}
		return nil
	}
	p.publish(ok)
	s.kickIfMuchUnsynced()
	return ok
}

// refusal is a put that may not be logged, and why.
type refusal struct {
	it    *putItem
	cause error
	dead  deadExtent
}

func (p *putBatch) refuse(refused []refusal) {
	dead := make([]deadExtent, len(refused))
	for i, r := range refused {
		dead[i] = r.dead
	}
	err := p.s.buryDead(dead)
	for _, r := range refused {
		if err != nil {
			p.fail(r.it, StatusIOError, "", unburied(r.cause, err))
			continue
		}
		p.fail(r.it, putStatus(r.cause), "", r.cause)
	}
}

// unburied is the error of a put that failed, and whose extent could not be
// marked as dead. It may turn up after a crash, so that its cause, which may say
// that it was refused, does not count any more.
func unburied(cause, err error) error {
	return fmt.Errorf("engine: %v; whether the block will be there is unknown, as its extent could not be marked as dead: %v", cause, err)
}

// logPuts logs the puts that still may be, as one group. After an error none is
// known to be logged.
func (p *putBatch) logPuts(items []*putItem) (ok []*putItem, refused []refusal, err error) {
	s := p.s
	s.orderMu.Lock()
	defer s.orderMu.Unlock()
	ok = make([]*putItem, 0, len(items))
	s.mu.Lock()
	for _, it := range items {
		if err := p.recheckLocked(it); err != nil {
			refused = append(refused, refusal{it, err, deadExtent{it.rec.Entry.Home().Address, it.key, it.rec.Entry.Seq}})
			it.placed.seg.inflight--
			it.rec = nil
			continue
		}
		ok = append(ok, it)
	}
	s.mu.Unlock()
	recs := make([]*record, len(ok))
	for i, it := range ok {
		recs[i] = it.rec
	}
	err = s.logInOrder(recs, func(logged bool) {
		for _, it := range ok {
			it.placed.seg.inflight--
			if logged {
				it.placed.seg.pending++
				it.rec.charge, it.charge = it.charge, charge{}
				it.end = it.rec.end
				it.placed.seg.entries = append(it.placed.seg.entries, it.placed.entry)
				s.count.putBlocks.Add(1)
				s.count.putBytes.Add(it.rec.Entry.RawBytes)
			}
		}
	})
	return ok, refused, err
}

// recheckLocked tests at log time what may have changed since the put began.
func (p *putBatch) recheckLocked(it *putItem) error {
	s := p.s
	if s.broken != nil {
		return fmt.Errorf("%w: %w", ErrReadOnly, s.broken)
	}
	if it.placed.seg.lost { // its bytes can not be made durable any more
		return fmt.Errorf("%w: segment %d failed while the block was being written", ErrShed, it.placed.seg.id)
	}
	// Rule epochrecheck. A put that came to its number only after the floor
	// rose is no better: its handle is of the old epoch.
	if !canaryLaw3Epoch && (it.rec.Entry.Seq < s.floorLocked(it.key.Namespace) || p.n.staleLocked()) {
		return &BlockError{Status: StatusStaleEpoch, Hash: []byte(it.key.Hash), Offset: -1,
			Reason: "the epoch was bumped while the put was under way", Err: ErrEpoch}
	}
	// Rule shareguard.
	if it.rec.Entry.IsAlias() {
		if _, bad := s.spoilt[it.rec.Entry.Address]; bad {
			return fmt.Errorf("%w: the equal block it would share was quarantined meanwhile; put it again", ErrShed)
		}
	}
	return nil
}

// logInOrder appends records as one group, with write(2): from then on they
// survive the end of the process. They enter the overlay and the applier's
// queue in the order of the log: the caller holds orderMu, and not mu, which is
// free while the device writes. then is called in the same critical section of
// mu in which the records enter, or in which it is plain that they do not.
//
// After an error the records may be in the log or not; they are as those that
// a failed sync withdraws. What was checked before under orderMu holds, but
// for this: the store may break meanwhile.
func (s *Store) logInOrder(recs []*record, then func(logged bool)) error {
	if len(recs) == 0 {
		return nil
	}
	s.mu.Lock()
	log, broken := s.log, s.broken
	s.mu.Unlock()
	var first, end wal.LSN
	err := broken
	if broken == nil {
		data := make([][]byte, len(recs))
		for i, r := range recs {
			data[i] = r.encode()
		}
		first, end, err = log.Append(data...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.broken != nil:
		err = fmt.Errorf("%w: %w", ErrReadOnly, s.broken)
	case err != nil:
		s.breakLocked("log", err)
	default:
		s.count.logBytes.Add(int64(end - first))
		s.enterLocked(recs, first, end)
	}
	for _, r := range recs {
		if err != nil {
			s.debts.oweLocked(r)
		}
	}
	then(err == nil)
	return err
}

// enterLocked enters a group that was logged.
func (s *Store) enterLocked(recs []*record, first, end wal.LSN) {
	for i, r := range recs {
		// Within a group only the end counts: it is applied whole.
		r.lsn, r.end = first+wal.LSN(i), end
		s.pending = append(s.pending, r)
		s.pendingBytes += r.pendingBytes()
		s.unsynced += r.pendingBytes()
		switch r.Kind {
		case recordPut:
			s.overlay.add(r.Key, overlayOp{lsn: r.lsn, put: true, seq: r.Entry.Seq, entry: r.Entry})
		case recordDrop:
			s.chargeDropLocked(r)
			s.overlay.add(r.Key, overlayOp{lsn: r.lsn, seq: r.Entry.Seq})
		}
	}
}

// logOne is logInOrder for a record by itself.
func (s *Store) logOne(r *record) error {
	s.orderMu.Lock()
	defer s.orderMu.Unlock()
	return s.logInOrder([]*record{r}, func(bool) {})
}

// pendingBytes is what a record weighs against MaxPendingBytes.
func (r *record) pendingBytes() int64 {
	switch r.Kind {
	case recordPut:
		return r.Entry.Home().Bytes()
	case recordMove:
		return r.Entry.Bytes()
	}
	return 256
}

// home is the segment that waits for the record before it can be sealed, or 0.
func (r *record) home() uint64 {
	switch r.Kind {
	case recordPut:
		return r.Entry.Home().Address.Segment
	case recordMove:
		return r.Entry.Address.Segment
	}
	return 0
}

// deadExtent is an extent that nothing will ever refer to.
type deadExtent struct {
	at  disk.Address
	key index.Key
	seq uint64
}

// buryDead writes the tombstones of extents that were refused. Where that
// fails the store becomes read-only: a rebuild could bring one back.
func (s *Store) buryDead(dead []deadExtent) error {
	err := s.bury(dead)
	if err == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.debts.dead = append(s.debts.dead, dead...)
	s.breakLocked("tombstones", err)
	return err
}

// breakLocked ends writing after a failure that leaves it open what is on
// disk. Nothing is tried again on the same files; a reopen starts new ones.
func (s *Store) breakLocked(what string, err error) {
	if s.broken != nil {
		return
	}
	s.broken = fmt.Errorf("%s: %w", what, err)
	s.health.set("broken", HealthReadOnly, "writing failed (%s: %v); it goes on by itself on new files once a probe of the directory passes", what, err)
	s.progressLocked()
}

// waitDurable waits until the log is durable up to lsn.
func (s *Store) waitDurable(ctx context.Context, lsn wal.LSN) error {
	return s.waitFor(ctx, s.kickSync, s.syncOnce, func() bool { return s.mark >= lsn })
}

// waitApplied waits until the index has everything up to lsn.
func (s *Store) waitApplied(ctx context.Context, lsn wal.LSN) error {
	return s.waitFor(ctx, s.kickSync, s.syncAndApply, func() bool { return s.applied >= lsn })
}

// waitFor waits for a condition on the protocol's state. Without background
// goroutines it does their work itself.
func (s *Store) waitFor(ctx context.Context, wake chan struct{}, work func(), ok func() bool) error {
	for {
		s.mu.Lock()
		done, broken, moved := ok(), s.broken, s.moved
		s.mu.Unlock()
		switch {
		case done:
			return nil
		case broken != nil:
			return fmt.Errorf("%w: %w", ErrReadOnly, broken)
		}
		if s.o.private.noBackground {
			before := s.position()
			work()
			s.mu.Lock()
			done = ok() // sealing is progress that moves no position
			s.mu.Unlock()
			if !done && s.position() == before {
				return fmt.Errorf("engine: no progress: %w", s.stuckReason())
			}
			continue
		}
		kick(wake)
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		case <-s.stop:
			return ErrClosed
		}
	}
}

// position is how far sync and applier are.
func (s *Store) position() [2]wal.LSN {
	s.mu.Lock()
	defer s.mu.Unlock()
	return [2]wal.LSN{s.mark, s.applied}
}

func (s *Store) stuckReason() error {
	if err := s.idx.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrIndexFailed, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return fmt.Errorf("%w: %w", ErrReadOnly, s.broken)
	}
	return ErrShed
}

func (s *Store) durableLocked(k index.Key) bool {
	for _, op := range s.overlay.keys[k] {
		if op.put && op.lsn >= s.mark {
			return false
		}
	}
	return true
}
