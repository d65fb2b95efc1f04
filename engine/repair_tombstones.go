package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// A sidecar that is damaged or missing may have named any extent of its
// segment. What its new one must name follows from the index, which knows the
// extents that live; all others get a tombstone. Where the index is lost too
// nothing says what was dropped, so all may have been: the whole segment is
// buried.

// tombstones plans new sidecars.
func (m *planner) tombstones(ctx context.Context) error {
	for _, d := range m.found.Damage {
		if d.Kind != DamageTombstones {
			continue
		}
		b := &burial{planner: m, segment: d.Segment, trusted: m.p.rebuild == ""}
		if err := b.run(ctx); err != nil {
			return fmt.Errorf("tombstones of segment %d: %w", d.Segment, err)
		}
		m.p.sidecars[d.Segment] = b.out
		a := RepairAction{Kind: RepairTombstones, File: d.File, Segment: d.Segment, Why: d.Reason,
			What: fmt.Sprintf("is written anew: %d tombstones, for all that the index does not hold", len(b.out))}
		if !b.trusted {
			a.Blocks, a.RawBytes = b.lostBlocks, b.lostBytes
			a.What = fmt.Sprintf("is written anew: %d tombstones; without index and tombstones all of the segment may have been dropped, and so stays gone", len(b.out))
		}
		m.p.act(a)
	}
	return nil
}

// burial works out the tombstones of one segment.
type burial struct {
	*planner
	segment uint64
	trusted bool // the index knows what lives
	out     []disk.Tombstone

	lostBlocks, lostBytes int64 // at most
}

func (b *burial) run(ctx context.Context) error {
	known, err := b.s.vol.ReadTombstones(b.segment)
	if err != nil && !errors.Is(err, disk.ErrCorrupt) && !vfs.IsNotExist(err) {
		return err
	}
	b.out = known // what is sound of it counts
	dead := map[uint32]bool{}
	for _, t := range known {
		dead[t.Page] = true
	}
	extents, err := b.extents(ctx)
	if err != nil {
		return err
	}
	used, err := b.used(ctx)
	if err != nil {
		return err
	}
	for _, e := range extents {
		if err := b.bury(ctx, e, used); err != nil {
			return err
		}
		if !dead[e.Page] && e.Seq >= b.s.floorLocked(e.Namespace) {
			b.lostBlocks++
			b.lostBytes += e.RawBytes
		}
	}
	return nil
}

// extents lists all that is or was in the segment, as far as anything says.
func (b *burial) extents(ctx context.Context) ([]disk.FooterEntry, error) {
	at := map[uint32]disk.FooterEntry{}
	entries, err := b.s.vol.ReadFooter(b.segment)
	if err != nil && !errors.Is(err, disk.ErrCorrupt) {
		return nil, err
	}
	for _, e := range entries {
		at[e.Page] = e
	}
	err = b.s.vol.ScanSegment(ctx, b.segment, func(e *disk.Extent, sum uint64, place disk.Address) error {
		at[place.Page] = disk.EntryOf(e, sum)
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := make([]disk.FooterEntry, 0, len(at))
	for _, e := range at {
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b disk.FooterEntry) int { return cmp.Compare(a.Page, b.Page) })
	return out, nil
}

// used are the pages at which the bytes of stored blocks begin.
func (b *burial) used(ctx context.Context) (map[uint32]bool, error) {
	used := map[uint32]bool{}
	if !b.trusted {
		return used, nil
	}
	keys, err := (&verifier{offline: b.offline}).keysOf(ctx, b.segment)
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		if k.Address.Segment == b.segment {
			used[k.Address.Page] = true
		}
	}
	return used, nil
}

// bury writes the tombstones of one extent that is not the home of its block.
// Where the block is not stored at all, or is by a later put, the lost
// tombstone may have been that of a drop, which kills copies elsewhere.
func (b *burial) bury(ctx context.Context, e disk.FooterEntry, used map[uint32]bool) error {
	at := disk.Address{Segment: b.segment, Page: e.Page}
	var now *index.Entry
	if b.trusted {
		var err error
		if now, err = b.entry(ctx, index.Key{Namespace: e.Namespace, Hash: string(e.Hash)}); err != nil {
			return err
		}
		if now != nil && now.Home().Address == at {
			return nil
		}
	}
	t := disk.Tombstone{Kind: disk.TombstoneDead, Namespace: e.Namespace, Hash: e.Hash, Seq: e.Seq, Page: e.Page}
	if now == nil || now.Seq > e.Seq {
		t.Kind = disk.TombstoneDrop
	}
	b.out = append(b.out, t)
	if used[e.Page] || b.s.vol.VerifyExtent(ctx, at, e.HeaderSum) == nil {
		return nil
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	t.Kind = disk.TombstoneQuarantine // its bytes must not serve an alias either
	b.out = append(b.out, t)
	return nil
}

// encodeSidecar makes a whole tombstone file, in one append.
func (s *Store) encodeSidecar(segment uint64, ts []disk.Tombstone) ([]byte, error) {
	p := make([]byte, disk.TombstoneHeaderBytes+len(ts)*disk.TombstoneSlotBytes)
	if err := disk.EncodeTombstoneHeader(p[:disk.TombstoneHeaderBytes], segment, s.uuid, s.key); err != nil {
		return nil, err
	}
	for i, t := range ts {
		slot := disk.FirstTombstoneSlot + i
		dst := p[disk.TombstoneOffset(slot):][:disk.TombstoneSlotBytes]
		if err := disk.EncodeTombstone(dst, t, segment, slot, disk.FirstTombstoneSlot, s.key); err != nil {
			return nil, err
		}
	}
	return p, nil
}
