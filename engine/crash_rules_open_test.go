package engine

import (
	"context"
	"strings"
	"time"

	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/wal"
)

// Durability and Open.
var openRules = []protocolRule{
	{"mark", func(r *rig) {
		r.put(0, 0)
		r.at["sync:between"] = func() { r.put(1, 1) } // after the segments, before the log
		r.s.syncOnce()
		r.put(2, 2) // its frame carries the mark
		r.cut([]string{logToo})
		r.want(0, 0)
		r.absent(1)
		r.putNew(1, 2)
		r.want(1, 2)
	}},
	{"mark, of a quiet log", func(r *rig) {
		var q quiet
		now := r.s.o.private.now()
		r.put(0, 0)
		for i := range 3 { // nothing is synced, whatever time goes by
			r.s.markWhenQuiet(&q, now.Add(time.Duration(i)*2*quietTime))
		}
		if p := r.put(0, 0); !p.Existed || p.Durable {
			r.t.Fatalf("second put: %+v, and nothing was synced", p)
		}
	}},
	{"sync, segments and log", func(r *rig) {
		p := r.n.Put(context.Background(), []PutBlock{modelBlock(0, 0)}, PutOptions{Durable: true})[0]
		if p.Status != StatusOK || !p.Durable {
			r.t.Fatalf("durable put: %+v", p)
		}
		r.cut(nil)
		r.want(0, 0)
		r.noRebuild()
	}},
	{"apply, below the mark only", func(r *rig) {
		r.put(0, 0)
		r.s.applyAll()
		if err := r.s.idx.Flush(context.Background()); err != nil {
			r.t.Fatal(err)
		}
		r.cut([]string{logToo})
		r.absent(0)
		r.putNew(0, 1)
	}},
	{"void", func(r *rig) {
		r.put(0, 0)
		r.cut([]string{logToo}) // the frame is there, the extent is not
		r.absent(0)
		r.putNew(0, 1)
		r.kill()
		r.want(0, 1)
	}},
	{"void, the order in Open", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.put(1, 1)
		r.drop(0)
		r.put(2, 2)
		n := 0
		r.crashOpen(killed, []vfs.CrashOptions{killed, plainCut}, func(r *rig) {
			r.absent(0)
			r.want(1, 1)
			r.want(2, 2)
			if n++; n%3 == 1 { // neither index nor log was lost
				r.noRebuild()
			}
		})
	}},
	{"void, what is left of the old log is not needed", func(r *rig) {
		r.put(0, 0)
		r.kill()
		r.drop(0)
		r.putNew(0, 1)
		r.kill()
		r.want(0, 1)
		r.noRebuild()
		if files, err := r.mem.List(logDir); err != nil || len(files) != 1 {
			r.t.Fatalf("files of the log after Open: %v %v", files, err)
		}
	}},
	{"a log without its beginning", func(r *rig) {
		r.put(0, 0)
		left := r.mem.CrashClone(killed)
		for i := range 4 {
			r.put(1+i, 1)
		}
		end := r.s.log.End()
		mustClose(r.t, r.s)
		if err := left.RemoveAll(logDir); err != nil {
			r.t.Fatal(err)
		}
		o := r.s.logOptions()
		o.FS = left
		log, err := wal.Create(o, end)
		if err == nil {
			err = log.Close()
		}
		if err != nil {
			r.t.Fatal(err)
		}
		r.mem = left
		r.open()
		r.want(0, 0) // not in the index, and its record is gone
	}},
	{"proven, a torn extent", func(r *rig) {
		r.put(0, 0)
		r.put(1, 1)
		left := r.mem.CrashClone(cached)
		for seed := range uint64(40) {
			again := &rig{t: r.t, mem: left.CrashClone(vfs.CrashOptions{Seed: seed, KeepBytes: 0.8, KeepNames: 1, TornSectorBytes: 4096})}
			again.open()
			checkIndex(r.t, again.s, "after the cut")
			again.absentOr(0, 0)
			again.absentOr(1, 1)
			mustClose(r.t, again.s)
		}
	}},
	{"proven, an alias without its own page", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.roll()
		r.alias(1, 0)
		r.cut([]string{logToo})
		r.want(0, 0)
		r.absent(1)
		r.putNew(1, 0)
		r.kill(indexDir)
		r.want(1, 0)
	}},
	{"proven, a move without its copy", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.move(0)
		r.cut([]string{logToo})
		r.want(0, 0)
		r.kill(indexDir)
		r.want(0, 0)
	}},
	{"proven, more than a memtable", func(r *rig) {
		// The page cache outlives a kill: what Open judges by it must be made
		// durable before the index, which flushes by itself, refers to it.
		r.put(0, 0)
		r.flush()
		const keys = 330
		for i := range keys {
			r.alias(100+i, 0)
		}
		r.only = func(op vfs.Op) bool { return op.Kind == vfs.OpSync && strings.HasPrefix(op.Name, "index/") }
		r.losses = []string{""}
		r.crashOpen(cached, []vfs.CrashOptions{plainCut}, func(r *rig) {
			r.want(0, 0)
			for _, i := range []int{0, keys / 2, keys - 1} {
				r.absentOr(100+i, 0)
			}
		})
	}},
	{"proven, by a log that is durable", func(r *rig) {
		r.put(0, 0)
		r.crashOpen(cached, []vfs.CrashOptions{plainCut, segsKept}, func(r *rig) {
			if r.status(0) != StatusOK { // then for good: no footer may list it
				r.kill(indexDir)
				r.absent(0)
			}
		})
	}},
	{"footer", func(r *rig) {
		r.put(0, 0)
		r.cut(nil)
		r.absent(0)
		r.putNew(0, 1)
		r.kill(logDir)
		r.want(0, 1)
	}},
	{"footer, an orphan", func(r *rig) {
		clone := r.snapshotAt("put:before-log", killed)
		r.put(0, 0)
		r.become(*clone) // an extent that no record knows
		r.absent(0)
		r.kill(indexDir)
		r.absent(0)
	}},
	{"footer, an alias", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.alias(1, 0)
		r.kill()
		r.kill(indexDir)
		r.want(0, 0)
		r.want(1, 0)
	}},
	{"footsync", func(r *rig) {
		r.put(0, 0)
		r.roll()
		r.put(1, 1)
		r.s.sealRetired()
		r.cut([]string{logToo}, logDir)
		r.absent(0)
		r.putNew(0, 2)
		r.want(0, 2)
	}},
	{"footsync, a crash while sealing", func(r *rig) {
		r.put(0, 0)
		r.put(1, 1)
		r.s.syncAndApply()
		r.put(2, 2)
		r.roll()
		modes := []vfs.CrashOptions{killed, plainCut, segsKept}
		for seed := range uint64(4) {
			modes = append(modes, vfs.CrashOptions{Seed: seed, KeepBytes: 0.5, KeepNames: 0.5, TornSectorBytes: 4096})
		}
		r.crashAnywhere(modes, r.s.syncAndSeal, func(r *rig) {
			r.want(0, 0)
			r.want(1, 1)
			r.absentOr(2, 2)
		})
	}},
	{"seqext and seqtomb", func(r *rig) {
		r.put(0, 0)
		clone := r.snapshotAt("drop:before-log", cutOptions(nil))
		r.drop(0)
		r.become(*clone)
		r.absent(0)
		r.putNew(0, 1)
		r.kill(logDir)
		r.want(0, 1)
	}},
	{"seqext, an extent that no record knows", func(r *rig) {
		clone := r.snapshotAt("put:before-log", killed)
		r.put(0, 0)
		r.become(*clone)
		r.absent(0)
		p := r.putNew(1, 1)
		_ = p
		if orphan, fresh := uint64(1), r.entry(1).Seq; fresh <= orphan {
			r.t.Fatalf("sequence %d after %d was on disk", fresh, orphan)
		}
	}},
	{"seqfloor", func(r *rig) {
		r.put(0, 0)
		if _, err := r.n.BumpEpoch(context.Background()); err != nil {
			r.t.Fatal(err)
		}
		r.cut(nil)
		r.absent(0)
		r.putNew(0, 1)
		r.kill(indexDir)
		r.want(0, 1)
	}},
	{"segment ids", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.roll()
		r.put(1, 1)
		r.flush()
		r.roll()
		r.put(2, 2)
		last := r.entry(2).Address.Segment
		r.evict()
		r.cut(nil)
		r.put(3, 3)
		if id := r.entry(3).Address.Segment; id <= last {
			r.t.Fatalf("segment %d after %d", id, last)
		}
	}},
	{"rebverify", func(r *rig) {
		r.put(0, 0)
		r.crash(vfs.CrashOptions{Seed: 3, KeepBytes: 0.5, KeepNames: 1, TornSectorBytes: 512}, logDir)
		if _, status := readContent(r.n, 0); status == StatusMiss {
			r.putNew(0, 1)
			r.want(0, 1)
		}
	}},
	{"rebverify, torn in many ways", func(r *rig) {
		r.put(0, 0)
		r.put(1, 1)
		left := r.mem.CrashClone(cached)
		for seed := range uint64(40) {
			again := &rig{t: r.t, mem: left.CrashClone(vfs.CrashOptions{Seed: seed, KeepBytes: 0.8, KeepNames: 1, TornSectorBytes: 4096})}
			again.lose(logDir)
			again.open()
			checkIndex(r.t, again.s, "after the cut")
			again.absentOr(0, 0)
			again.absentOr(1, 1)
			mustClose(r.t, again.s)
		}
	}},
	{"rebatomic", func(r *rig) {
		r.put(0, 0)
		r.flush()
		left := r.mem.CrashClone(vfs.CrashOptions{KeepAll: true})
		if err := left.RemoveAll(logDir); err != nil {
			r.t.Fatal(err)
		}
		for k := uint64(1); ; k++ { // a crash before each operation of the rebuild
			mem := left.CrashClone(vfs.CrashOptions{KeepAll: true})
			var clone *vfs.Mem
			o := modelOptions(vfs.WithHook(mem, func(op vfs.Op) error {
				if op.Mutates() && op.Index == k {
					clone = mem.CrashClone(vfs.CrashOptions{KeepAll: true})
				}
				return nil
			}))
			mustClose(r.t, mustOpen(r.t, o))
			if clone == nil {
				return
			}
			again := &rig{t: r.t, mem: clone}
			again.open()
			again.want(0, 0)
			mustClose(r.t, again.s)
		}
	}},
	{"rebatomic, a whole index counts", func(r *rig) {
		r.put(0, 0)
		r.kill(indexDir)
		if r.s.rebuilds != 1 {
			r.t.Fatal("a lost index was not rebuilt")
		}
		r.cut(nil)
		r.noRebuild()
		r.want(0, 0)
	}},
}
