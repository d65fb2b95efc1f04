package engine

import (
	"context"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/vfs"
)

// rig runs one trace of docs/protocol.md by hand: one store at a time, each
// crash leads to the next.
type rig struct {
	t   *testing.T
	mem *vfs.Mem
	s   *Store
	n   *Namespace
	// at runs when the store passes a named point, once.
	at map[string]func()
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, mem: vfs.NewMem()}
	r.open()
	return r
}

func (r *rig) open() {
	r.t.Helper()
	r.at = map[string]func(){}
	o := modelOptions(r.mem)
	o.private.points = func(p string) {
		if fn := r.at[p]; fn != nil {
			delete(r.at, p)
			fn()
		}
	}
	r.s = mustOpen(r.t, o)
	r.n = mustSpace(r.t, r.s)
}

// crash ends the store and opens what is left; the old store is closed on a
// tree of its own, where it harms nobody.
func (r *rig) crash(o vfs.CrashOptions, lose ...string) {
	r.t.Helper()
	r.become(r.mem.CrashClone(o), lose...)
}

// become opens a clone that was taken earlier.
func (r *rig) become(clone *vfs.Mem, lose ...string) {
	r.t.Helper()
	mustClose(r.t, r.s)
	r.mem = clone
	for _, dir := range lose {
		if err := clone.RemoveAll(dir); err != nil {
			r.t.Fatal(err)
		}
		if err := clone.SyncDir("."); err != nil {
			r.t.Fatal(err)
		}
	}
	r.open()
	checkIndex(r.t, r.s, "after the crash")
}

func (r *rig) kill(lose ...string) { r.t.Helper(); r.crash(vfs.CrashOptions{KeepAll: true}, lose...) }

// cut is a power cut after which only the unsynced bytes of files under the
// given directories are there.
func (r *rig) cut(keep []string, lose ...string) { r.t.Helper(); r.crash(cutOptions(keep), lose...) }

func cutOptions(keep []string) vfs.CrashOptions {
	return vfs.CrashOptions{KeepNames: 1, KeepFile: func(name string) bool {
		for _, dir := range keep {
			if strings.HasPrefix(name, dir+"/") {
				return true
			}
		}
		return false
	}}
}

func (r *rig) put(k, content int) PutResult {
	r.t.Helper()
	p := r.n.Put(context.Background(), []PutBlock{modelBlock(k, content)}, PutOptions{})[0]
	if p.Status != StatusOK {
		r.t.Fatalf("put key %d: %v %v", k, p.Status, p.Err)
	}
	return p
}

// putNew is a put that must not find the key stored.
func (r *rig) putNew(k, content int) PutResult {
	r.t.Helper()
	p := r.put(k, content)
	if p.Existed {
		r.t.Fatalf("put key %d: refused as stored, and the get misses", k)
	}
	return p
}

func (r *rig) drop(k int) {
	r.t.Helper()
	if d := r.n.Drop(context.Background(), [][]byte{hashOf(k)})[0]; d.Status != StatusOK {
		r.t.Fatalf("drop key %d: %v %v", k, d.Status, d.Err)
	}
}

func (r *rig) flush() { r.t.Helper(); mustFlush(r.t, r.s) }

func (r *rig) evict() {
	r.t.Helper()
	if ok, err := r.s.EvictOnce(context.Background()); err != nil || !ok {
		r.t.Fatalf("evict: %v %v", ok, err)
	}
}

// roll makes the next extent go to a new segment.
func (r *rig) roll() {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	for _, seg := range r.s.active {
		if seg != nil {
			r.s.retireLocked(seg)
		}
	}
}

func (r *rig) entry(k int) index.Entry {
	r.t.Helper()
	found, err := r.s.lookup(context.Background(), []index.Key{r.key(k)}, false)
	if err != nil || !found[0].ok {
		r.t.Fatalf("key %d is not there: %v", k, err)
	}
	return found[0].entry
}

func (r *rig) key(k int) index.Key {
	return index.Key{Namespace: r.n.info.Number, Hash: string(hashOf(k))}
}

// move copies a key's extent on, as an eviction pass would.
func (r *rig) move(k int) {
	r.t.Helper()
	e := r.entry(k)
	if err := r.s.copyOn(context.Background(), &candidate{key: index.KeyEntry{Key: r.key(k), Entry: e}, keys: 1}); err != nil {
		r.t.Fatalf("move key %d: %v", k, err)
	}
}

func (r *rig) quarantine(k int) {
	r.t.Helper()
	r.s.quarantine(r.key(k), r.entry(k), "test")
}

func (r *rig) want(k, content int) {
	r.t.Helper()
	if got, status := readContent(r.n, k); status != StatusOK || got != content {
		r.t.Fatalf("key %d: status %v content %d, want content %d", k, status, got, content)
	}
}

func (r *rig) absent(k int) {
	r.t.Helper()
	if got, status := readContent(r.n, k); status != StatusMiss && status != StatusCorrupt {
		r.t.Fatalf("key %d: status %v content %d, want a miss", k, status, got)
	}
}

// snapshotAt takes a clone when the store passes a point.
func (r *rig) snapshotAt(point string, o vfs.CrashOptions) **vfs.Mem {
	var clone *vfs.Mem
	r.at[point] = func() { clone = r.mem.CrashClone(o) }
	return &clone
}

const (
	logToo  = logDir
	segsToo = "segments"
)

// Each rule of the protocol, by the shortest history that breaks a store
// without it.
var protocolRules = []struct {
	rule string
	run  func(*rig)
}{
	{"mark", func(r *rig) {
		r.put(0, 0)
		r.at["sync:between"] = func() { r.put(1, 1) } // after the segments, before the log
		r.s.syncOnce()
		r.cut([]string{logToo})
		r.want(0, 0)
		r.absent(1)
		r.putNew(1, 2)
		r.want(1, 2)
	}},
	{"void", func(r *rig) {
		r.put(0, 0)
		r.cut([]string{logToo}) // the frame is there, the extent is not
		r.absent(0)
		r.putNew(0, 1)
		r.kill()
		r.want(0, 1)
	}},
	{"footer", func(r *rig) {
		r.put(0, 0)
		r.cut(nil)
		r.absent(0)
		r.putNew(0, 1)
		r.kill(logDir)
		r.want(0, 1)
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
	{"rebverify", func(r *rig) {
		r.put(0, 0)
		r.crash(vfs.CrashOptions{Seed: 3, KeepBytes: 0.5, KeepNames: 1, TornSectorBytes: 512}, logDir)
		if _, status := readContent(r.n, 0); status == StatusMiss {
			r.putNew(0, 1)
			r.want(0, 1)
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
	{"admit", func(r *rig) {
		second := make(chan PutResult, 1)
		r.at["put:before-log"] = func() {
			go func() { second <- putOne(r.n, modelBlock(0, 1)) }()
			for waiting := false; !waiting; { // until the second put has met the first
				r.s.mu.Lock()
				waiting = len(r.s.slots) > 1
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
		r.at["put:before-log"] = func() {
			if _, err := r.n.BumpEpoch(context.Background()); err != nil {
				r.t.Error(err)
			}
		}
		_ = putOne(r.n, modelBlock(0, 0))
		r.kill(indexDir, logDir)
		r.absent(0)
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
	{"trimevict", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.roll()
		r.put(1, 1)
		r.at["evict:applied"] = func() { // the index is flushed, the unlink is not yet done
			if err := r.s.idx.Flush(context.Background()); err != nil {
				r.t.Error(err)
			}
			r.s.trim()
			r.at["evict:applied"] = nil
		}
		clone := r.snapshotAt("evict:moved", vfs.CrashOptions{})
		_ = clone
		r.evict()
		r.cut(nil, indexDir)
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
	{"unproven in front of an eviction", func(r *rig) {
		r.put(0, 0)
		r.flush()
		r.put(1, 1)
		r.cut([]string{logToo, segsToo})
		r.want(0, 0)
		r.want(1, 1) // whole on disk, so it is proven
	}},
}

func TestLaw3Rules(t *testing.T) {
	for _, c := range protocolRules {
		t.Run(c.rule, func(t *testing.T) {
			r := newRig(t)
			c.run(r)
			mustClose(t, r.s)
		})
	}
}

// TestLaw3EveryOperation crashes one history before each of its operations,
// and the Open that follows before each of its own.
func TestLaw3EveryOperation(t *testing.T) {
	modes := []vfs.CrashOptions{
		{KeepAll: true},
		{},
		{Seed: 1, KeepBytes: 0.5, KeepNames: 0.5, TornSectorBytes: 512},
		{Seed: 2, KeepBytes: 0.5, KeepNames: 1, TornSectorBytes: 4096},
		cutOptions([]string{logToo}),
		cutOptions([]string{segsToo}),
	}
	if !fullTests {
		modes = []vfs.CrashOptions{modes[0], modes[2], modes[4]}
	}
	step := uint64(1)
	if !fullTests {
		step = 7 // of the operations of Open after the crash
	}
	for m, mode := range modes {
		for k := uint64(1); k <= everyOperationMax; k++ {
			crashTwice(t, m, crashPlan{at: k, options: mode}, step)
		}
	}
}

// everyOperationMax bounds the operations of the short history.
const everyOperationMax = 90
