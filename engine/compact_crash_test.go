package engine

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/sealstone/sealstone/internal/faults/faulttest"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// compact empties segments at random, whatever is live in them. No key is
// lost by it.
func (d *driver) compact() {
	defer d.life.begin(phaseCompact)()
	var ids []uint64
	for _, i := range d.s.vol.Segments() {
		if i.Sealed {
			ids = append(ids, i.ID)
		}
	}
	d.rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	for _, id := range ids[:min(len(ids), 1+d.rng.IntN(3))] {
		err := compactSegment(d.s, id)
		d.note("compact segment %d: %v", id, err)
		var kept errKept
		switch {
		case d.hurt():
			return // see mend
		case err == nil:
			d.allDurable()
		case !errors.As(err, &kept) && !errors.Is(err, ErrShed):
			d.t.Fatalf("compact segment %d: %v", id, err)
		}
	}
	for k := range modelKeys {
		d.expect(k)
	}
}

// compactSegment empties one segment.
func compactSegment(s *Store, id uint64) error {
	o, _ := CompactOptions{}.withDefaults()
	c := &compaction{s: s, o: o, report: &CompactReport{}}
	return c.empty(context.Background(), id)
}

func (r *rig) compact(id uint64) {
	r.t.Helper()
	r.s.syncAndApply()
	if err := compactSegment(r.s, id); err != nil {
		r.t.Fatalf(r.where+"compact segment %d: %v", id, err)
	}
}

// sealNow closes the active segments and makes them durable.
func (r *rig) sealNow() {
	r.t.Helper()
	r.roll()
	r.flush()
	r.s.syncAndSeal()
	r.s.applyAll()
}

// tombstoned reports whether a sidecar names a drop of the key.
func (r *rig) tombstoned(id uint64, k int) bool {
	r.t.Helper()
	ts, err := r.s.vol.ReadTombstones(id)
	if err != nil {
		r.t.Fatal(err)
	}
	return slices.ContainsFunc(ts, func(t disk.Tombstone) bool {
		return t.Kind == disk.TombstoneDrop && string(t.Hash) == string(hashOf(k))
	})
}

// compactRules are traces of what a compaction does beyond an eviction.
var compactRules = []protocolRule{
	{"nothing live goes", func(r *rig) {
		r.put(0, 0)
		r.sealNow()
		r.put(1, 1)
		r.flush()
		r.alias(2, 1)
		r.put(3, 3)
		r.sealNow()
		r.drop(3)
		r.compact(2) // not the oldest
		for k, content := range []int{0, 1, 1} {
			r.want(k, content)
		}
		r.absent(3)
		r.kill(indexDir)
		for k, content := range []int{0, 1, 1} {
			r.want(k, content)
		}
		r.absent(3)
		r.kill(indexDir, logDir)
		r.want(2, 1)
		r.absent(3)
	}},
	{"an alias's page moves, its bytes stay", func(r *rig) {
		r.put(0, 0)
		r.sealNow()
		r.alias(1, 0)
		r.put(2, 2)
		r.sealNow()
		seq := r.entry(1).Seq
		r.compact(2)
		e := r.entry(1)
		if e.Address.Segment != 1 || !e.IsAlias() || e.Own.Address.Segment <= 2 || e.Seq != seq {
			r.t.Fatalf("the alias is now %+v", e)
		}
		r.want(1, 0)
		r.kill(indexDir)
		r.want(0, 0)
		r.want(1, 0)
		r.drop(1)
		r.kill(indexDir, logDir)
		r.want(0, 0)
		r.absent(1)
	}},
	{"an alias's page moves when its owner is dropped", func(r *rig) {
		r.put(0, 0)
		r.sealNow()
		r.alias(1, 0)
		r.sealNow()
		r.drop(0)
		r.compact(2)
		r.want(1, 0)
		r.alias(3, 0) // the content is still known
		r.compact(1)  // the bytes move under the alias's key
		r.want(1, 0)
		r.want(3, 0)
		r.absent(0)
		r.kill(indexDir)
		r.want(1, 0)
		r.want(3, 0)
		r.absent(0)
	}},
	{"an alias's page that is dropped while it moves", func(r *rig) {
		r.put(0, 0)
		r.sealNow()
		r.alias(1, 0)
		r.sealNow()
		e := r.entry(1)
		r.at["move:copied"] = func() { r.drop(1) }
		r.compact(2)
		r.absent(1)
		r.kill(indexDir, logDir)
		r.absent(1)
		r.want(0, 0)
		r.putNew(1, 1)
		if r.entry(1).Seq == e.Seq {
			r.t.Fatal("the same sequence again")
		}
	}},
	{"drops outlive their sidecar while an older segment stays", func(r *rig) {
		r.put(0, 0)
		r.sealNow()
		r.put(1, 1)
		r.put(2, 2)
		r.sealNow()
		r.drop(1)
		r.compact(2)
		youngest := r.s.vol.Segments()[len(r.s.vol.Segments())-1].ID
		if !r.tombstoned(youngest, 1) {
			r.t.Fatal("the drop went with its segment, and an older one stays")
		}
		r.drop(2)
		r.sealNow()
		r.compact(youngest) // what was carried is carried on
		if !r.tombstoned(1, 1) || !r.tombstoned(1, 2) {
			r.t.Fatal("the drops went with their segment, and an older one stays")
		}
		r.want(0, 0)
		r.kill(indexDir, logDir)
		r.want(0, 0)
		r.absent(1)
		r.absent(2)
	}},
	{"a put that was never acknowledged does not pass a later drop", func(r *rig) {
		r.put(1, 1) // segment 1 stays unsealed
		var clone *vfs.Mem
		r.at["put:before-log"] = func() { clone = r.mem.CrashClone(cached) }
		r.put(0, 0)
		r.become(clone, indexDir, logDir) // the rebuild finds the extent, and it may
		r.absentOr(0, 0)
		r.sealNow()
		r.drop(0)
		for _, i := range r.s.vol.Segments()[1:] {
			if i.Sealed {
				r.compact(i.ID)
			}
		}
		r.absent(0)
		r.kill(indexDir, logDir)
		r.absent(0)
		r.want(1, 1)
	}},
	{"blocks of older epochs are purged", func(r *rig) {
		r.put(0, 0)
		r.put(1, 1)
		r.sealNow()
		r.bump()
		r.put(0, 2)
		r.sealNow()
		r.compact(1)
		r.want(0, 2)
		r.absent(1)
		if n := len(r.s.vol.Segments()); n != 1 {
			r.t.Fatalf("%d segments", n)
		}
		r.kill(indexDir, logDir)
		r.want(0, 2)
		r.absent(1)
	}},
	{"an EVICT that a pass left behind comes first", func(r *rig) {
		for k := range 3 {
			r.put(k, k)
			r.sealNow()
		}
		r.at["evict:applied"] = func() { // as a pass leaves it whose context ended here
			r.s.mu.Lock()
			open := r.s.evictOpen
			r.s.mu.Unlock()
			if open == 0 {
				r.t.Error("no EVICT is open")
			}
		}
		r.s.mu.Lock()
		seg := r.s.segs[2]
		seg.victim = true
		r.s.mu.Unlock()
		if err := r.s.logEvict(context.Background(), seg); err != nil {
			r.t.Fatal(err)
		}
		r.evict()
		if _, there := r.s.vol.Segment(2); there {
			r.t.Fatal("the segment of the first EVICT is there after the next pass")
		}
		r.want(0, 0)
		r.absent(1)
	}},
	{"read-only after a kill, before the index was flushed", func(r *rig) {
		r.put(0, 0)
		r.sealNow()
		r.alias(1, 0)
		r.put(2, 2)
		r.sealNow()
		_ = r.s.idx.Flush(context.Background()) // it leads to segments that will be gone
		r.compact(2)
		r.compact(1)
		o := modelOptions(r.mem.CrashClone(killed))
		o.ReadOnly, o.MustExist = true, true
		s := mustOpen(r.t, o)
		defer mustClose(r.t, s)
		n := mustSpace(r.t, s)
		for k, content := range []int{0, 0, 2} {
			if got, st := readContent(n, k); st != StatusOK || got != content {
				r.t.Fatalf("key %d of the store opened read-only: %v, content %d", k, st, got)
			}
		}
	}},
}

func TestLaw3CompactRules(t *testing.T) {
	for _, c := range compactRules {
		t.Run(c.rule, func(t *testing.T) {
			r := newRig(t)
			c.run(r)
			mustClose(t, r.s)
		})
	}
}

// TestFaultCompactCrash crashes a compaction of a segment with a block, a block
// with an alias, an alias of an older block, a dropped and an outdated block,
// before each of its operations; index and log are lost in turn too. Every
// live block must be there, and no dead one.
func TestFaultCompactCrash(t *testing.T) {
	y := faulttest.New(t)
	modes := []vfs.CrashOptions{killed, cached, plainCut, logKept, segsKept}
	modes = append(modes, namesCuts()...)
	switch {
	case fullTests:
	case testing.Short():
		modes = modes[2:3]
	default:
		modes = modes[:6]
	}
	r := newRig(t)
	r.put(9, 9)
	r.put(8, 8)
	r.sealNow()
	r.drop(8)
	r.put(0, 0)
	r.flush()
	r.alias(1, 0)
	r.alias(2, 9)
	r.put(3, 3)
	r.put(4, 4)
	r.sealNow()
	r.drop(3)
	crashes := 0
	r.crashAnywhere(modes, func() { r.compact(2) }, func(r *rig) {
		f := y.Try(r.where)
		f.Fire()
		for k, content := range map[int]int{9: 9, 0: 0, 1: 0, 2: 9, 4: 4} {
			r.want(k, content)
		}
		r.absent(3)
		r.absent(8)
		r.putNew(3, 5)
		r.want(3, 5)
		f.Survive()
		if crashes++; crashes%200 == 0 {
			y.Settle()
		}
	})
	mustClose(t, r.s)
	if crashes < 50 {
		t.Errorf("only %d crashes", crashes)
	}
}
