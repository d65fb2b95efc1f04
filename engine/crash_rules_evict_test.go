package engine

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// Move and evict.
var evictRules = []protocolRule{
	{"evictwait", func(r *rig) {
		r.put(0, 0)
		r.put(1, 1)
		r.n.Touch(context.Background(), [][]byte{hashOf(0)})
		r.flush()
		r.roll()
		r.put(2, 2)
		for _, point := range []string{"evict:drained", "move:copied", "evict:moved", "evict:applied"} {
			clone := r.mem.CrashClone(vfs.CrashOptions{KeepAll: true})
			again := &rig{t: r.t, mem: clone}
			again.open()
			again.n.Touch(context.Background(), [][]byte{hashOf(0)})
			again.put(3, 3)
			left := again.snapshotAt(point, cutOptions([]string{logToo})) // frames, no copies
			again.evict()
			again.become(*left)
			again.want(0, 0)
			again.kill(indexDir)
			again.want(0, 0)
			mustClose(r.t, again.s)
		}
	}},
	{"evictwait, a crash anywhere", func(r *rig) {
		r.put(0, 0)
		r.put(1, 1)
		r.flush()
		r.touch(0)
		r.roll()
		r.put(2, 2)
		r.crashAnywhere([]vfs.CrashOptions{killed, plainCut, logKept, segsKept}, r.evict, func(r *rig) {
			r.want(0, 0) // moved on
			r.absentOr(1, 1)
		})
	}},
	{"evictwait, oldest first", func(r *rig) {
		for k := range 3 {
			r.put(k, k)
			r.flush()
			r.roll()
		}
		for k := range 2 {
			r.evict()
			r.absent(k)
			r.entry(k + 1) // not a get: what is used is moved on
		}
	}},
	{"evictwait, a put that shares", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.roll()
		r.put(2, 2)
		r.flush()
		r.at["put:before-log"] = func() { // the pass can not end before the put
			if ok, err := r.s.EvictOnce(context.Background()); err == nil {
				r.t.Errorf("evicted %v under a put that shares", ok)
			}
		}
		r.alias(1, 0)
		r.want(1, 0)
		r.kill(indexDir)
		r.want(1, 0)
	}},
	{"evictwait, a drop at work", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.roll()
		r.put(2, 2)
		r.flush()
		var meet rendezvous
		dropping := meet.arm(r.t, "drop:before-tombstone")
		r.drops = meet.at
		dropped := make(chan Result, 1)
		r.at["evict:drained"] = func() {
			go func() { dropped <- r.n.Drop(context.Background(), [][]byte{hashOf(0)})[0] }()
			dropping.wait(r.t)
		}
		if ok, err := r.s.EvictOnce(context.Background()); err == nil {
			r.t.Errorf("evicted %v under a drop", ok)
		}
		dropping.open()
		if d := <-dropped; d.Status != StatusOK {
			r.t.Errorf("drop: %+v", d)
		}
		r.evict()
		r.absent(0)
		r.kill(indexDir)
		r.absent(0)
	}},
	{"evictwait, closed to sharing", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.roll()
		r.put(2, 2)
		r.at["evict:drained"] = func() {
			if p := r.putNew(1, 0); p.Shared {
				r.t.Error("shared with a victim")
			}
		}
		r.evict()
		r.want(1, 0)
		r.kill(indexDir)
		r.want(1, 0)
	}},
	{"evictwait, a drop that is logged and not applied", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.n.Touch(context.Background(), [][]byte{hashOf(0)})
		r.roll()
		r.put(1, 1)
		old := r.entry(0)
		var clone *vfs.Mem
		r.at["evict:moved"] = func() { // the drop looked the block up before it moved
			home := old.Home().Address
			err := r.s.vol.AppendTombstones(home.Segment, []disk.Tombstone{{
				Kind: disk.TombstoneDrop, Namespace: r.n.info.Number, Hash: hashOf(0), Seq: old.Seq, Page: home.Page,
			}})
			if err != nil {
				r.t.Error(err)
			}
			err = r.s.logOne(&record{Kind: recordDrop, Key: r.key(0), Entry: index.Entry{Seq: old.Seq}, From: home})
			if err != nil {
				r.t.Error(err)
			}
			r.at["sync:between"] = func() { clone = r.mem.CrashClone(killed) }
		}
		r.evict()
		r.absent(0)
		r.become(clone, indexDir)
		r.absent(0)
	}},
	{"unlinkapplied", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.roll()
		r.put(1, 1)
		clone := r.snapshotAt("evict:applied", vfs.CrashOptions{KeepAll: true})
		r.evict()
		r.become(*clone)
		r.absent(0)
		r.putNew(0, 2)
		r.want(0, 2)
	}},
	{"unlinkapplied, in the running store", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.roll()
		r.put(1, 1)
		r.evict()
		r.absent(0)
		r.putNew(0, 2)
		r.want(0, 2)
	}},
	{"trimevict", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.roll()
		r.put(1, 1)
		clone := new(vfs.Mem)
		r.at["evict:applied"] = func() { // the index is flushed, the unlink is not yet done
			r.fillLog()
			r.put(2, 2)
			r.s.syncAndApply()
			r.s.trim()
			clone = r.mem.CrashClone(killed)
		}
		r.evict()
		r.become(clone, indexDir)
		r.absent(0)
		r.want(1, 1)
	}},
	{"trimevict, Open redoes the unlink", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.roll()
		r.put(1, 1)
		clone := r.snapshotAt("evict:applied", killed)
		r.evict()
		mustClose(r.t, r.s)
		r.mem = *clone
		r.losses = []string{"", indexDir} // without the log nothing tells of the eviction
		modes := []vfs.CrashOptions{killed, plainCut, {}}
		r.crashAnywhere(modes, r.open, func(r *rig) {
			r.absent(0)
			r.want(1, 1)
			if n := len(r.s.vol.Segments()); n != 1 {
				r.t.Fatalf("%s%d segments, and the first is evicted", r.where, n)
			}
		})
	}},
	{"trim, what the index has durable", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.fillLog()
		r.put(1, 1)
		r.drop(0)
		r.flush()
		r.s.trim()
		r.kill()
		r.noRebuild()
		r.absent(0)
		r.want(1, 1)
	}},
	{"delorder", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.drop(0)
		r.roll()
		r.put(1, 1)
		r.evict()
		r.crash(vfs.CrashOptions{Seed: 1, KeepNames: 0.5}, logDir) // unlinks kept or lost
		r.absent(0)
	}},
	{"delorder, step by step", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.roll()
		r.put(1, 1)
		r.flush()
		seg, del, dir := disk.SegmentName(1), disk.SidecarName(1), path.Dir(disk.SegmentName(1))
		var steps []string
		var left *vfs.Mem
		note := func(op vfs.Op) {
			switch {
			case op.Kind == vfs.OpRemove && (op.Name == seg || op.Name == del), op.Kind == vfs.OpSyncDir && op.Name == dir:
				steps = append(steps, op.Kind.String()+" "+op.Name)
				if len(steps) == 2 { // the segment is gone, and its directory not synced
					left = r.mem.CrashClone(cached)
				}
			}
		}
		want := []string{"remove " + seg, "syncdir " + dir, "remove " + del}
		r.hook.set(note)
		r.evict()
		r.hook.set(nil)
		if !slices.Equal(steps, want) {
			r.t.Fatalf("an eviction did %v, want %v", steps, want)
		}
		mustClose(r.t, r.s)
		steps, r.mem = nil, left
		r.hook.set(note)
		r.open()
		r.hook.set(nil)
		if len(steps) < 2 || !slices.Equal(steps[:2], want[1:]) {
			r.t.Fatalf("the Open after a kill did %v, want %v first", steps, want[1:])
		}
	}},
	{"delorder, a crash anywhere", func(r *rig) {
		r.put(0, 0)
		r.put(3, 3)
		r.flush()
		r.drop(0)
		r.roll()
		r.put(1, 1)
		r.crashAnywhere(namesCuts(), r.evict, func(r *rig) {
			r.absent(0)
			r.absentOr(3, 3)
			r.want(1, 1)
		})
	}},
	{"delorder, what a kill left in memory", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.drop(0)
		r.roll()
		r.put(1, 1)
		r.flush()
		var left *vfs.Mem
		removed := false
		r.hook.set(func(op vfs.Op) {
			if removed && left == nil && op.Mutates() { // before the directory is synced
				left = r.mem.CrashClone(cached)
			}
			removed = removed || op.Kind == vfs.OpRemove && strings.HasSuffix(op.Name, ".seg")
		})
		r.evict()
		r.hook.set(nil)
		for _, lost := range []string{"", indexDir, logDir} {
			again := &rig{t: r.t, mem: left.CrashClone(cached), where: "lost " + lost + ": "}
			if lost != "" {
				if err := again.mem.RemoveAll(lost); err != nil {
					r.t.Fatal(err)
				}
			}
			again.losses = []string{indexDir}
			again.only = func(op vfs.Op) bool { return !strings.HasPrefix(op.Name, "index") }
			again.crashAnywhere(namesCuts(), again.open, func(r *rig) { r.absent(0); r.want(1, 1) })
			mustClose(r.t, again.s)
		}
	}},
	{"tie", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.n.Touch(context.Background(), [][]byte{hashOf(0)})
		r.put(1, 1)
		r.flush()
		r.move(0)
		r.kill(indexDir)
		r.want(0, 0)
		if at := r.entry(0).Address.Segment; at < 2 {
			r.t.Fatalf("the earlier copy won: %v", at)
		}
	}},
	{"tie, of equal sequences the later address", func(r *rig) {
		r.put(0, 0)
		r.flush()
		clone := r.snapshotAt("move:copied", killed)
		r.move(0)
		r.become(*clone, indexDir) // both extents are there, and no record
		r.want(0, 0)
		if at := r.entry(0).Address.Segment; at < 2 {
			r.t.Fatalf("the earlier copy won: segment %d", at)
		}
	}},
	{"tie, the earlier copy is no block that the index lost", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.roll() // its footer lists it
		r.put(1, 1)
		r.flush()
		clone := r.snapshotAt("move:copied", killed)
		r.move(0)
		r.become(*clone, indexDir)
		r.quarantine(0)
		r.flush()
		wantNoDamage(r.t, r.mem.CrashClone(killed), "with the later copy in quarantine")
		r.want(1, 1)
		r.kill(indexDir) // the next rebuild does not take the earlier one either
		r.absent(0)
		r.want(1, 1)
	}},
	{"tie, an evicted segment is not scanned", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.roll()
		r.put(1, 1)
		clone := r.snapshotAt("evict:applied", killed)
		r.evict()
		r.become(*clone, indexDir)
		r.absent(0)
		r.want(1, 1)
	}},
	{"the highest sequence wins", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.roll()
		r.put(1, 1)
		clone := new(vfs.Mem)
		r.at["evict:applied"] = func() {
			r.putNew(0, 2)
			clone = r.mem.CrashClone(killed)
		}
		r.evict()
		r.become(clone, indexDir, logDir) // the eviction is undone, the put is not
		r.want(0, 2)
	}},
}

// Shared extents.
var aliasRules = []protocolRule{
	{"alias, its owner dropped", func(r *rig) {
		r.put(0, 0)
		r.flush()
		if p := r.put(1, 0); !p.Shared {
			r.t.Fatal("equal content was not shared")
		}
		r.drop(0)
		r.kill(indexDir)
		r.absent(0)
		r.want(1, 0)
	}},
	{"alias, dropped itself", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.put(1, 0)
		r.drop(1)
		r.kill(indexDir)
		r.want(0, 0)
		r.absent(1)
	}},
	{"alias, its target moved", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.put(1, 0)
		r.flush()
		r.move(0)
		r.flush()
		r.want(0, 0)
		r.want(1, 0)
		r.drop(0)
		r.kill(indexDir)
		r.want(1, 0)
	}},
	{"alias, dropped itself for good", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.alias(1, 0)
		r.drop(1)
		r.flush()
		r.want(0, 0)
		r.kill(indexDir, logDir)
		r.want(0, 0)
		r.absent(1)
	}},
	{"alias, its target evicted", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.roll()
		r.alias(1, 0)
		r.flush()
		r.evict()
		r.absent(1)
		r.putNew(1, 1)
		r.want(1, 1)
	}},
	{"alias, its target evicted, as only a rebuild learns", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.roll()
		r.alias(1, 0)
		r.flush()
		r.roll() // its footer lists the alias
		r.put(3, 3)
		var clone *vfs.Mem // with the EVICT in the log, and not applied yet
		r.at["evict:moved"] = func() {
			r.at["sync:between"] = func() { clone = r.mem.CrashClone(killed) }
		}
		r.at["evict:applied"] = func() { r.at["sync:between"] = nil }
		r.evict()
		r.become(clone, indexDir)
		r.absent(1)
		r.put(2, 0) // equal bytes do not bring the alias back
		r.flush()
		r.kill(indexDir)
		r.absent(1)
		r.want(2, 0)
	}},
	{"alias, its own segment evicted", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.alias(1, 0) // both in 1
		r.flush()
		r.move(0) // the bytes in 2, the page of key 1 in 1
		r.flush()
		r.want(1, 0)
		r.evict()
		r.want(0, 0)
		before := r.status(1)
		r.kill(indexDir)
		r.want(0, 0)
		if after := r.status(1); after != before {
			r.t.Fatalf("key 1 was %v, and is %v after a rebuild", before, after)
		}
	}},
	{"alias, moved under its own key", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.alias(1, 0)
		r.flush()
		r.drop(0)
		r.flush()
		r.touch(1)
		r.roll()
		r.put(2, 2)
		r.evict() // moves the bytes on under key 1, its page goes
		r.absent(0)
		r.want(1, 0)
		r.kill(indexDir)
		r.absent(0)
		r.want(1, 0)
		r.drop(1)
		r.kill(indexDir, logDir)
		r.absent(1)
	}},
	{"alias, moved under a live owner", func(r *rig) {
		r.put(1, 0)
		r.flush()
		r.roll()
		for k := 2; k < 6; k++ { // aliases sort before and behind the owner
			r.alias(k, 0)
		}
		r.flush()
		r.touch(1)
		r.evict()
		r.kill()
		for k := 1; k < 6; k++ {
			r.want(k, 0)
		}
		r.kill(indexDir)
		for k := 1; k < 6; k++ {
			r.want(k, 0)
		}
	}},
	{"alias, never across tenants", func(r *rig) {
		r.put(0, 0)
		r.flush()
		other, err := r.s.Namespace(context.Background(), testLayout(), "another tenant", NamespaceOptions{})
		if err != nil {
			r.t.Fatal(err)
		}
		if p := putOne(other, modelBlock(1, 0)); p.Status != StatusOK || p.Shared {
			r.t.Fatalf("put of the same bytes by another tenant: %+v", p)
		}
	}},
	{"shareguard", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.at["put:before-log"] = func() { r.quarantine(0) }
		p := putOne(r.n, modelBlock(1, 0))
		if p.Status != StatusShed {
			r.t.Fatalf("put that shares a quarantined extent: %v %v", p.Status, p.Err)
		}
		r.absent(0)
		r.absent(1)
		r.putNew(1, 0)
		r.kill(indexDir)
		r.want(1, 0)
		r.absent(0)
	}},
	{"shareguard, after the record is applied", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.at["put:before-log"] = func() { r.quarantine(0); r.flush() }
		if p := putOne(r.n, modelBlock(1, 0)); p.Status != StatusShed {
			r.t.Fatalf("put that shares a quarantined extent: %v %v", p.Status, p.Err)
		}
		r.putNew(1, 0)
		r.want(1, 0)
	}},
	{"shareguard, before the record is applied", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.quarantine(0)
		if p := r.putNew(1, 0); p.Shared {
			r.t.Fatal("shared with what is under quarantine")
		}
		r.want(1, 0)
		r.kill(indexDir)
		r.want(1, 0)
	}},
	{"shareguard, a quarantine cut short", func(r *rig) {
		r.put(0, 0)
		r.flush()
		var clone *vfs.Mem
		r.hook.set(func(op vfs.Op) {
			if clone == nil && op.Kind == vfs.OpWrite && strings.HasPrefix(op.Name, logDir) {
				clone = r.mem.CrashClone(killed) // behind the tombstone, before the record
			}
		})
		r.quarantine(0)
		r.hook.set(nil)
		r.become(clone)
		if p := r.putNew(1, 0); p.Shared {
			r.t.Fatal("shared with what has a quarantine's tombstone")
		}
		r.flush()
		r.kill(indexDir)
		r.want(1, 0)
	}},
	{"sharec", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.drop(0)
		r.flush()
		if p := r.putNew(0, 0); p.Shared {
			r.t.Fatal("shared with what nobody refers to")
		}
		r.kill(indexDir)
		r.want(0, 0)
	}},
	{"sharec, after a drop undone by nothing", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.drop(0)
		r.flush()
		if _, ok, err := r.s.idx.Content(context.Background(), r.s.tenantOf(r.n.info.Number), index.TagOf(r.contentID(0))); ok || err != nil {
			r.t.Fatalf("content without a referrer is remembered: %v", err)
		}
	}},
	{"sharec, after a move", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.move(0)
		r.flush()
		r.roll()
		r.put(2, 2)
		r.evict()     // the source
		r.alias(1, 0) // shares the copy
		r.want(1, 0)
		r.drop(0)
		r.kill(indexDir)
		r.want(1, 0)
	}},
	{"share, only equal bytes", func(r *rig) {
		r.put(0, 0)
		r.flush()
		err := r.s.idx.Update(context.Background(), r.s.live, func(b *index.Batch) error { // an equal id is no proof
			e, tenant := r.entry(0), r.s.tenantOf(r.n.info.Number)
			if err := b.Unbind(r.key(0), e, tenant); err != nil {
				return err
			}
			e.Content = index.TagOf(r.contentID(1))
			return errors.Join(b.Bind(r.key(0), e), b.SetContent(tenant, e.Content, e.Address))
		})
		if err != nil {
			r.t.Fatal(err)
		}
		if p := r.putNew(1, 1); p.Shared {
			r.t.Fatal("shared other bytes")
		}
		r.want(1, 1)
	}},
	{"unproven in front of an eviction", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.put(1, 1)
		r.cut([]string{logToo, segsToo})
		r.want(0, 0)
		r.want(1, 1) // whole on disk, so it is proven
	}},
}
