package engine

import (
	"slices"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/tiers/disk"
	"github.com/sealstone/sealstone/wal"
)

// Without an index a store is verified by what a rebuild would keep: what
// footers list, and in segments without one what the log knows to be durable;
// minus what was dropped, and what lies under an epoch floor.

// collectForRebuild reads the drops of all segments and the log. Errors are
// reported elsewhere, with each file.
func (v *verifier) collectForRebuild(list []disk.SegmentInfo) {
	if v.rec.lost == "" {
		return
	}
	v.collectDrops(list)
	v.logged = map[uint64][]index.KeyEntry{}
	unsealed := map[uint64]bool{}
	for _, i := range list {
		unsealed[i.ID] = !i.Sealed
	}
	_, _ = wal.Recover(v.s.logOptions(), 0, func(w wal.Record) error {
		r, err := decodeRecord(w.Data)
		if err != nil {
			return err
		}
		if home := r.Entry.Home(); r.Kind == recordPut && w.End <= v.rec.log.Mark && unsealed[home.Address.Segment] {
			k := index.KeyEntry{Key: r.Key, Entry: r.Entry}
			v.logged[home.Address.Segment] = append(v.logged[home.Address.Segment], k)
		}
		return nil
	})
}

// collectDrops reads which sequences of which keys were dropped.
func (v *verifier) collectDrops(list []disk.SegmentInfo) {
	v.drops = map[index.Key]uint64{}
	for _, i := range list {
		ts, _ := v.s.vol.ReadTombstones(i.ID)
		for _, t := range ts {
			if t.Kind == disk.TombstoneDrop {
				k := index.Key{Namespace: t.Namespace, Hash: string(t.Hash)}
				v.drops[k] = max(v.drops[k], t.Seq)
			}
		}
	}
}

// unindexed reports a sound extent that the index has lost: its footer lists
// it, nothing says that it is gone, and no newer put of its key is there. A
// rebuild would bring it back. (Only footers are held against the index: they
// are written when all records of their extents are applied.)
func (w *segmentWalk) unindexed(x *expected) {
	v, f := w.v, x.footer
	if v.rec.lost != "" || x.kind() != DamageDead || f == nil || f.Kind != disk.KindFull || slices.Contains(v.rec.evicts, w.i.ID) {
		return
	}
	if _, dead := w.tombs[x.page]; dead || w.sidecarErr != nil {
		return
	}
	v.once.Do(func() { v.collectDrops(v.s.vol.Segments()) })
	k := index.KeyEntry{Key: index.Key{Namespace: f.Namespace, Hash: string(f.Hash)}, Entry: index.Entry{Seq: f.Seq}}
	if v.gone(k) {
		return
	}
	ctx, cancel := openContext()
	defer cancel()
	e, err := v.entry(ctx, k.Key)
	if err != nil || e != nil && e.Seq >= f.Seq {
		return // errors of the index are reported where it is read as a whole
	}
	d := x.damage(DamageIndex, w.i.ID)
	d.Offset = int64(x.page) * disk.PageBytes
	d.Reason = "the extent is whole, and neither tombstone nor log says that it is gone, but the index does not have it: a get is a miss, a rebuild brings it back"
	v.out.add(d)
}

// gone reports whether a rebuild would leave a key out.
func (v *verifier) gone(k index.KeyEntry) bool {
	return k.Seq <= v.drops[k.Key] || k.Seq < v.s.floorLocked(k.Namespace)
}

// claimByFooter makes a key of a footer's entry.
func (v *verifier) claimByFooter(x *expected, segment uint64) {
	f := x.footer
	e := index.Extent{Address: disk.Address{Segment: segment, Page: f.Page}, HeaderPages: x.headerPages, Pages: x.pages, HeaderSum: x.headerSum}
	k := index.KeyEntry{
		Key:   index.Key{Namespace: f.Namespace, Hash: string(f.Hash)},
		Entry: index.Entry{Extent: e, Content: index.TagOf(f.ContentID), Seq: f.Seq, Depth: f.Depth, RawBytes: f.RawBytes},
	}
	switch {
	case v.gone(k):
	case f.Kind == disk.KindAlias:
		k.Own = e
		x.alias = &k
	default:
		x.blocks = []index.KeyEntry{k}
	}
}
