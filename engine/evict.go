package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/tiers"
	"github.com/sealstone/sealstone/tiers/disk"
)

// makeRoom returns when a segment of the class fits into the capacity, making
// room by eviction. One segment is kept free for moves.
func (s *Store) makeRoom(ctx context.Context, class uint8) error {
	const passesMax = 64
	for range passesMax {
		if s.roomFor(class, 0) {
			return nil
		}
		if class == classMoved {
			if had, err := s.dropSpare(); had && err == nil {
				continue
			}
			return fmt.Errorf("%w: no free segment to move blocks into", ErrShed)
		}
		if s.roomSoon(class, 0) {
			if err := s.awaitFreed(ctx, class); err != nil {
				return err
			}
			continue
		}
		ok, err := s.evictOnce(ctx)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("%w: the store is full and no segment can be evicted", ErrShed)
		}
	}
	return fmt.Errorf("%w: the store stays full after %d evictions (files held open by readers?)", ErrShed, passesMax)
}

// roomFor reports whether a new segment of the class may be made, with
// ahead more of the same size kept free.
func (s *Store) roomFor(class uint8, ahead int64) bool { return s.fits(class, ahead, 0) }

// roomSoon reports whether there is room as soon as readers let go of segments
// that are gone already: then to evict more would not help any sooner.
func (s *Store) roomSoon(class uint8, ahead int64) bool {
	leaving := s.vol.LeavingBytes()
	return leaving > 0 && s.fits(class, ahead, leaving)
}

// fits reports whether there is room, once some bytes have returned.
func (s *Store) fits(class uint8, ahead, returning int64) bool {
	if canaryLaw4 {
		return true
	}
	one := s.room.segmentBytes + sidecarBytes
	want := (1+ahead)*one - returning
	if class == classFresh {
		want += one // the free one for moves
	}
	index := s.indexDiskBytes.Load()
	budget := s.room.segmentBudget() - s.strangeBytes - max(0, index-s.room.indexBytes)
	if s.vol.AllocatedBytes()+want > budget {
		return false
	}
	u, err := s.fs.Statfs()
	return err != nil || u.AvailableBytes-want >= s.room.freeFloorBytes
}

// freedWaitMax bounds how long a put waits for readers of a segment that is
// gone. A read takes less, unless the device hangs.
const freedWaitMax = 200 * time.Millisecond

// awaitFreed waits until readers have let go of enough for a segment.
func (s *Store) awaitFreed(ctx context.Context, class uint8) error {
	ctx, cancel := context.WithTimeout(ctx, freedWaitMax)
	defer cancel()
	for {
		s.mu.Lock()
		moved := s.moved
		s.mu.Unlock()
		if s.roomFor(class, 0) || !s.roomSoon(class, 0) {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("%w: the store is full until readers let go of %d bytes of segments that were evicted", ErrShed, s.vol.LeavingBytes())
		}
	}
}

// segmentFreed wakes who waits for room.
func (s *Store) segmentFreed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.progressLocked()
}

// evictLoop makes room before it is needed.
func (s *Store) evictLoop() {
	defer s.workers.Done()
	for {
		select {
		case <-s.stop:
			return
		case <-s.kickEvict:
		}
		ctx, cancel := context.WithTimeout(context.Background(), s.o.CallTimeout)
		s.refreshIndexBytes(ctx)
		for !s.hasSpare() && !s.roomFor(classFresh, 1) && !s.roomSoon(classFresh, 1) && !s.closing.Load() {
			if ok, err := s.evictOnce(ctx); err != nil || !ok {
				break
			}
		}
		s.prepareSpare(ctx)
		cancel()
	}
}

// EvictOnce evicts the oldest segment, after moving on what was used since it
// was written. It returns false if there is none to evict. The context bounds
// the waits; a pass that was given up is taken up again by the next.
func (s *Store) EvictOnce(ctx context.Context) (bool, error) {
	return control(ctx, s, "evict", s.evictOnce)
}

func (s *Store) evictOnce(ctx context.Context) (bool, error) {
	s.evictWanted.Add(1) // a compaction lets it go first
	err := s.evictMu.lock(ctx)
	s.evictWanted.Add(-1)
	if err != nil {
		return false, err
	}
	defer s.evictMu.unlock()
	if err := s.writable(); err != nil {
		return false, err
	}
	victim, err := s.chooseVictim(ctx)
	if victim == nil || err != nil {
		return false, err
	}
	return true, s.evict(ctx, victim)
}

// chooseVictim takes the oldest segment (rule evictwait) and waits until it
// is sealed and nobody is a guest. One whose EVICT is logged already, by a pass
// that was given up, comes before it: only one EVICT may wait for its unlink.
func (s *Store) chooseVictim(ctx context.Context) (*segment, error) {
	s.mu.Lock()
	var oldest *segment
	for _, seg := range s.segs {
		if oldest == nil || seg.evicted && !oldest.evicted || seg.evicted == oldest.evicted && seg.id < oldest.id {
			oldest = seg
		}
	}
	if oldest == nil || len(s.segs) < 2 && !oldest.evicted {
		s.mu.Unlock()
		return nil, nil
	}
	oldest.victim = true
	if !oldest.sealed {
		s.retireLocked(oldest)
	}
	s.mu.Unlock()
	err := s.waitFor(ctx, s.kickSync, s.syncAndSeal, func() bool { return oldest.guests == 0 && (oldest.sealed || oldest.lost) })
	if err != nil {
		return nil, fmt.Errorf("engine: evict segment %d: waiting for it to be sealed: %w", oldest.id, err)
	}
	return oldest, nil
}

func (s *Store) syncAndSeal() {
	s.syncAndApply()
	kick(s.kickApply)
}

func (s *Store) evict(ctx context.Context, victim *segment) error {
	s.o.private.points("evict:drained")
	// The index must know all that was logged of this segment.
	if err := s.flushUpTo(ctx); err != nil {
		return err
	}
	keys, err := s.idx.SegmentKeys(ctx, victim.id)
	if err != nil {
		return fmt.Errorf("engine: evict segment %d: %w", victim.id, err)
	}
	moved, err := s.moveOn(ctx, victim, keys)
	if err != nil {
		return err
	}
	// The moves are applied before the EVICT is logged: it must not survive a
	// power cut that takes a copy.
	if err := s.flushUpTo(ctx); err != nil {
		return err
	}
	s.o.private.points("evict:moved")
	if err := s.removeVictim(ctx, victim); err != nil {
		return err
	}
	gone := countKeys(keys) - moved
	s.count.evictedSegments.Add(1)
	s.count.evictedBlocks.Add(int64(gone))
	s.events.add(s.o.private.now(), EventEvict, fmt.Sprintf("segment %d: %d blocks evicted, %d moved on", victim.id, gone, moved))
	return nil
}

// removeVictim logs the EVICT of a segment and, once that is applied, removes
// it.
func (s *Store) removeVictim(ctx context.Context, victim *segment) error {
	if err := s.logEvict(ctx, victim); err != nil {
		return err
	}
	s.o.private.points("evict:applied")
	if err := s.unlinkVictim(victim); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.breakLocked(fmt.Sprintf("unlink of segment %d", victim.id), err)
		return err
	}
	return nil
}

// unlinkVictim removes the file of a segment whose EVICT is applied.
func (s *Store) unlinkVictim(victim *segment) error {
	s.mu.Lock()
	w := victim.writer
	victim.writer = nil
	s.mu.Unlock()
	if w != nil { // never sealed; nothing more is written, whatever Close says
		_ = w.Close()
	}
	if err := s.vol.Unlink(victim.id); err != nil {
		return err
	}
	s.mu.Lock()
	s.evictOpen = 0
	delete(s.segs, victim.id)
	maps.DeleteFunc(s.spoilt, func(a disk.Address, _ struct{}) bool { return a.Segment == victim.id })
	s.progressLocked()
	s.mu.Unlock()
	s.used.forget(victim.id)
	s.deviceFiles.forget(victim.id)
	return nil
}

// countKeys counts keys once; those homed and bound here come twice.
func countKeys(keys []index.KeyEntry) int {
	seen := map[index.Key]bool{}
	for _, k := range keys {
		seen[k.Key] = true
	}
	return len(seen)
}

// logEvict logs the EVICT when no drop or quarantine is at work in the
// segment any more, and waits until it is durable and applied.
func (s *Store) logEvict(ctx context.Context, victim *segment) error {
	r := &record{Kind: recordEvict, Segment: victim.id}
	for {
		s.mu.Lock()
		if victim.evicted { // a pass that was given up had logged it
			s.mu.Unlock()
			break
		}
		s.mu.Unlock()
		if logged, err := s.logIfQuiet(victim, r); err != nil {
			return err
		} else if logged {
			break
		}
		if err := s.waitFor(ctx, s.kickSync, s.syncAndApply, func() bool { return s.isQuietLocked(victim) }); err != nil {
			return fmt.Errorf("engine: evict segment %d: %w", victim.id, err)
		}
	}
	s.mu.Lock()
	end := victim.evictEnd
	s.mu.Unlock()
	if err := s.waitApplied(ctx, end); err != nil {
		return fmt.Errorf("engine: evict segment %d: %w", victim.id, err)
	}
	return nil
}

// logIfQuiet logs the EVICT if nobody is at work in the victim. From the
// moment of the question on nobody comes to be: that the segment is evicted
// shows before the log is written.
func (s *Store) logIfQuiet(victim *segment, r *record) (logged bool, err error) {
	s.orderMu.Lock()
	defer s.orderMu.Unlock()
	s.mu.Lock()
	if victim.evicted = s.isQuietLocked(victim); !victim.evicted {
		s.mu.Unlock()
		return false, nil
	}
	s.mu.Unlock()
	err = s.logInOrder([]*record{r}, func(logged bool) {
		if victim.evicted = logged; logged {
			s.evictOpen, victim.evictEnd = r.lsn, r.end
		}
	})
	return err == nil, err
}

// isQuietLocked: nobody writes to the segment's sidecar, and no record that
// names the segment is still to be applied. A drop that was logged after its
// block was moved leaves its tombstone beside the new place only when it is
// applied; until then the one in the victim's sidecar is all there is (rule
// evictwait).
func (s *Store) isQuietLocked(victim *segment) bool {
	if victim.guests > 0 {
		return false
	}
	for _, r := range s.pending {
		if r.names(victim.id) {
			return false
		}
	}
	return true
}

// names reports whether a record refers to a segment other than by an EVICT.
func (r *record) names(segment uint64) bool {
	return r.From.Segment == segment || r.Entry.Address.Segment == segment || r.Entry.Own.Address.Segment == segment
}

// candidate is an extent of the victim that is worth keeping.
type candidate struct {
	key    index.KeyEntry // under whose header the copy is written
	leased bool
	keys   int // how many refer to it
}

// moveOn copies what was used since it was written, shallowest first, up to
// the share of the segment; leased blocks in any case. It returns how many
// keys were moved.
func (s *Store) moveOn(ctx context.Context, victim *segment, keys []index.KeyEntry) (int, error) {
	left := int64(s.o.MoveShare * float64(s.room.segmentBytes))
	moved := 0
	for _, c := range s.candidates(victim, keys) {
		if !c.leased && c.key.Bytes() > left {
			continue
		}
		err := s.copyOn(ctx, c)
		switch {
		case errors.Is(err, ErrShed): // no free segment: the rest is dropped
			return moved, nil
		case err != nil && (errors.Is(err, ErrReadOnly) || errors.Is(err, tiers.ErrBusy) || ctx.Err() != nil):
			return moved, err
		case err != nil:
			continue // it can not be read: it goes with its segment
		}
		if !c.leased {
			left -= c.key.Bytes()
		}
		moved += c.keys
	}
	return moved, nil
}

// candidates lists the extents of the victim that somebody used or leased.
// A block of an older epoch is none, nor is one known to be bad, nor an alias
// page whose bytes lie elsewhere.
func (s *Store) candidates(victim *segment, keys []index.KeyEntry) []*candidate {
	byAddress := map[disk.Address]*candidate{}
	now := s.o.private.now()
	s.mu.Lock()
	victim.chosen = true
	for _, k := range keys {
		if k.Address.Segment != victim.id || k.Seq < s.floorLocked(k.Namespace) {
			continue
		}
		if _, bad := s.bad[k.Address]; bad {
			continue
		}
		c := byAddress[k.Address]
		if c == nil {
			c = &candidate{key: k}
			byAddress[k.Address] = c
		}
		if c.keys == 0 || c.key.Key != k.Key {
			c.keys++
		}
		if !k.IsAlias() {
			c.key = k // the owner's header while the owner lives
		}
		c.leased = c.leased || s.leases.holds(k.Key, now, s.o.LeaseDuration)
	}
	s.mu.Unlock()
	out := make([]*candidate, 0, len(byAddress))
	for a, c := range byAddress {
		if c.leased || s.used.isMarked(a) {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b *candidate) int {
		if a.leased != b.leased {
			if a.leased {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.key.Depth, b.key.Depth), cmp.Compare(a.key.Seq, b.key.Seq))
	})
	return out
}

// copyOn copies one extent into the segment of moved blocks and logs the
// move. The put sequence stays.
func (s *Store) copyOn(ctx context.Context, c *candidate) error {
	src, err := s.readExtent(ctx, s.movePool.Get, c.key.Extent)
	if err != nil {
		if errors.Is(err, ErrCorrupt) {
			s.quarantine(c.key.Key, c.key.Entry, err.Error())
		}
		return err
	}
	defer src.free()
	src.ext.Kind = disk.KindFull
	src.ext.Namespace, src.ext.Hash = c.key.Namespace, []byte(c.key.Hash)
	src.ext.Seq, src.ext.Depth = c.key.Seq, c.key.Depth
	if c.key.IsAlias() { // the owner of these bytes is gone: the header is of another key
		src.ext.Parent, src.ext.PlainKey = s.keptKeys(ctx, c.key)
	}
	img, err := s.relaid(ctx, src)
	if err != nil {
		return err
	}
	if img != src {
		defer img.free()
	}
	place, err := s.appendMoved(ctx, img)
	if err != nil {
		return err
	}
	return s.logMove(c.key, c.key.Address, place)
}

// appendMoved writes a copy into the segment of moved blocks.
func (s *Store) appendMoved(ctx context.Context, img *image) (placed, error) {
	place, err := s.appendExtent(classMoved, img)
	if errors.Is(err, errFull) { // only one pass at a time writes to the class
		if err = s.roll(ctx, classMoved); err == nil {
			place, err = s.appendExtent(classMoved, img)
		}
	}
	return place, err
}

// logMove logs that what stood at an address, the bytes of a key or its own
// page, was copied.
func (s *Store) logMove(k index.KeyEntry, from disk.Address, place placed) error {
	s.o.private.points("move:copied")
	r := &record{Kind: recordMove, Key: k.Key, From: from, Entry: index.Entry{Extent: place.extent, Seq: k.Seq}}
	if err := s.enterMove(r, place); err != nil {
		return err
	}
	s.count.movedBlocks.Add(1)
	s.count.movedBytes.Add(place.extent.Bytes())
	return nil
}

// enterMove logs a move, unless the segment that it went into has failed.
func (s *Store) enterMove(r *record, place placed) error {
	s.orderMu.Lock()
	defer s.orderMu.Unlock()
	seg := place.seg
	s.mu.Lock()
	lost := seg.lost
	if lost {
		seg.inflight--
		s.debts.oweLocked(r)
	}
	s.mu.Unlock()
	if lost {
		return fmt.Errorf("%w: segment %d failed while a block was moved into it", ErrShed, seg.id)
	}
	return s.logInOrder([]*record{r}, func(logged bool) {
		seg.inflight--
		if logged {
			seg.pending++
			seg.entries = append(seg.entries, place.entry)
		}
	})
}

// relaid returns an image whose header has the size that its keys need: a
// copy under an alias's key may have longer or shorter ones than the owner.
func (s *Store) relaid(ctx context.Context, src *image) (*image, error) {
	want := src.ext
	want.Repage() // the payload is copied as it is stored, whatever its codec
	if want.HeaderPages == src.ext.HeaderPages {
		return src, nil
	}
	buf, err := s.movePool.Get(ctx, want.Pages()*disk.PageBytes)
	if err != nil {
		return nil, fmt.Errorf("%w: buffer for a move: %w", ErrShed, err)
	}
	img := &image{ext: want, buf: buf}
	copy(img.payload(), src.payload())
	return img, nil
}
