package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/tiers/disk"
)

// forgetLost takes out of the index what it holds in segments whose files are
// gone. Left in, a key would be "stored already" to every put and a miss to
// every get.
func (r *recovery) forgetLost() error {
	s := r.s
	var recs []*record
	for id, bytes := range s.live {
		if s.segs[id] != nil {
			continue
		}
		recs = append(recs, &record{Kind: recordEvict, Segment: id})
		blocks, err := r.blocksIn(id)
		if err != nil {
			return err
		}
		s.event(EventSegmentLost, "%s is gone, with %d bytes: %s are misses from now on", disk.SegmentName(id), bytes, blocks)
	}
	if len(recs) == 0 {
		return nil
	}
	slices.SortFunc(recs, func(a, b *record) int { return int(a.Segment) - int(b.Segment) })
	ctx, cancel := openContext()
	defer cancel()
	a := s.newApplication()
	err := s.idx.Update(ctx, s.live, func(b *index.Batch) error { return a.run(b, recs, r.applied) })
	if err != nil {
		return fmt.Errorf("engine: forget lost segments: %w", err)
	}
	return nil
}

// blocksIn says how many blocks of which namespaces have bytes or their own
// header in a segment.
func (r *recovery) blocksIn(segment uint64) (string, error) {
	ctx, cancel := openContext()
	defer cancel()
	keys, err := r.s.idx.SegmentKeys(ctx, segment)
	if err != nil {
		return "", fmt.Errorf("engine: forget lost segments: %w", err)
	}
	blocks := map[uint32]map[string]bool{}
	for _, k := range keys {
		if blocks[k.Namespace] == nil {
			blocks[k.Namespace] = map[string]bool{}
		}
		blocks[k.Namespace][k.Hash] = true
	}
	var parts []string
	for _, n := range slices.Sorted(maps.Keys(blocks)) {
		parts = append(parts, fmt.Sprintf("%d blocks of namespace %d", len(blocks[n]), n))
	}
	return strings.Join(parts, ", "), nil
}

// gone settles a block whose segment's file was removed by somebody else while
// the store runs. It is taken out of the index, so that it can be put again; no
// path is to blame, so it does not count towards a storm.
func (g *getBatch) gone(w *want) {
	const reason = "the segment file is gone"
	e := w.found.entry
	g.s.tellGone(e.Address.Segment)
	g.s.takeOut(g.keys[w.i], e, reason)
	g.fail(w, StatusCorrupt, "", g.s.corruptAt(e.Extent, 0, reason, disk.ErrNoSegment), false)
}

// tellGone reports the loss of a segment once.
func (s *Store) tellGone(id uint64) {
	s.mu.Lock()
	seg := s.segs[id]
	known := seg == nil || seg.gone
	if !known {
		seg.gone = true
	}
	s.mu.Unlock()
	if !known {
		s.event(EventSegmentLost, "%s was removed while the store runs: its blocks are misses", disk.SegmentName(id))
	}
}
