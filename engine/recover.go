package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/tiers/disk"
	"github.com/sealstone/sealstone/wal"
)

// recovery is the state of Open between what lies on disk and a store that
// takes puts.
type recovery struct {
	s   *Store
	log *wal.Recovered
	// applied is what the index has, or the log's end after a rebuild.
	applied wal.LSN
	evicts  []uint64 // segments with an EVICT anywhere in the log
	records int      // replayed
	// verifiers of the segments that records behind the durable mark name.
	verifiers verifiers
	lost      string // why index or log count as lost, or ""
}

func (s *Store) logOptions() wal.Options {
	return wal.Options{FS: s.fs, Dir: logDir, UUID: s.uuid, SegmentBytes: s.room.logFileBytes}
}

func (s *Store) indexOptions() index.Options {
	return index.Options{
		FS: s.fs, Dir: indexDir, UUID: s.uuid, ReadOnly: s.o.ReadOnly,
		CacheBytes: s.o.IndexCacheBytes, MemTableBytes: s.o.private.memTableBytes,
		OnFail:    s.indexFailed,
		OnChange:  s.indexChanged,
		OnTrouble: func(reason string) { s.event(EventIndexTrouble, "%s", reason) },
	}
}

// recover brings index and log into agreement with the segments; see
// docs/protocol.md for the order and its reasons.
func (s *Store) recover() error {
	r := &recovery{s: s}
	for _, i := range s.vol.Segments() {
		s.segs[i.ID] = &segment{id: i.ID, class: i.Class, sealed: i.Sealed, retired: true}
	}
	// Before the index is opened, and so changed: a store that is refused stays
	// as it is. Other errors are met again where the log is read.
	if err := wal.CheckFormat(s.logOptions()); errors.Is(err, wal.ErrUnsupported) {
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	s.removeIndexLeftovers()
	if err := r.openIndex(); err != nil {
		return err
	}
	s.openClock.done("index")
	if err := r.readLog(); err != nil {
		return err
	}
	s.openClock.done("log")
	if s.o.ReadOnly {
		return r.readOnly()
	}
	err := r.settle()
	if err != nil && r.lost == "" && s.idx.Damaged() {
		// Damage that only the replay or the sealing of segments met.
		r.lose(s.idx.Err().Error())
		s.indexForgiven()
		err = r.settle()
	}
	return err
}

// settle replays the log, or rebuilds an index that is lost, and makes that
// permanent.
func (r *recovery) settle() error {
	if r.lost != "" {
		if err := r.rebuild(); err != nil {
			return fmt.Errorf("engine: rebuild the index: %w", err)
		}
		r.s.rememberSpoilt()
		r.s.openClock.done("rebuild")
	} else {
		if err := r.replay(); err != nil {
			return fmt.Errorf("engine: replay the log: %w", err)
		}
		if err := r.finishBuried(); err != nil {
			return fmt.Errorf("engine: replay the log: %w", err)
		}
		r.s.openClock.done("replay")
	}
	return r.finish()
}

// indexForgiven takes back what the failure of an index did to the store: it
// is rebuilt.
func (s *Store) indexForgiven() {
	s.health.clear("index")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = nil
}

// openIndex opens the index, or finds that it is lost.
func (r *recovery) openIndex() error {
	s := r.s
	ctx, cancel := openContext()
	defer cancel()
	if err := s.settleIndexFormat(); err != nil {
		return err
	}
	idx, err := index.Open(ctx, s.indexOptions())
	switch {
	case errors.Is(err, index.ErrNewer):
		return fmt.Errorf("%w: %w; open the store with that version, or remove %s to have the index rebuilt", ErrUnsupported, err, indexDir)
	case errors.Is(err, index.ErrIncomplete), errors.Is(err, index.ErrDamaged):
		r.lost = err.Error()
		s.indexForgiven()
		if s.o.ReadOnly {
			return fmt.Errorf("%w: the index is lost (%w) and a store opened read-only can not rebuild it: open it for writing", ErrDamaged, err)
		}
		return nil
	case err != nil:
		return err
	}
	s.idx = idx
	applied, err := idx.Applied(ctx)
	if err == nil {
		s.live, err = idx.Live(ctx)
	}
	if err != nil {
		if !idx.Damaged() {
			return fmt.Errorf("engine: read the index: %w", err)
		}
		r.lost = err.Error()
		s.indexForgiven()
	}
	r.applied = wal.LSN(applied)
	return nil
}

// settleIndexFormat refuses a store whose index is of a later Pebble format:
// this program can not read it, and rebuilding it would take it from whoever
// can. One of an earlier format is about to be opened, and so raised: STORE
// says so first.
func (s *Store) settleIndexFormat() error {
	switch has := s.meta.Store().PebbleFormat; {
	case has > index.FormatVersion:
		return fmt.Errorf("%w: the index has Pebble's format %d, this program knows %d: open the store with a newer version", ErrUnsupported, has, index.FormatVersion)
	case has < index.FormatVersion && !s.o.ReadOnly:
		return s.meta.RaisePebbleFormat(index.FormatVersion)
	}
	return nil
}

// readLog reads the whole log once for its end, its mark and the EVICTs in
// it, and decides whether it counts as lost.
func (r *recovery) readLog() error {
	err := r.scanLog()
	rec := r.log
	var bad errBadRecord
	switch {
	case errors.As(err, &bad):
		r.lose("the log holds a record that does not parse: " + err.Error())
	case errors.Is(err, wal.ErrUnsupported):
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	case err != nil:
		return fmt.Errorf("engine: read the log: %w", err)
	case rec.Corrupt != nil && rec.Corrupt.LSN >= r.applied:
		r.lose(rec.Corrupt.Error())
	case rec.Corrupt != nil && rec.End < r.applied:
		r.lose(rec.Corrupt.Error())
	case rec.End < r.applied:
		r.lose(fmt.Sprintf("the log ends at %d, the index has it applied up to %d", rec.End, r.applied))
	case rec.First > r.applied && rec.First > firstLSN:
		r.lose(fmt.Sprintf("the log begins at %d, the index has it applied up to %d", rec.First, r.applied))
	}
	if t := rec.Torn; t != nil && t.DroppedBytes > 0 {
		r.s.event(EventTornLog, "%s", t)
		if !r.s.o.ReadOnly {
			_ = wal.Preserve(r.s.fs, logDir, t, quarantineDir) // best effort: a copy for whoever looks
		}
	}
	return nil
}

// scanLog reads the whole log for its end, its mark and the EVICTs in it.
func (r *recovery) scanLog() error {
	rec, err := wal.Recover(r.s.logOptions(), 0, func(w wal.Record) error {
		d, err := decodeRecord(w.Data)
		if err == nil && d.Kind == recordEvict {
			r.evicts = append(r.evicts, d.Segment)
		}
		return err
	})
	r.log = rec
	return err
}

// firstLSN is where the log of a new store begins.
const firstLSN = wal.MinLSN

func (r *recovery) lose(reason string) {
	if r.lost != "" {
		reason = r.lost + "; " + reason // both are to be known
	}
	r.lost = reason
}

// replay applies what the index does not have. Below the durable mark records
// are facts; behind it each is admitted only if its extents verify whole, else
// it is unproven: it counts as never written, and is no corruption.
func (r *recovery) replay() error {
	s := r.s
	s.applied = r.applied
	defer r.verifiers.close()
	if err := r.syncUnsealed(); err != nil {
		return err
	}
	var group []*record
	flush := func() error {
		if len(group) == 0 {
			return nil
		}
		recs := group
		group = nil
		return r.apply(recs)
	}
	_, err := wal.Recover(s.logOptions(), r.applied, func(w wal.Record) error {
		d, err := decodeRecord(w.Data)
		if err != nil {
			return err
		}
		d.lsn, d.end = w.LSN, w.End
		if n := len(group); n > 0 && group[n-1].end != d.end && n >= applyRecordsMax {
			if err := flush(); err != nil {
				return err
			}
		}
		r.records++
		if d.end > r.log.Mark {
			ok, err := r.proven(d)
			if err != nil {
				return err
			}
			if !ok {
				s.count.unproven.Add(1)
				return nil
			}
		}
		group = append(group, d)
		return nil
	})
	if err != nil {
		return err
	}
	if err := flush(); err != nil {
		return err
	}
	r.applied = max(r.applied, r.log.End)
	if n := s.count.unproven.Load(); n > 0 {
		s.event(EventUnproven, "%d records behind the durable mark did not verify and were dropped: a power cut took what they refer to", n)
	}
	if r.records > 0 {
		s.event(EventRecovered, "replayed %d log records", r.records)
	}
	return nil
}

// syncUnsealed makes what the last run left in the page cache durable, before
// anything is decided on it.
func (r *recovery) syncUnsealed() error {
	for _, i := range r.s.vol.Segments() {
		if i.Sealed || i.SizeBytes <= disk.PageBytes {
			continue
		}
		if err := r.s.vol.SyncOld(i.ID); err != nil {
			return err
		}
	}
	return nil
}

func (r *recovery) apply(recs []*record) error {
	s := r.s
	ctx, cancel := openContext()
	defer cancel()
	a := s.newApplication()
	end := recs[len(recs)-1].end
	return s.idx.Update(ctx, s.live, func(b *index.Batch) error { return a.run(b, recs, end) })
}

// proven verifies every chunk that a record refers to. An error says that the
// device did not tell: the verdict would be for good, and has to wait.
func (r *recovery) proven(d *record) (bool, error) {
	if d.Kind != recordPut && d.Kind != recordMove {
		return true, nil
	}
	own := d.Entry.Extent
	if d.Entry.IsAlias() {
		if target, err := r.verified(own); target == nil {
			return false, err
		}
		own = d.Entry.Own
	}
	ext, err := r.verified(own)
	return isOf(ext, d), err
}

// seemsProven is proven for whoever only looks: nothing is decided on it.
func (r *recovery) seemsProven(d *record) bool {
	ok, err := r.proven(d)
	return ok && err == nil
}

// verified is the header of an extent of which every chunk verifies, or nil.
func (r *recovery) verified(e index.Extent) (*disk.Extent, error) {
	v, err := r.verifiers.of(r.s.vol, e.Address.Segment)
	var ext *disk.Extent
	if err == nil {
		ext, err = v.Verify(context.Background(), e.Address, e.HeaderSum)
	}
	if deviceFailed(err) {
		return nil, fmt.Errorf("engine: verify what the log has at %v: %w", e.Address, err)
	}
	return ext, nil
}

// isOf reports whether a header is there and of the record's key and put.
func isOf(ext *disk.Extent, d *record) bool {
	return ext != nil && ext.Namespace == d.Key.Namespace && string(ext.Hash) == d.Key.Hash && ext.Seq == d.Entry.Seq
}

// finish makes the verdicts of Open permanent (rule void): old segments get
// footers that list only what the index refers to (rule footer), evicted ones
// go, the index is flushed, and a new log begins.
func (r *recovery) finish() error {
	s := r.s
	if err := r.sealOld(); err != nil {
		return err
	}
	s.openClock.done("seal")
	if err := r.unlinkEvicted(); err != nil {
		return err
	}
	if err := r.forgetLost(); err != nil {
		return err
	}
	// The new log is there before the index passes the old one's end, or the
	// next Open would take the log for lost.
	if s.log == nil { // or a first try has made it
		log, err := wal.Create(s.logOptions(), max(r.applied, r.log.End, firstLSN))
		if err != nil {
			return fmt.Errorf("engine: new log: %w", err)
		}
		s.log = log
	}
	log := s.log
	r.applied = log.End()
	if err := r.flushIndex(); err != nil {
		return err
	}
	if err := log.RemoveOthers(); err != nil {
		return fmt.Errorf("engine: remove the old log: %w", err)
	}
	s.openClock.done("flush")
	s.mark, s.applied, s.trimmed = log.End(), log.End(), log.End()
	log.SetMark(s.mark)
	s.publishLive()
	s.takeUsesLocked(s.idx.Uses())
	return nil
}

func (r *recovery) sealOld() error {
	s := r.s
	for _, i := range s.vol.Segments() {
		if i.Sealed {
			continue
		}
		entries, referred, err := s.referredEntries(i)
		if err != nil {
			return err
		}
		if i.SizeBytes < disk.PageBytes || (i.SizeBytes == disk.PageBytes && referred == 0) {
			// Its creation was cut short, and no extent was ever in it; or the
			// file was, and forgetLost says what is lost.
			if err := s.vol.Unlink(i.ID); err != nil {
				return err
			}
			delete(s.segs, i.ID)
			continue
		}
		if err := s.vol.SealOld(i.ID, entries); err != nil {
			return err
		}
		s.segs[i.ID].sealed = true
	}
	return nil
}

// referredEntries are the footer's entries of the extents in a segment that
// the index refers to, and how many of those there are. One whose header is
// damaged, or that a cut file no longer holds whole, can have none: its get
// will find that.
func (s *Store) referredEntries(i disk.SegmentInfo) (out []disk.FooterEntry, referred int, err error) {
	ctx, cancel := openContext()
	defer cancel()
	keys, err := s.idx.SegmentKeys(ctx, i.ID)
	if err != nil {
		return nil, 0, fmt.Errorf("engine: seal segment %d: %w", i.ID, err)
	}
	if len(keys) == 0 {
		return nil, 0, nil
	}
	v, err := s.vol.NewVerifier(i.ID)
	if err != nil {
		return nil, 0, fmt.Errorf("engine: seal segment %d: %w", i.ID, err)
	}
	defer v.Close()
	seen := map[disk.Address]bool{}
	for _, k := range keys {
		for _, e := range []index.Extent{k.Extent, k.Own} {
			if e.Address.Segment != i.ID || seen[e.Address] {
				continue
			}
			seen[e.Address] = true
			ext, err := v.Header(e.Address, e.HeaderSum)
			if deviceFailed(err) { // left out, a later rebuild would lose it
				return nil, 0, fmt.Errorf("engine: seal segment %d: %w", i.ID, err)
			}
			if err == nil && e.Address.Offset()+e.Bytes() <= i.SizeBytes {
				out = append(out, disk.EntryOf(ext, e.HeaderSum))
			}
		}
	}
	sortEntries(out)
	return out, len(seen), nil
}

func (r *recovery) unlinkEvicted() error {
	for _, id := range r.evicts {
		if err := r.s.vol.Unlink(id); err != nil {
			return fmt.Errorf("engine: unlink evicted segment %d: %w", id, err)
		}
		delete(r.s.segs, id)
	}
	return nil
}

func (r *recovery) flushIndex() error {
	s := r.s
	ctx, cancel := openContext()
	defer cancel()
	err := s.idx.Update(ctx, s.live, func(b *index.Batch) error { return b.SetApplied(uint64(r.applied)) })
	if err != nil {
		return fmt.Errorf("engine: flush the index: %w", err)
	}
	if err := s.idx.MarkComplete(ctx); err != nil {
		return fmt.Errorf("engine: flush the index: %w", err)
	}
	s.refreshIndexBytes(ctx)
	return nil
}
