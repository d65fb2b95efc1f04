package engine

import (
	"context"
	"encoding/hex"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/sealstone/sealstone/tiers/disk"
)

// misplaced collects the sums of bad chunks as they are, to find out whose
// bytes they are: whether any chunk of the store should have them.
type misplaced struct {
	mu    sync.Mutex
	asked map[uint64][]*Diagnosis
}

// ask wants to know whose a chunk of this sum is.
func (m *misplaced) ask(sum uint64, d *Diagnosis) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.asked == nil {
		m.asked = map[uint64][]*Diagnosis{}
	}
	m.asked[sum] = append(m.asked[sum], d)
}

// more counts one up to a bound.
func (v *verifier) more(n *atomic.Int64, bound int64) bool { return n.Add(1) <= bound }

func (v *verifier) hasSegment(id uint64) bool {
	_, ok := v.s.segs[id]
	return ok
}

// findMisplaced reads the headers of all extents, and looks for the sums that
// were asked for in their tables of chunks. It runs after all segments were
// verified, alone.
func (v *verifier) findMisplaced(ctx context.Context, list []disk.SegmentInfo) error {
	m := &v.misplaced
	for _, i := range list {
		if len(m.asked) == 0 {
			return nil
		}
		err := v.s.vol.ScanSegment(ctx, i.ID, func(e *disk.Extent, _ uint64, _ disk.Address) error {
			if e.Kind == disk.KindFull {
				m.match(e)
			}
			return v.pace.wait(ctx, int64(e.HeaderPages)*disk.PageBytes)
		})
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil && !errors.Is(err, disk.ErrUnsupported) {
			v.out.note("%s: not searched for misplaced bytes: %v", disk.SegmentName(i.ID), err)
		}
	}
	return nil
}

// match compares the chunks of one extent with what was asked for.
func (m *misplaced) match(e *disk.Extent) {
	e.EachChunk(0, len(e.Chunks), func(c disk.StoredChunk) bool {
		sum := e.Chunks[c.Index].RawSum
		if !e.Chunks[c.Index].StoredRaw(e.Codec, c.RawLen) {
			sum = e.Chunks[c.Index].StoredSum
		}
		for _, d := range m.asked[sum] {
			d.Kind, d.From, d.To, d.NotTried = DiagnosisMisplaced, 0, 0, ""
			d.Namespace, d.Hash, d.OtherChunk = e.Namespace, hex.EncodeToString(e.Hash), c.Index
			d.Segment, d.Page = e.Address.Segment, e.Address.Page
		}
		delete(m.asked, sum)
		return true
	})
}
