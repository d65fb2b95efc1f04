package engine

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// Puts, and how they are applied.
var putRules = []protocolRule{
	{"admit", func(r *rig) {
		second := make(chan PutResult, 1)
		r.at["put:before-log"] = func() {
			go func() { second <- putOne(r.n, modelBlock(0, 1)) }()
			for waiting := false; !waiting; { // until the second put has met the first
				r.s.mu.Lock()
				waiting = r.s.slots.running() > 1
				r.s.mu.Unlock()
			}
		}
		r.putNew(0, 0)
		if p := <-second; p.Status != StatusOK || !p.Existed || !p.Differs {
			r.t.Fatalf("second put: %+v", p)
		}
		r.want(0, 0)
		r.kill(indexDir)
		r.want(0, 0)
	}},
	{"admit, two in flight", func(r *rig) {
		r.at["put:before-log"] = func() {
			// The first waits for us, so the second can only give up.
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer cancel()
			p := r.n.Put(ctx, []PutBlock{modelBlock(0, 1)}, PutOptions{})[0]
			if p.Status != StatusTimeout {
				r.t.Errorf("second put, while the first is in flight: %+v", p)
			}
		}
		r.putNew(0, 0)
		r.want(0, 0)
		r.flush()
		r.want(0, 0)
		r.kill(indexDir)
		r.want(0, 0)
	}},
	{"admit, the backstop", func(r *rig) {
		r.put(0, 0)
		r.put(1, 1)
		e := r.entry(1)
		e.Seq += 10
		err := r.s.logOne(&record{Kind: recordPut, Key: r.key(0), Entry: e})
		r.s.mu.Lock()
		if seg := r.s.segs[e.Address.Segment]; seg != nil {
			seg.pending++
		}
		r.s.mu.Unlock()
		if err != nil {
			r.t.Fatal(err)
		}
		r.flush()
		r.want(0, 0) // the first wins
		ts, err := r.s.vol.ReadTombstones(e.Address.Segment)
		if err != nil || len(ts) != 1 || ts[0].Kind != disk.TombstoneDead || ts[0].Page != e.Address.Page {
			r.t.Fatalf("tombstones of the refused extent's segment: %+v %v", ts, err)
		}
	}},
	{"a group, whole or not at all", func(r *rig) {
		blocks := []PutBlock{modelBlock(0, 0), modelBlock(1, 1), modelBlock(2, 2)}
		for i, p := range r.n.Put(context.Background(), blocks, PutOptions{}) {
			if p.Status != StatusOK {
				r.t.Fatalf("put %d of a batch: %+v", i, p)
			}
		}
		r.s.syncOnce()
		r.s.applySome() // one batch of the index
		if err := r.s.idx.Flush(context.Background()); err != nil {
			r.t.Fatal(err)
		}
		r.kill()
		for k := range 3 {
			r.want(k, k)
		}
	}},
	{"applied with its position and its tombstones", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.move(0)
		r.put(1, 1)
		r.s.mu.Lock()
		end := r.s.lastRecordEndLocked()
		r.s.mu.Unlock()
		looked := 0
		r.hook.set(func(op vfs.Op) {
			if op.Kind != vfs.OpWrite || !strings.HasSuffix(op.Name, ".del") {
				return
			}
			looked++ // the applier writes tombstones: nothing of its batch is to be seen in the index
			if at, err := r.s.idx.Applied(context.Background()); err != nil || at >= uint64(end) {
				r.t.Errorf("applied up to %d of %d before the tombstones: %v", at, end, err)
			}
			found, err := r.s.idx.Get(context.Background(), []index.Key{r.key(1)}, false)
			if err != nil || found[0].OK {
				r.t.Errorf("the index has the put before the batch's tombstones: %v", err)
			}
			if r.status(1) != StatusOK {
				r.t.Errorf("a put left the overlay before the index had it")
			}
		})
		r.s.syncAndApply()
		r.hook.set(nil)
		if looked == 0 {
			r.t.Fatal("no tombstone for a moved extent")
		}
		if at, err := r.s.idx.Applied(context.Background()); err != nil || at != uint64(end) {
			r.t.Errorf("applied up to %d, want %d: %v", at, end, err)
		}
	}},
	{"epochrecheck", func(r *rig) {
		var fresh *Namespace
		r.at["put:before-log"] = func() {
			var err error
			if fresh, err = r.n.BumpEpoch(context.Background()); err != nil {
				r.t.Error(err)
			}
		}
		if p := putOne(r.n, modelBlock(0, 0)); p.Status != StatusStaleEpoch {
			r.t.Fatalf("put across a bump: %v %v", p.Status, p.Err)
		}
		r.n = fresh
		r.absent(0)
		r.kill(indexDir)
		r.absent(0)
	}},
	{"floorabsent", func(r *rig) {
		r.put(0, 0)
		r.flush()
		fresh, err := r.n.BumpEpoch(context.Background())
		if err != nil {
			r.t.Fatal(err)
		}
		r.n = fresh
		r.absent(0)
		r.putNew(0, 1)
		r.want(0, 1)
		r.flush()
		r.want(0, 1)
		r.kill(indexDir)
		r.want(0, 1)
	}},
	{"the floor is durable", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.bump()
		r.cut(nil)
		r.absent(0)
		r.kill(indexDir)
		r.absent(0)
		if err := r.s.idx.Keys(context.Background(), func(k index.KeyEntry) error {
			r.t.Errorf("a rebuilt index holds what lies under the floor: %v", k.Address)
			return nil
		}); err != nil {
			r.t.Fatal(err)
		}
	}},
}

// Drop, quarantine, tombstones.
var dropRules = []protocolRule{
	{"dropdur", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.drop(0)
		r.cut(nil)
		r.absent(0)
		r.kill(indexDir)
		r.absent(0)
	}},
	{"dropkey", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.at["drop:before-log"] = func() { r.move(0) }
		r.drop(0)
		r.absent(0)
		r.kill()
		r.absent(0)
		r.kill(indexDir)
		r.absent(0)
	}},
	{"tombseq", func(r *rig) {
		r.put(0, 0)
		r.flush()
		clone := r.snapshotAt("move:copied", vfs.CrashOptions{KeepAll: true})
		r.move(0)
		r.become(*clone) // a copy that no record knows
		r.want(0, 0)
		r.drop(0)
		r.kill(indexDir)
		r.absent(0)
	}},
	{"tombseq, a copy elsewhere", func(r *rig) {
		r.put(0, 0)
		r.flush()
		var clone *vfs.Mem
		r.at["move:copied"] = func() { // no record knows the copy, and no tombstone beside it
			r.drop(0)
			clone = r.mem.CrashClone(killed)
		}
		r.move(0)
		r.become(clone, indexDir)
		r.absent(0)
	}},
	{"a tombstone before its record", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.roll()
		r.s.syncAndSeal() // with a footer that lists the extent
		r.crashAnywhere([]vfs.CrashOptions{killed, plainCut, logKept, segsKept}, func() { r.drop(0) }, func(r *rig) {
			if r.status(0) == StatusOK {
				return
			}
			r.kill(indexDir) // gone once is gone for good
			r.absent(0)
		})
	}},
	{"a tombstone before its record, in the page cache only", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.put(1, 1)
		r.flush()
		var clone *vfs.Mem
		r.hook.set(func(op vfs.Op) {
			if clone == nil && op.Kind == vfs.OpSync && strings.HasSuffix(op.Name, ".del") {
				clone = r.mem.CrashClone(cached)
			}
		})
		r.drop(0)
		r.hook.set(nil)
		mustClose(r.t, r.s)
		r.mem = clone
		var mu sync.Mutex
		var wrecks []*vfs.Mem
		r.hook.set(func(op vfs.Op) {
			mu.Lock()
			defer mu.Unlock()
			if op.Mutates() {
				wrecks = append(wrecks, r.mem.CrashClone(plainCut))
			}
		})
		r.open() // finishes the drop, and gives the segment a footer without it
		r.hook.set(nil)
		r.absent(0)
		mu.Lock() // the index may still be about an operation of its own
		defer mu.Unlock()
		for i, w := range wrecks {
			wantNoDamage(r.t, w, fmt.Sprintf("power cut %d of %d in Open", i, len(wrecks)))
		}
	}},
	{"deadtomb, a refused move", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.at["move:copied"] = func() { r.drop(0) }
		r.move(0)
		r.flush()
		r.put(1, 1) // so that there are two segments
		r.evict()
		r.kill(indexDir)
		r.absent(0)
	}},
	{"deadtomb, a shed put", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.at["put:before-log"] = func() { r.quarantine(0) }
		if p := putOne(r.n, modelBlock(1, 0)); p.Status != StatusShed {
			r.t.Fatalf("put that shares a quarantined extent: %v %v", p.Status, p.Err)
		}
		r.flush()
		r.putNew(2, 0) // bytes that the refused alias could come back with
		r.kill(indexDir)
		r.want(2, 0)
		r.absent(0)
		r.absent(1)
	}},
	{"deadtomb, a put shed by a bump", func(r *rig) {
		r.at["put:before-log"] = func() {
			if _, err := r.n.BumpEpoch(context.Background()); err != nil {
				r.t.Error(err)
			}
		}
		_ = putOne(r.n, modelBlock(0, 0))
		r.kill(indexDir, logDir)
		r.absent(0)
	}},
	{"deadtomb, a moved source", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.move(0)
		r.flush()
		r.quarantine(0) // the copy
		r.flush()
		r.absent(0)
		r.kill(indexDir)
		r.absent(0)
	}},
	{"deadtomb, moved before its drop", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.at["drop:before-log"] = func() { r.move(0) }
		r.drop(0)
		r.flush()
		r.put(1, 1)
		r.evict() // with the sidecar that the drop wrote to
		r.kill(indexDir)
		r.absent(0)
	}},
	{"deadtomb, the page of a moved alias", func(r *rig) {
		r.put(9, 9)
		r.flush()
		r.roll()
		r.move(9) // makes the segment of moved blocks, 2
		r.flush()
		r.put(0, 0) // in 3
		r.flush()
		r.alias(1, 0)
		r.drop(0)
		r.flush()
		r.move(1) // into 2
		r.flush()
		r.evict()
		r.evict() // 2
		r.absent(1)
		r.putNew(2, 0)
		r.flush()
		r.kill(indexDir)
		r.want(2, 0)
		r.absent(1)
	}},
	{"deadtomb, the page of an alias whose target is evicted", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.roll()
		r.alias(1, 0)
		r.flush()
		r.evict()
		r.absent(0)
		r.absent(1)
		r.putNew(2, 0)
		r.flush()
		r.kill(indexDir)
		r.want(2, 0)
		r.absent(1)
	}},
	{"deadtomb, the page of an alias whose target is quarantined", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.alias(1, 0)
		r.flush()
		r.quarantine(0)
		r.flush()
		r.absent(1)
		r.putNew(2, 0)
		r.flush()
		r.kill(indexDir)
		r.want(2, 0)
		r.absent(0)
		r.absent(1)
	}},
	{"quarantine takes all referrers", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.put(1, 0)
		r.flush()
		r.quarantine(1)
		r.absent(0)
		r.absent(1)
		r.flush()
		r.kill(indexDir)
		r.absent(0)
		r.absent(1)
	}},
	{"quarantine, cut short", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.alias(1, 0)
		r.flush()
		r.crashAnywhere([]vfs.CrashOptions{killed, plainCut, logKept, segsKept}, func() { r.quarantine(0); r.flush() }, func(r *rig) {
			if a, b := r.status(0), r.status(1); a != b {
				r.t.Fatalf("%skey 0 is %v, key 1 of the same bytes is %v", r.where, a, b)
			}
			if r.status(0) == StatusMiss {
				r.kill(indexDir)
				r.absent(0)
				r.absent(1)
			}
		})
	}},
	{"quarantine, of an address left behind", func(r *rig) {
		r.put(0, 0)
		r.flush()
		e := r.entry(0)
		r.move(0)
		r.s.quarantine(r.key(0), e, "late") // of the bytes that were read before the move
		r.flush()
		r.want(0, 0)
	}},
	{"overlayseq", func(r *rig) {
		r.put(0, 0)
		r.at["drop:before-log"] = func() {
			r.drop(0)
			r.putNew(0, 1)
		}
		r.drop(0) // its record stands behind the newer put
		r.want(0, 1)
		r.flush()
		r.want(0, 1)
		r.kill(indexDir)
		r.want(0, 1)
	}},
	{"dirent", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.crash(vfs.CrashOptions{}) // no unsynced name survives
		r.want(0, 0)
		r.drop(0)
		r.crash(vfs.CrashOptions{}, indexDir)
		r.absent(0)
	}},
}
