package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/tiers/disk"
)

// segmentUse is what a segment holds on disk, and what of it is needed.
type segmentUse struct {
	id        uint64
	usedBytes int64
	liveBytes int64 // extents, and alias pages, of visible blocks
	extents   int64 // how many both are
}

func (u segmentUse) share() float64 { return float64(u.liveBytes) / float64(max(u.usedBytes, 1)) }

// usage is the sum of several segments' use.
type usage struct {
	segments             int
	usedBytes, liveBytes int64
	extents              int64
}

func (u usage) with(v segmentUse) usage {
	return usage{u.segments + 1, u.usedBytes + v.usedBytes, u.liveBytes + v.liveBytes, u.extents + v.extents}
}

// compactPlan is which segments are to be emptied.
type compactPlan struct {
	before       SpaceUse
	segmentBytes int64
	victims      []segmentUse
	chosen       usage // of the victims
}

// footerEntryBytes is what an extent takes in a footer, with the usual hashes.
const footerEntryBytes = 128

// destination is about what the live bytes of victims will take once they are
// moved: segments of their own, with header, footer and sidecar.
func (p *compactPlan) destination(u usage) (segments int, sizeBytes int64) {
	if u.liveBytes == 0 {
		return 0, 0
	}
	body := u.liveBytes + u.extents*footerEntryBytes
	n := (body + p.segmentBytes - 1) / p.segmentBytes
	return int(n), body + n*(3*disk.PageBytes)
}

// gainBytes is about what emptying the victims gives back.
func (p *compactPlan) gainBytes(u usage) int64 {
	_, destination := p.destination(u)
	return u.usedBytes - destination
}

func (p *compactPlan) after() SpaceUse {
	n, _ := p.destination(p.chosen)
	return SpaceUse{
		Segments:     p.before.Segments - p.chosen.segments + n,
		SegmentBytes: p.before.SegmentBytes - p.gainBytes(p.chosen),
		LiveBytes:    p.before.LiveBytes,
	}
}

// choose takes the segments with the smallest live share until the target is
// reached, and leaves those that would be copied for next to nothing. The
// first one alone may gain nothing, and several together do.
func (p *compactPlan) choose(all []segmentUse, target float64) {
	slices.SortFunc(all, func(a, b segmentUse) int {
		return cmp.Or(cmp.Compare(a.share(), b.share()), cmp.Compare(a.id, b.id))
	})
	for _, v := range all {
		if p.after().LiveShare() >= target || v.share() >= target {
			break
		}
		next := p.chosen.with(v)
		more := p.gainBytes(next) - p.gainBytes(p.chosen)
		if len(p.victims) == 0 || more > v.liveBytes/100 {
			p.victims, p.chosen = append(p.victims, v), next
		}
	}
	if p.gainBytes(p.chosen) <= 0 {
		p.victims, p.chosen = nil, usage{}
	}
}

// plan looks at every segment and chooses the victims.
func (c *compaction) plan(ctx context.Context) (*compactPlan, error) {
	p := &compactPlan{segmentBytes: c.s.room.segmentBytes}
	var all []segmentUse
	uses, err := c.s.segmentUses(ctx)
	if err != nil {
		return nil, err
	}
	for _, u := range uses {
		p.before.Segments++
		p.before.SegmentBytes += u.usedBytes
		p.before.LiveBytes += u.liveBytes
		if c.s.isSettled(u.id) {
			all = append(all, u)
		}
	}
	p.choose(all, c.o.TargetShare)
	return p, nil
}

// isSettled reports whether a segment is closed: nothing is written to it any
// more, and its end on disk is known. In a store opened read-only none is
// written to.
func (s *Store) isSettled(id uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	seg := s.segs[id]
	return seg != nil && (seg.sealed || s.o.ReadOnly) && !seg.lost
}

func (s *Store) spaceUse(ctx context.Context) (SpaceUse, error) {
	uses, err := s.segmentUses(ctx)
	var sum SpaceUse
	for _, u := range uses {
		sum.Segments++
		sum.SegmentBytes += u.usedBytes
		sum.LiveBytes += u.liveBytes
	}
	return sum, err
}

// segmentUses asks the index of each segment in turn what of it is live: its
// own figures count blocks of older epochs and not the pages of aliases.
func (s *Store) segmentUses(ctx context.Context) ([]segmentUse, error) {
	infos := s.vol.Segments()
	out := make([]segmentUse, 0, len(infos))
	for _, i := range infos {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		u := segmentUse{id: i.ID, usedBytes: i.AllocatedBytes}
		keys, err := s.segmentKeys(ctx, i.ID)
		if err != nil {
			return nil, err
		}
		seen := map[disk.Address]bool{}
		for _, k := range s.fresh(keys) {
			for _, e := range []index.Extent{k.Extent, k.Own} {
				if e.Address.Segment == i.ID && !seen[e.Address] {
					seen[e.Address] = true
					u.liveBytes += e.Bytes()
					u.extents++
				}
			}
		}
		out = append(out, u)
	}
	return out, nil
}

// segmentKeys are the keys that need a segment, once each. Bounded by
// CallTimeout.
func (s *Store) segmentKeys(ctx context.Context, id uint64) ([]index.KeyEntry, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	keys, err := s.idx.SegmentKeys(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("segment %d: %w", id, err)
	}
	seen := map[index.Key]bool{}
	return slices.DeleteFunc(keys, func(k index.KeyEntry) bool {
		twice := seen[k.Key]
		seen[k.Key] = true
		return twice
	}), nil
}

// fresh leaves out blocks of older epochs.
func (s *Store) fresh(keys []index.KeyEntry) (out []index.KeyEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range keys {
		if k.Seq >= s.floorLocked(k.Namespace) {
			out = append(out, k)
		}
	}
	return out
}
