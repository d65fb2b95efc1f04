package engine

import (
	"fmt"
	"slices"

	"github.com/sealstone/sealstone/engine/index"
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
		s.event(EventSegmentLost, "segment %d is gone, with %d bytes of blocks: they are misses from now on", id, bytes)
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
