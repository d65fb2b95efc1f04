package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/tiers"
	"github.com/sealstone/sealstone/tiers/disk"
	"github.com/sealstone/sealstone/wal"
)

// applyRecordsMax bounds the records of one index batch.
const applyRecordsMax = 512

// applyAll applies what is durable, in log order. It is the only writer of
// the index.
func (s *Store) applyAll() {
	s.applyMu.Lock()
	defer s.applyMu.Unlock()
	for s.applySome() {
	}
	s.sealRetired()
	s.trim()
}

// applySome applies one batch; false if there was nothing to do, or no way.
func (s *Store) applySome() bool {
	recs := s.nextRecords()
	if len(recs) == 0 {
		return false
	}
	a := s.newApplication()
	end := recs[len(recs)-1].end
	err := s.updateIndex(func(b *index.Batch) error { return a.run(b, recs, end) })
	if err != nil {
		s.applyFailed(err)
		return false
	}
	s.health.clear("index-apply")
	s.publishLive()
	s.unflushed += len(recs)
	uses := s.idx.Uses()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takeUsesLocked(uses)
	for _, r := range recs {
		s.afterApplyLocked(r)
	}
	s.pending = s.pending[len(recs):]
	s.applied = end
	s.progressLocked()
	return true
}

// updateIndex changes the index; with applyMu. What an update that was given up
// will still do is not known, so it is waited for as long as the store is open,
// however long the device hangs: then the store goes on by itself.
func (s *Store) updateIndex(fn func(b *index.Batch) error) error {
	late := s.notIn(s.o.CallTimeout, "index-late", "the index has not taken an update for %v: its device hangs, or is very slow; the store goes on by itself when it answers")
	defer late()
	return s.idx.Update(s.life, s.live, fn)
}

// notIn makes the store read-only if what begins now takes longer than some
// time; done is called when it has ended.
func (s *Store) notIn(max time.Duration, cause, reason string) (done func()) {
	told := make(chan struct{})
	t := time.AfterFunc(max, func() {
		defer close(told)
		s.health.set(cause, HealthReadOnly, reason, max)
	})
	return func() {
		if !t.Stop() {
			<-told
			s.health.clear(cause)
		}
	}
}

// nextRecords takes whole groups below the durable mark.
func (s *Store) nextRecords() []*record {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for i, r := range s.pending {
		if r.end > s.mark {
			break
		}
		last := i+1 == len(s.pending) || s.pending[i+1].end != r.end
		if last {
			n = i + 1
		}
		if last && n >= applyRecordsMax {
			break
		}
	}
	return s.pending[:n:n]
}

func (s *Store) afterApplyLocked(r *record) {
	s.pendingBytes -= r.pendingBytes()
	r.charge.releaseLocked()
	s.overlay.applied(r.Key, r.end)
	if seg := s.segs[r.home()]; seg != nil {
		seg.pending--
	}
	if r.Kind == recordQuarantine {
		delete(s.bad, r.Entry.Address)
		s.badGone++
	}
}

// applyFailed: the index is gone, or a tombstone could not be written. The
// records stay pending, and in the log.
func (s *Store) applyFailed(err error) {
	if s.idx.Err() != nil {
		s.indexFailed(s.idx.Err().Error())
		return
	}
	var be errTombstone
	if errors.As(err, &be) {
		if errors.Is(err, tiers.ErrBusy) {
			return // all files allowed are open and in use: later
		}
		s.mu.Lock()
		s.breakLocked("tombstones", err)
		s.mu.Unlock()
		return
	}
	if errors.Is(err, index.ErrBusy) {
		// The store closes. What that update will still do is unknown.
		s.indexFailed("an update got no answer until the store was closed: " + err.Error())
		return
	}
	// Nothing of it was done. A table that could not be read, say, can be later.
	s.health.set("index-apply", HealthReadOnly, "the index can not take what is to be applied (%v); it is tried again with each sync", err)
}

func (s *Store) indexFailed(reason string) {
	s.health.set("index", HealthAllMiss, "the index failed (%s); open the store in a new process, it will be repaired or rebuilt", reason)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.breakLocked("index", errors.New(reason))
}

func (s *Store) publishLive() {
	view := make(map[uint64]int64, len(s.live))
	for k, v := range s.live {
		view[k] = v
	}
	s.liveView.Store(&view)
}

// application is the work of one index batch.
type application struct {
	floor  map[uint32]uint64
	tenant map[uint32]uint32
	vol    *disk.Volume
	tombs  map[uint64][]disk.Tombstone
	lost   map[disk.Address]bool // their tombstones are in tombs already
	// sharing: new content is recorded for puts to come. Content that is
	// recorded is kept right in any case.
	sharing bool
}

type errTombstone struct{ err error }

func (e errTombstone) Error() string { return e.err.Error() }
func (e errTombstone) Unwrap() error { return e.err }

func (s *Store) newApplication() *application {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := &application{
		floor: map[uint32]uint64{}, tenant: map[uint32]uint32{}, vol: s.vol,
		tombs: map[uint64][]disk.Tombstone{}, lost: map[disk.Address]bool{},
		sharing: !s.o.NoSharing,
	}
	for n, sp := range s.spaces {
		a.floor[n], a.tenant[n] = sp.Floor, sp.tenantID
	}
	return a
}

func (a *application) run(b *index.Batch, recs []*record, end wal.LSN) error {
	for _, r := range recs {
		if err := a.apply(b, r); err != nil {
			return fmt.Errorf("apply %s at log position %d: %w", r.Kind, r.lsn, err)
		}
	}
	// What the records made dead must be known beside the segments before
	// the applied position passes them (rule deadtomb).
	for segment, ts := range a.tombs {
		if err := a.vol.AppendTombstones(segment, ts); err != nil && !errors.Is(err, disk.ErrNoSegment) {
			return errTombstone{err}
		}
	}
	return b.SetApplied(uint64(end))
}

// bury notes that the extent at an address is dead.
func (a *application) bury(kind disk.TombstoneKind, at disk.Address, k index.Key, seq uint64) {
	if at.IsZero() || (kind == disk.TombstoneDead && a.lost[at]) {
		return
	}
	a.lost[at] = true
	a.tombs[at.Segment] = append(a.tombs[at.Segment], disk.Tombstone{
		Kind: kind, Namespace: k.Namespace, Hash: []byte(k.Hash), Seq: seq, Page: at.Page,
	})
}

// apply is one record. Every precondition is evaluated against the index, so
// that a replay comes to the same.
func (a *application) apply(b *index.Batch, r *record) error {
	switch r.Kind {
	case recordPut:
		return a.put(b, r)
	case recordDrop:
		return a.drop(b, r)
	case recordQuarantine:
		return a.quarantine(b, r)
	case recordMove:
		return a.move(b, r)
	case recordEvict:
		return a.evict(b, r)
	}
	return fmt.Errorf("unknown kind %d", r.Kind)
}

func (a *application) put(b *index.Batch, r *record) error {
	e, ok, err := b.Get(r.Key)
	if err != nil {
		return err
	}
	if ok && e.Seq == r.Entry.Seq {
		return nil // replayed
	}
	if ok && e.Seq >= a.floor[r.Key.Namespace] {
		// First wins: a backstop, admission keeps this from happening.
		a.bury(disk.TombstoneDead, r.Entry.Home().Address, r.Key, r.Entry.Seq)
		return nil
	}
	tenant := a.tenant[r.Key.Namespace]
	if ok { // under the floor: as good as absent (rule floorabsent)
		if err := b.Unbind(r.Key, e, tenant); err != nil {
			return err
		}
	}
	if err := b.Bind(r.Key, r.Entry); err != nil {
		return err
	}
	if !a.sharing {
		return nil
	}
	_, have, err := b.Content(tenant, r.Entry.Content)
	if err != nil || have {
		return err
	}
	return b.SetContent(tenant, r.Entry.Content, r.Entry.Address)
}

// drop tests key and sequence only: a move that was logged in between must
// not save the block (rule dropkey).
func (a *application) drop(b *index.Batch, r *record) error {
	e, ok, err := b.Get(r.Key)
	if err != nil || !ok || e.Seq != r.Entry.Seq {
		return err
	}
	if home := e.Home().Address; home != r.From {
		a.bury(disk.TombstoneDrop, home, r.Key, e.Seq) // moved since
	}
	return b.Unbind(r.Key, e, a.tenant[r.Key.Namespace])
}

// quarantine is about an address: all who refer to it lose their block.
func (a *application) quarantine(b *index.Batch, r *record) error {
	e, ok, err := b.Get(r.Key)
	if err != nil || !ok || e.Seq != r.Entry.Seq || e.Address != r.Entry.Address {
		return err
	}
	a.bury(disk.TombstoneQuarantine, e.Address, r.Key, e.Seq)
	all, err := b.Referrers(e.Address)
	if err != nil {
		return err
	}
	for _, o := range all {
		a.bury(disk.TombstoneQuarantine, o.Own.Address, o.Key, o.Seq)
		if err := b.Unbind(o.Key, o.Entry, a.tenant[o.Namespace]); err != nil {
			return err
		}
	}
	return nil
}

// move re-points everybody who refers to the source, if the key that it was
// written for still does. The source may be an alias's own page.
func (a *application) move(b *index.Batch, r *record) error {
	e, ok, err := b.Get(r.Key)
	if err != nil {
		return err
	}
	if ok && e.Seq == r.Entry.Seq && e.IsAlias() && e.Own.Address == r.From {
		return a.moveAlias(b, r, e)
	}
	if !ok || e.Seq != r.Entry.Seq || e.Address != r.From {
		if !ok || e.Address != r.Entry.Address && e.Own.Address != r.Entry.Address { // refused, not replayed
			a.bury(disk.TombstoneDead, r.Entry.Address, r.Key, r.Entry.Seq)
		}
		return nil
	}
	all, err := b.Referrers(r.From)
	if err != nil {
		return err
	}
	tenant := a.tenant[r.Key.Namespace]
	at, had, err := b.Content(tenant, e.Content)
	if err != nil {
		return err
	}
	for _, o := range all {
		moved := o.Entry
		moved.Extent = r.Entry.Extent
		if o.Key == r.Key {
			a.bury(disk.TombstoneDead, o.Own.Address, o.Key, o.Seq)
			moved.Own = index.Extent{}
		}
		if err := b.Unbind(o.Key, o.Entry, tenant); err != nil {
			return err
		}
		if err := b.Bind(o.Key, moved); err != nil {
			return err
		}
	}
	a.bury(disk.TombstoneDead, r.From, r.Key, r.Entry.Seq)
	if had && at == r.From || !had && a.sharing {
		return b.SetContent(tenant, e.Content, r.Entry.Address)
	}
	return nil
}

// moveAlias gives an alias its new page; where its bytes lie stays.
func (a *application) moveAlias(b *index.Batch, r *record, e index.Entry) error {
	tenant := a.tenant[r.Key.Namespace]
	at, had, err := b.Content(tenant, e.Content)
	if err != nil {
		return err
	}
	a.bury(disk.TombstoneDead, r.From, r.Key, e.Seq)
	moved := e
	moved.Own = r.Entry.Extent
	if err := b.Unbind(r.Key, e, tenant); err != nil {
		return err
	}
	if err := b.Bind(r.Key, moved); err != nil {
		return err
	}
	if had && at == e.Address { // forgotten, if the alias was the last to refer to it
		return b.SetContent(tenant, e.Content, at)
	}
	return nil
}

// evict takes every key whose bytes, or whose own alias, lie in the segment.
func (a *application) evict(b *index.Batch, r *record) error {
	all, err := b.SegmentKeys(r.Segment)
	if err != nil {
		return err
	}
	seen := map[index.Key]bool{}
	for _, o := range all {
		if seen[o.Key] {
			continue
		}
		seen[o.Key] = true
		if o.IsAlias() && o.Own.Address.Segment != r.Segment {
			a.bury(disk.TombstoneDead, o.Own.Address, o.Key, o.Seq)
		}
		if err := b.Unbind(o.Key, o.Entry, a.tenant[o.Namespace]); err != nil {
			return err
		}
	}
	delete(a.tombs, r.Segment) // its sidecar goes with it
	return nil
}

// applyLoop applies whenever the durable mark has moved.
func (s *Store) applyLoop() {
	defer s.workers.Done()
	for {
		select {
		case <-s.stop:
			return
		case <-s.kickApply:
			s.applyAll()
		}
	}
}

// flushRecords is how many records the index applies between two flushes: what
// Open has to replay after a crash, at some 15 us each.
const flushRecords = 32768

// trim gives log files back that the index no longer needs, never past an
// EVICT whose unlink is not durable (rule trimevict). When the log grows long
// or much was applied, the index is flushed first.
func (s *Store) trim() {
	if (s.unflushed < flushRecords && s.logLiveBytes() < s.room.logFileBytes) || s.idx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.o.CallTimeout)
	defer cancel()
	if err := s.idx.Flush(ctx); err != nil {
		s.health.set("index-flush", HealthReadOnly, "the index can not be flushed: %v", err)
		return
	}
	s.health.clear("index-flush")
	s.unflushed = 0
	durable, err := s.idx.DurableApplied(ctx)
	if err != nil {
		return
	}
	s.mu.Lock()
	upTo := wal.LSN(durable)
	if s.evictOpen != 0 {
		upTo = min(upTo, s.evictOpen)
	}
	s.mu.Unlock()
	err = s.log.Trim(upTo)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.breakLocked("log trim", err)
		return
	}
	s.trimmed = max(s.trimmed, upTo)
}

// logLiveBytes is how much of the log is still needed, or not known not to
// be. Puts are shed when it passes what the reserve allows.
func (s *Store) logLiveBytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(s.log.End() - s.trimmed)
}

func (s *Store) logFull() bool {
	return s.logLiveBytes() > (logFilesMax-2)*s.room.logFileBytes-s.room.logFileBytes/8
}
