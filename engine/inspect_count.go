package engine

import (
	"context"
	"errors"
	"math"

	"github.com/sealstone/sealstone/engine/meta"
	"github.com/sealstone/sealstone/tiers/disk"
)

// counting adds up what segments hold.
type counting struct {
	v      *verifier // for what an index, or the lack of one, says of a segment
	spaces map[uint32]*NamespaceStats
	raw    map[uint32]int64 // each content once
}

func newCounting(f *offline) *counting {
	v := &verifier{offline: f, out: &findings{r: newVerifyReport("", Sample{})}}
	return &counting{v: v, spaces: map[uint32]*NamespaceStats{}, raw: map[uint32]int64{}}
}

func (c *counting) space(n uint32) *NamespaceStats {
	s := c.spaces[n]
	if s == nil {
		s = &NamespaceStats{Number: n}
		c.spaces[n] = s
	}
	return s
}

// segment counts one segment. With an error the rest of it is missing.
func (c *counting) segment(ctx context.Context, i *Inspector, g disk.SegmentInfo) (SegmentGroup, error) {
	group := SegmentGroup{Segments: 1, FileBytes: g.SizeBytes}
	entries, bad := i.entries(ctx, g)
	if c.v.rec.lost != "" && !g.Sealed {
		entries = nil // what the log knows is all that counts
	}
	want, err := c.v.expectations(ctx, g.ID, entries)
	if err != nil {
		return group, err
	}
	ts, tombErr := c.v.s.vol.ReadTombstones(g.ID)
	if g.HasSidecar {
		bad = errors.Join(bad, tombErr)
	}
	if c.v.rec.lost != "" {
		dropBuried(want, tombstonesByPage(ts))
	}
	for _, x := range want {
		n := int64(x.pages) * disk.PageBytes
		if c.extent(x, n) {
			group.LiveBytes += n
		} else {
			group.DeadBytes += n
		}
	}
	return group, bad
}

// extent counts one extent and reports whether it is in use.
func (c *counting) extent(x *expected, bytes int64) bool {
	for i := range x.blocks {
		b := &x.blocks[i]
		s := c.space(b.Namespace)
		s.Blocks++
		s.RawBytes += b.RawBytes
		if i > 0 {
			s.SharedBlocks++
			s.SharedRawBytes += b.RawBytes
		}
	}
	payload := bytes - int64(x.headerPages)*disk.PageBytes
	switch {
	case len(x.blocks) > 0:
		s := c.space(x.blocks[0].Namespace)
		s.StoredBytes += bytes
		s.PayloadBytes += payload
		c.raw[s.Number] += x.blocks[0].RawBytes
	case x.alias != nil:
		s := c.space(x.alias.Namespace)
		s.StoredBytes += bytes
		if c.v.rec.lost != "" {
			s.Blocks++
			s.RawBytes += x.alias.RawBytes
			s.SharedBlocks++
			s.SharedRawBytes += x.alias.RawBytes
		}
	default:
		if f := x.footer; f != nil {
			s := c.space(f.Namespace)
			s.DeadBytes += bytes
			if f.Seq < c.v.s.floorLocked(f.Namespace) {
				s.EpochDeadBytes += bytes
			}
		}
		return false
	}
	return true
}

// finish lists the namespaces and adds them up.
func (c *counting) finish(st *StoreStats, known []meta.Namespace) {
	var raw int64
	for _, n := range known {
		s := c.space(n.Number)
		s.Tenant, s.Model, s.RootHash, s.Epoch = n.Tenant, n.Layout.Model, n.Layout.Hash.Root, n.Epoch
		s.Ratio = ratioOf(c.raw[n.Number], s.PayloadBytes)
		raw += c.raw[n.Number]
		st.Namespaces = append(st.Namespaces, *s)
		t := &st.Totals
		t.Blocks += s.Blocks
		t.RawBytes += s.RawBytes
		t.SharedBlocks += s.SharedBlocks
		t.SharedRawBytes += s.SharedRawBytes
		t.StoredBytes += s.StoredBytes
		t.PayloadBytes += s.PayloadBytes
		t.DeadBytes += s.DeadBytes
	}
	st.Totals.Ratio = ratioOf(raw, st.Totals.PayloadBytes)
}

// ratioOf is rounded to three digits behind the point.
func ratioOf(raw, payload int64) float64 {
	if payload == 0 {
		return 0
	}
	return math.Round(1000*float64(raw)/float64(payload)) / 1000
}
