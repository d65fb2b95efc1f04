package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/sums"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// rebuild makes a new index from the segments: footers where a segment has
// one, the extents themselves where not, minus what tombstones name and what
// lies under an epoch floor. Of several extents of a key the highest put
// sequence wins, and of equal ones the later address (rule tie).
//
// The new index counts only once it is whole (rule rebatomic): until finish
// has marked it complete, the next Open begins again.
func (r *recovery) rebuild() error {
	s := r.s
	if err := r.newIndex(); err != nil {
		return err
	}
	b, err := r.fill(context.Background())
	if err != nil {
		return err
	}
	// Nothing of the old log is replayed over it; its EVICTs are honoured.
	r.applied = max(r.applied, r.log.End)
	if b.segments > 0 || len(r.log.Files) > 0 {
		s.rebuilds++
		s.event(EventRebuild, "index rebuilt from %d segments: %d blocks (%s)", b.segments, b.blocks, r.lost)
	}
	return nil
}

// fill enters into the empty index what the segments say.
func (r *recovery) fill(ctx context.Context) (*rebuilder, error) {
	s := r.s
	infos := r.segmentsToScan()
	b := &rebuilder{s: s, segments: len(infos), full: map[contentKey]index.Extent{}, wanted: map[contentKey]struct{}{}, losers: map[uint64][]disk.Tombstone{}}
	// Also of segments that are evicted and not yet unlinked: a drop may still
	// stand there alone for a block that has moved on.
	if err := b.readTombstones(ctx, s.vol.Segments()); err != nil {
		return nil, err
	}
	if err := b.findWanted(ctx, infos); err != nil {
		return nil, err
	}
	for n, i := range infos {
		b.here = leftOutHere{}
		if err := b.scan(ctx, i); err != nil {
			return nil, fmt.Errorf("segment %d: %w", i.ID, err)
		}
		b.tellLeftOut(i.ID)
		if s.o.Progress != nil {
			s.o.Progress(int64(n+1)*s.room.segmentBytes, int64(len(infos))*s.room.segmentBytes)
		}
	}
	if err := b.resolveAliases(ctx); err != nil {
		return nil, err
	}
	if err := b.flush(ctx); err != nil {
		return nil, err
	}
	return b, nil
}

// segmentsToScan leaves out segments that the log says are evicted.
func (r *recovery) segmentsToScan() (out []disk.SegmentInfo) {
	evicted := map[uint64]bool{}
	for _, id := range r.evicts {
		evicted[id] = true
	}
	for _, i := range r.s.vol.Segments() {
		if !evicted[i.ID] {
			out = append(out, i)
		}
	}
	return out
}

func (r *recovery) newIndex() error {
	s := r.s
	ctx, cancel := openContext()
	defer cancel()
	if s.idx != nil {
		_ = s.idx.Close(ctx) // whatever it says: it goes
	}
	if err := s.removeIndex(); err != nil {
		return fmt.Errorf("remove the old index: %w", err)
	}
	idx, err := index.Create(ctx, s.indexOptions())
	if err != nil {
		return err
	}
	s.idx, s.live = idx, map[uint64]int64{}
	return nil
}

// removeIndex takes the old index away under another name first: a crash in
// the middle of its removal must not leave half an index that looks whole.
func (s *Store) removeIndex() error {
	if err := s.fs.RemoveAll(oldIndexDir); err != nil {
		return err
	}
	if err := s.fs.Rename(indexDir, oldIndexDir); err != nil && !vfs.IsNotExist(err) {
		return err
	}
	if err := s.fs.SyncDir("."); err != nil {
		return err
	}
	return s.fs.RemoveAll(oldIndexDir)
}

type contentKey struct {
	tenant uint32
	id     sums.ContentID
}

// aliasKey is a key whose bytes are still to be found, by its whole content id.
type aliasKey struct {
	index.KeyEntry
	content sums.ContentID
}

// rebuilder collects what the segments say. Memory: the tombstones, the aliases,
// and a place for each content that an alias has.
type rebuilder struct {
	s        *Store
	segments int // scanned
	extents  int64
	blocks   int
	left     LeftOut
	// dead addresses; quarantined ones may not even serve aliases.
	dead, quarantined map[disk.Address]bool
	// drops names the highest sequence dropped of a key (rule tombseq).
	drops   map[index.Key]uint64
	damaged map[uint64]error        // why a segment's sidecar does not verify
	here    leftOutHere             // of the segment that is being read
	wanted  map[contentKey]struct{} // contents of aliases
	full    map[contentKey]index.Extent
	aliases []aliasKey
	batch   []index.KeyEntry
	// losers are tombstones, by segment, that are not written yet, of extents
	// whose key has another one that counts, and of aliases without bytes.
	losers map[uint64][]disk.Tombstone
}

func (b *rebuilder) readTombstones(ctx context.Context, infos []disk.SegmentInfo) error {
	b.dead, b.quarantined = map[disk.Address]bool{}, map[disk.Address]bool{}
	b.drops, b.damaged = map[index.Key]uint64{}, map[uint64]error{}
	for _, i := range infos {
		ts, err := b.s.vol.ReadTombstones(i.ID)
		if err != nil {
			if !errors.Is(err, disk.ErrCorrupt) && i.HasSidecar {
				return fmt.Errorf("tombstones of segment %d: %w", i.ID, err)
			}
			// What it named is unknown: nothing of the segment may come back.
			b.damaged[i.ID] = err
		}
		if len(ts) > 0 { // a kill may have left them in memory only
			if err := b.s.vol.SyncTombstones(i.ID); err != nil {
				return err
			}
		}
		for _, t := range ts {
			at := disk.Address{Segment: i.ID, Page: t.Page}
			b.dead[at] = true
			switch t.Kind {
			case disk.TombstoneQuarantine:
				b.quarantined[at] = true
			case disk.TombstoneDrop:
				k := index.Key{Namespace: t.Namespace, Hash: string(t.Hash)}
				b.drops[k] = max(b.drops[k], t.Seq)
			}
		}
		if b.damaged[i.ID] != nil {
			if err := b.distrust(ctx, i); err != nil {
				return fmt.Errorf("segment %d: %w", i.ID, err)
			}
		}
	}
	return nil
}

// distrust takes each extent of a segment for dropped: a lost tombstone of a
// drop kills copies of its block in other segments too, up to the sequence of
// the extent that it stands for.
func (b *rebuilder) distrust(ctx context.Context, i disk.SegmentInfo) error {
	return b.each(ctx, i, func(f *disk.FooterEntry) error {
		k := index.Key{Namespace: f.Namespace, Hash: string(f.Hash)}
		b.drops[k] = max(b.drops[k], f.Seq)
		return nil
	})
}

// findWanted reads all segments once for the contents that aliases have, so that
// only their places need be kept: a hundred million blocks would otherwise take
// some ten GiB. Nothing is verified here; what is wanted in vain does no harm.
func (b *rebuilder) findWanted(ctx context.Context, infos []disk.SegmentInfo) error {
	want := func(kind disk.Kind, namespace uint32, id sums.ContentID) {
		if kind == disk.KindAlias {
			b.wanted[contentKey{b.s.tenantOf(namespace), id}] = struct{}{}
		}
	}
	for _, i := range infos {
		if i.Sealed {
			entries, err := b.s.vol.ReadFooter(i.ID)
			if err == nil {
				for j := range entries {
					want(entries[j].Kind, entries[j].Namespace, entries[j].ContentID)
				}
				continue
			}
			if !errors.Is(err, disk.ErrCorrupt) {
				return fmt.Errorf("segment %d: %w", i.ID, err)
			}
		}
		err := b.s.vol.ScanSegment(ctx, i.ID, func(e *disk.Extent, _ uint64, _ disk.Address) error {
			want(e.Kind, e.Namespace, e.ContentID)
			return nil
		})
		if err != nil {
			return fmt.Errorf("segment %d: %w", i.ID, err)
		}
	}
	return nil
}

// scan takes in the extents of one segment.
func (b *rebuilder) scan(ctx context.Context, i disk.SegmentInfo) error {
	if !i.Sealed {
		if err := b.s.vol.SyncOld(i.ID); err != nil {
			return err
		}
	}
	return b.each(ctx, i, func(f *disk.FooterEntry) error { return b.add(ctx, i.ID, f) })
}

// each calls fn with the extents of a segment that a rebuild goes by: those
// that its footer lists, and where there is none, or a damaged one, those that
// verify whole (rule rebverify).
func (b *rebuilder) each(ctx context.Context, i disk.SegmentInfo, fn func(*disk.FooterEntry) error) error {
	if i.Sealed {
		entries, err := b.s.vol.ReadFooter(i.ID)
		if err == nil {
			for j := range entries {
				if err := fn(&entries[j]); err != nil {
					return err
				}
			}
			return nil
		}
		if !errors.Is(err, disk.ErrCorrupt) {
			return err
		}
		b.s.event(EventRebuild, "footer of segment %d is damaged, its extents are read: %v", i.ID, err)
	}
	return b.s.vol.ScanSegment(ctx, i.ID, func(e *disk.Extent, sum uint64, at disk.Address) error {
		switch err := b.s.vol.VerifyExtent(ctx, at, sum); {
		case deviceFailed(err):
			return err // left out, it would be lost for good
		case err != nil:
			b.left.Unverified++
			if !b.dead[at] { // else it is no loss
				b.here.unverified(err)
			}
			return nil
		}
		entry := disk.EntryOf(e, sum)
		return fn(&entry)
	})
}

// add takes one extent in.
func (b *rebuilder) add(ctx context.Context, segment uint64, f *disk.FooterEntry) error {
	at := disk.Address{Segment: segment, Page: f.Page}
	b.extents++
	switch {
	case b.damaged[segment] != nil:
		b.left.Distrusted++
		b.here.distrusted++
		return nil
	case b.quarantined[at]:
		b.left.Quarantined++
		return nil
	}
	ext := index.Extent{Address: at, HeaderPages: f.HeaderPages, Pages: uint32(f.HeaderPages) + f.PayloadPages, HeaderSum: f.HeaderSum}
	if f.Kind == disk.KindFull {
		// The bytes of dropped or moved extents stay usable to aliases.
		c := contentKey{b.s.tenantOf(f.Namespace), f.ContentID}
		if _, ok := b.wanted[c]; ok {
			b.full[c] = ext
		}
	}
	k := index.Key{Namespace: f.Namespace, Hash: string(f.Hash)}
	switch {
	case f.Seq <= b.drops[k]:
		b.left.Dropped++
		return nil
	case b.dead[at]:
		b.left.Dead++
		return nil
	case f.Seq < b.floor(f.Namespace):
		b.left.StaleEpoch++
		return nil
	}
	e := index.Entry{Extent: ext, Content: index.TagOf(f.ContentID), Seq: f.Seq, Depth: f.Depth, RawBytes: f.RawBytes}
	if f.Kind == disk.KindAlias {
		e.Own, e.Extent = ext, index.Extent{}
		b.aliases = append(b.aliases, aliasKey{index.KeyEntry{Key: k, Entry: e}, f.ContentID})
		return nil
	}
	return b.put(ctx, index.KeyEntry{Key: k, Entry: e})
}

func (b *rebuilder) floor(namespace uint32) uint64 {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	return b.s.floorLocked(namespace)
}

// resolveAliases finds the bytes of each alias by content id within its
// tenant; an alias without any is gone.
func (b *rebuilder) resolveAliases(ctx context.Context) error {
	for _, k := range b.aliases {
		target, ok := b.full[contentKey{b.s.tenantOf(k.Namespace), k.content}]
		if !ok {
			b.left.NoBytes++
			b.lost(k.Key, k.Entry) // or equal bytes of a later put bring it back
			continue
		}
		k.Extent = target
		if err := b.put(ctx, k.KeyEntry); err != nil {
			return err
		}
	}
	return nil
}

func (b *rebuilder) put(ctx context.Context, k index.KeyEntry) error {
	b.batch = append(b.batch, k)
	if len(b.batch) < applyRecordsMax {
		return nil
	}
	return b.flush(ctx)
}

func (b *rebuilder) flush(ctx context.Context) error {
	batch := b.batch
	b.batch = nil
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	err := b.s.idx.Update(ctx, b.s.live, func(u *index.Batch) error {
		for _, k := range batch {
			if err := b.bind(u, k); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return b.buryLosers()
}

// buryLosers writes the tombstones of the extents that lost (rule deadtomb):
// once the one that counts is dropped or quarantined, the next rebuild would
// take them. A rebuild that ends before it is complete begins again, and
// finds the same ones lost, or buried.
func (b *rebuilder) buryLosers() error {
	for segment, ts := range b.losers {
		if err := b.s.vol.AppendTombstones(segment, ts); err != nil {
			return fmt.Errorf("tombstones of segment %d, for extents that are no blocks any more: %w", segment, err)
		}
	}
	clear(b.losers)
	return nil
}

// lost notes that an extent is left out for good: its key has another one, or
// its bytes are gone.
func (b *rebuilder) lost(k index.Key, e index.Entry) {
	at := e.Home().Address
	b.losers[at.Segment] = append(b.losers[at.Segment], disk.Tombstone{
		Kind: disk.TombstoneDead, Namespace: k.Namespace, Hash: []byte(k.Hash), Seq: e.Seq, Page: at.Page,
	})
}

// bind lets the highest sequence win; on equal ones a full extent beats an
// alias, and the later address the earlier.
func (b *rebuilder) bind(u *index.Batch, k index.KeyEntry) error {
	tenant := b.s.tenantOf(k.Namespace)
	old, ok, err := u.Get(k.Key)
	if err != nil {
		return err
	}
	if ok && old.Home().Address == k.Home().Address {
		return nil // listed twice: it must not be buried for itself
	}
	if ok {
		b.left.Superseded++ // one of the two
		if k.Seq < old.Seq || k.Seq == old.Seq && (k.IsAlias() && !old.IsAlias() || k.Home().Address.Less(old.Home().Address)) {
			b.lost(k.Key, k.Entry)
			return nil
		}
		b.lost(k.Key, old)
		if err := u.Unbind(k.Key, old, tenant); err != nil {
			return err
		}
		b.blocks--
	}
	b.blocks++
	if err := u.Bind(k.Key, k.Entry); err != nil {
		return err
	}
	if b.s.o.NoSharing {
		return nil
	}
	return u.SetContent(tenant, k.Content, k.Address)
}
