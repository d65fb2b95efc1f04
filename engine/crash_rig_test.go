package engine

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/wal"
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
	// where says which of many crashes this is, for messages.
	where string
	// only and losses, if set, narrow down where crashAnywhere crashes and
	// what it loses.
	only   func(vfs.Op) bool
	losses []string
	// drops, if set, is asked at each point of a drop, in its goroutine.
	drops func(point string)
	hook  hookSlot
}

// hookSlot holds what runs before each operation of the file system; the
// index's own goroutines come by too.
type hookSlot struct {
	mu sync.Mutex
	fn func(vfs.Op)
}

func (h *hookSlot) set(fn func(vfs.Op)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fn = fn
}

func (h *hookSlot) run(op vfs.Op) {
	h.mu.Lock()
	fn := h.fn
	h.mu.Unlock()
	if fn != nil {
		fn(op)
	}
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, mem: vfs.NewMem()}
	r.open()
	return r
}

func (r *rig) open() {
	r.t.Helper()
	r.at = map[string]func(){}
	o := modelOptions(vfs.WithHook(r.mem, func(op vfs.Op) error { r.hook.run(op); return nil }))
	o.private.points = func(p string) {
		if strings.HasPrefix(p, "drop:") && r.drops != nil {
			r.drops(p)
			return
		}
		if fn := r.at[p]; fn != nil {
			delete(r.at, p)
			fn()
		}
	}
	r.s = mustOpen(r.t, o)
	r.s.fillHint() // reads go by the complete table from here on
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
		r.lose(dir)
	}
	r.open()
	checkIndex(r.t, r.s, r.where+"after the crash")
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
		r.t.Fatalf(r.where+"put key %d: %v %v", k, p.Status, p.Err)
	}
	return p
}

// putNew is a put that must not find the key stored.
func (r *rig) putNew(k, content int) PutResult {
	r.t.Helper()
	p := r.put(k, content)
	if p.Existed {
		r.t.Fatalf(r.where+"put key %d: refused as stored, and the get misses", k)
	}
	return p
}

func (r *rig) drop(k int) {
	r.t.Helper()
	if d := r.n.Drop(context.Background(), [][]byte{hashOf(k)})[0]; d.Status != StatusOK {
		r.t.Fatalf(r.where+"drop key %d: %v %v", k, d.Status, d.Err)
	}
}

func (r *rig) flush() { r.t.Helper(); mustFlush(r.t, r.s) }

func (r *rig) evict() {
	r.t.Helper()
	if ok, err := r.s.EvictOnce(context.Background()); err != nil || !ok {
		r.t.Fatalf(r.where+"evict: %v %v", ok, err)
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
		r.t.Fatalf(r.where+"key %d is not there: %v", k, err)
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
		r.t.Fatalf(r.where+"move key %d: %v", k, err)
	}
}

func (r *rig) quarantine(k int) {
	r.t.Helper()
	r.s.quarantine(r.key(k), r.entry(k), "test")
}

func (r *rig) want(k, content int) {
	r.t.Helper()
	if got, status := readContent(r.n, k); status != StatusOK || got != content {
		r.t.Fatalf(r.where+"key %d: status %v content %d, want content %d", k, status, got, content)
	}
}

func (r *rig) absent(k int) {
	r.t.Helper()
	if got, status := readContent(r.n, k); status != StatusMiss && status != StatusCorrupt {
		r.t.Fatalf(r.where+"key %d: status %v content %d, want a miss", k, status, got)
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

// wreck is a store as one crash of many left it.
type wreck struct {
	fs   *vfs.Mem
	name string
}

// The ways to crash at one instant.
var (
	killed   = vfs.CrashOptions{KeepAll: true}
	cached   = vfs.CrashOptions{KeepAll: true, KeepUnsynced: true}
	plainCut = vfs.CrashOptions{KeepNames: 1}
	logKept  = cutOptions([]string{logToo})
	segsKept = cutOptions([]string{segsToo})
)

// namesCuts are power cuts that keep all bytes and some of the changes of
// names.
func namesCuts() (out []vfs.CrashOptions) {
	for seed := range uint64(4) {
		out = append(out, vfs.CrashOptions{Seed: seed, KeepBytes: 1, KeepNames: 0.5})
	}
	return append(out, vfs.CrashOptions{KeepBytes: 1})
}

// crashAnywhere does something and crashes the store before each of the
// operations that it takes, and after the last. check is given each of the
// wrecks, opened, also with its index lost and with its log lost.
func (r *rig) crashAnywhere(modes []vfs.CrashOptions, do func(), check func(*rig)) {
	r.t.Helper()
	var mu sync.Mutex
	var wrecks []wreck
	collect := func(name string) {
		mu.Lock()
		defer mu.Unlock()
		for i, m := range modes {
			wrecks = append(wrecks, wreck{r.mem.CrashClone(m), fmt.Sprintf("crash %d before %s: ", i, name)})
		}
	}
	r.hook.set(func(op vfs.Op) {
		if op.Mutates() && (r.only == nil || r.only(op)) {
			collect(op.String())
		}
	})
	do()
	r.hook.set(nil)
	collect("the next operation")
	losses := r.losses
	if losses == nil {
		losses = []string{"", indexDir, logDir}
	}
	for _, w := range wrecks {
		for _, lost := range losses {
			again := &rig{t: r.t, mem: w.fs.CrashClone(vfs.CrashOptions{KeepAll: true, KeepUnsynced: true}), where: w.name + "lost " + lost + ": "}
			if lost != "" {
				again.lose(lost)
			}
			again.open()
			checkIndex(r.t, again.s, again.where)
			check(again)
			mustClose(r.t, again.s)
		}
	}
}

// crashOpen crashes the store, and the Open that follows anywhere.
func (r *rig) crashOpen(first vfs.CrashOptions, modes []vfs.CrashOptions, check func(*rig)) {
	r.t.Helper()
	clone := r.mem.CrashClone(first)
	mustClose(r.t, r.s)
	r.mem = clone
	r.crashAnywhere(modes, r.open, check)
}

// lose removes a directory for good.
func (r *rig) lose(dir string) {
	r.t.Helper()
	if err := r.mem.RemoveAll(dir); err != nil {
		r.t.Fatal(err)
	}
	if err := r.mem.SyncDir("."); err != nil {
		r.t.Fatal(err)
	}
}

// status is what a get says, Miss and Corrupt being the same to a caller.
func (r *rig) status(k int) Status {
	_, st := readContent(r.n, k)
	return st
}

// absentOr wants a key to hold a content or nothing; if nothing, a put must
// be able to store it.
func (r *rig) absentOr(k, content int) {
	r.t.Helper()
	if r.status(k) == StatusOK {
		r.want(k, content)
		return
	}
	r.putNew(k, content)
	r.want(k, content)
}

// noRebuild wants the last Open to have found its index and its log.
func (r *rig) noRebuild() {
	r.t.Helper()
	if r.s.rebuilds != 0 {
		r.t.Fatalf("%sthe index was rebuilt, and nothing was lost", r.where)
	}
}

// alias puts a key that must share the bytes of another.
func (r *rig) alias(k, content int) {
	r.t.Helper()
	if p := r.putNew(k, content); !p.Shared {
		r.t.Fatalf(r.where+"key %d: equal content was not shared", k)
	}
}

func (r *rig) bump() {
	r.t.Helper()
	fresh, err := r.n.BumpEpoch(context.Background())
	if err != nil {
		r.t.Fatalf(r.where+"bump: %v", err)
	}
	r.n = fresh
}

func (r *rig) touch(k int) { r.n.Touch(context.Background(), [][]byte{hashOf(k)}) }

// contentID is the content id of what a key would be put with.
func (r *rig) contentID(content int) [16]byte {
	p := modelBytes()[content]
	return SealOf(p[:modelBlockBytes/3], p[modelBlockBytes/3:]).ContentID
}

// fillLog appends empty groups until the log goes on in another file.
func (r *rig) fillLog() {
	r.t.Helper()
	size := wal.LSN(r.s.room.logFileBytes)
	for start := r.s.log.End(); r.s.log.End()-start < size+size/4; {
		if err := r.s.log.AppendMark(); err != nil {
			r.t.Fatal(err)
		}
	}
}
