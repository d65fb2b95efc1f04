package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// crashModel is what a store must hold, kept beside it by a driver that does
// one operation at a time. At any instant, also in the middle of a call, it
// tells for each key which contents may be found.
type crashModel struct {
	mu   sync.Mutex
	keys map[int]*modelKey
}

// modelKey is the knowledge of one key.
type modelKey struct {
	set     bool // acknowledged and not dropped since
	content int
	durable bool // acknowledged as surviving a power cut
	mayMiss bool // evicted, or quarantined with another key's bytes: absence is allowed
	// dropTried: a drop or quarantine of this put ended without an answer; it
	// may take effect at any later crash (its tombstone is there), or never.
	dropTried bool
	gone      bool // known to be evicted: it must not come back
	// An operation under way.
	putting  int // content, or -1
	dropping bool
	bumping  bool
	// orphans are contents of puts that ended without an answer: they may turn
	// up until a later put or drop of the key is acknowledged.
	orphans map[int]bool
}

func newModel(keys int) *crashModel {
	m := &crashModel{keys: map[int]*modelKey{}}
	for k := range keys {
		m.keys[k] = &modelKey{putting: -1, orphans: map[int]bool{}}
	}
	return m
}

func (m *crashModel) with(k int, fn func(*modelKey)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fn(m.keys[k])
}

func (m *crashModel) all(fn func(*modelKey)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.keys {
		fn(k)
	}
}

// snapshot is what may be found if the store crashes now; kill says that the
// page cache survives.
func (m *crashModel) snapshot(kill bool) *crashModel {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &crashModel{keys: map[int]*modelKey{}}
	for i, k := range m.keys {
		n := &modelKey{putting: -1, orphans: map[int]bool{}}
		for o := range k.orphans {
			n.orphans[o] = true
		}
		n.set, n.content, n.gone = k.set, k.content, k.gone
		n.dropTried = k.dropTried || k.dropping
		n.mayMiss = k.mayMiss || n.dropTried || k.bumping || !kill && !k.durable
		if k.putting >= 0 && !k.set {
			n.orphans[k.putting] = true
			n.gone = false
		}
		c.keys[i] = n
	}
	return c
}

// check compares a store with the model and takes over what it finds: after
// an Open, what is visible is a fact.
func (m *crashModel) check(t *testing.T, s *Store, n *Namespace, lostLog bool, where string) {
	t.Helper()
	for i, k := range m.keys {
		got, status := readContent(n, i)
		if status != StatusOK && status != StatusMiss {
			t.Fatalf("%s: key %d: status %v: nothing rots here", where, i, status)
		}
		if has := n.Has(context.Background(), [][]byte{hashOf(i)})[0]; has != status {
			t.Fatalf("%s: key %d: Has says %v, Get %v", where, i, has, status)
		}
		switch {
		case status == StatusMiss:
			if k.set && !k.mayMiss {
				t.Fatalf("%s: key %d: content %d was acknowledged and is missing", where, i, k.content)
			}
			k.set, k.orphans = false, map[int]bool{}
		case k.set && got == k.content:
			if k.gone && !lostLog {
				t.Fatalf("%s: key %d: evicted content %d returned", where, i, got)
			}
		case (!k.set || k.mayMiss) && k.orphans[got]:
			k.set, k.content = true, got
		default:
			t.Fatalf("%s: key %d: found content %d; acknowledged: %v (content %d), orphans %v", where, i, got, k.set, k.content, k.orphans)
		}
		k.orphans = map[int]bool{}
		k.durable, k.mayMiss, k.gone, k.dropping, k.bumping, k.putting = k.set, false, false, false, false, -1
		k.dropTried = k.dropTried && k.set
	}
	checkIndex(t, s, where)
}

const modelBlockBytes = 9000

// readContent reads a key and tells which of the model's contents it is.
func readContent(n *Namespace, k int) (int, Status) {
	p := make([]byte, modelBlockBytes)
	cut := modelBlockBytes / 3
	r := n.Get(context.Background(), []GetBlock{{Hash: hashOf(k), Parts: []Part{
		{Plane: "k", Spans: [][]byte{p[:cut]}}, {Plane: "v", Spans: [][]byte{p[cut:]}},
	}}}, GetOptions{})[0]
	if r.Status != StatusOK {
		return -1, r.Status
	}
	for c := range 64 {
		if bytes.Equal(p, contentOf(1000+c, 0, modelBlockBytes)) {
			return c, StatusOK
		}
	}
	return -2, StatusOK
}

func modelBlock(k, content int) PutBlock {
	b := blockOf(1000+content, 0, modelBlockBytes)
	b.Hash = hashOf(k)
	return b
}

// checkIndex recomputes what the index keeps as totals, and that each entry
// leads to an extent that verifies.
func checkIndex(t *testing.T, s *Store, where string) {
	t.Helper()
	live := map[uint64]int64{}
	seen := map[disk.Address]bool{}
	err := s.idx.Keys(context.Background(), func(k index.KeyEntry) error {
		if !seen[k.Address] {
			seen[k.Address] = true
			live[k.Address.Segment] += k.Bytes()
		}
		return s.vol.VerifyExtent(context.Background(), k.Address, k.HeaderSum)
	})
	if err != nil {
		t.Fatalf("%s: index: %v", where, err)
	}
	have, err := s.idx.Live(context.Background())
	if err != nil {
		t.Fatalf("%s: live bytes: %v", where, err)
	}
	if fmt.Sprint(have) != fmt.Sprint(live) {
		t.Fatalf("%s: live bytes %v, recomputed %v", where, have, live)
	}
}

// driver does random operations and tells the model.
type driver struct {
	t   *testing.T
	rng *rand.Rand
	m   *crashModel
	s   *Store
	n   *Namespace
	log []string // what was done, for the report of a failure
}

func (d *driver) note(format string, args ...any) {
	d.log = append(d.log, fmt.Sprintf(format, args...))
}

const (
	modelKeys     = 10
	modelContents = 4 // few, so that keys share content
)

func (d *driver) step() {
	k := d.rng.IntN(modelKeys)
	ctx := context.Background()
	switch p := d.rng.IntN(100); {
	case p < 45:
		d.put(k, d.rng.IntN(modelContents), d.rng.IntN(8) == 0)
	case p < 57:
		d.drop(k)
	case p < 65:
		d.note("sync")
		d.s.syncOnce()
	case p < 71:
		d.note("sync and apply")
		d.s.syncAndApply()
	case p < 77:
		d.note("flush")
		if err := d.s.Flush(ctx); err != nil {
			d.t.Fatalf("flush: %v", err)
		}
		d.allDurable()
	case p < 82:
		d.note("flush the index")
		_ = d.s.idx.Flush(ctx)
	case p < 86:
		d.n.Touch(ctx, [][]byte{hashOf(k)})
	case p < 94:
		d.evict()
	case p < 97:
		d.quarantine(k)
	case p < 98:
		d.bump()
	default:
		d.expect(k)
	}
}

// expect compares one key in the running store, where everything is exact
// but evictions.
func (d *driver) expect(k int) {
	got, status := readContent(d.n, k)
	d.m.mu.Lock() // not around the get: a crash in its middle takes a snapshot
	defer d.m.mu.Unlock()
	mk := d.m.keys[k]
	switch {
	case status == StatusMiss && (!mk.set || mk.mayMiss):
	case status == StatusOK && mk.set && got == mk.content && !mk.gone:
	default:
		d.t.Fatalf("key %d: status %v content %d; model: set %v content %d may-miss %v gone %v", k, status, got, mk.set, mk.content, mk.mayMiss, mk.gone)
	}
}

func (d *driver) allDurable() { d.m.all(func(k *modelKey) { k.durable = k.set }) }

func (d *driver) put(k, content int, durable bool) {
	d.m.with(k, func(mk *modelKey) { mk.putting = content })
	r := d.n.Put(context.Background(), []PutBlock{modelBlock(k, content)}, PutOptions{Durable: durable})[0]
	d.m.with(k, func(mk *modelKey) {
		mk.putting = -1
		switch {
		case r.Status == StatusOK && r.Existed:
			if !mk.set || mk.gone {
				d.t.Fatalf("put of absent key %d: existed", k)
			}
			if r.Differs != (mk.content != content) {
				d.t.Fatalf("put of key %d: differs %v, stored %d, put %d", k, r.Differs, mk.content, content)
			}
		case r.Status == StatusOK:
			if mk.set && !mk.mayMiss {
				d.t.Fatalf("put of stored key %d was written", k)
			}
			*mk = modelKey{set: true, content: content, putting: -1, orphans: map[int]bool{}}
		case r.Status == StatusShed && errors.Is(r.Err, ErrShed):
		default:
			d.t.Fatalf("put key %d: %v %v", k, r.Status, r.Err)
		}
	})
	d.note("put key %d content %d durable %v: %v existed %v shared %v", k, content, durable, r.Status, r.Existed, r.Shared)
	if r.Status == StatusOK && durable && !r.Existed {
		d.allDurable()
	}
}

func (d *driver) drop(k int) {
	d.m.with(k, func(mk *modelKey) { mk.dropping = true })
	r := d.n.Drop(context.Background(), [][]byte{hashOf(k)})[0]
	d.m.with(k, func(mk *modelKey) {
		mk.dropping = false
		switch {
		case r.Status == StatusOK && mk.set && !mk.gone, r.Status == StatusMiss && (!mk.set || mk.mayMiss):
			mk.set, mk.orphans = false, map[int]bool{}
		default:
			d.t.Fatalf("drop key %d: %v %v; model set %v", k, r.Status, r.Err, mk.set)
		}
	})
	d.note("drop key %d: %v", k, r.Status)
	if r.Status == StatusOK {
		d.allDurable()
	}
}

// evict may take any key that is stored; afterwards it is looked which.
func (d *driver) evict() {
	d.m.all(func(k *modelKey) { k.mayMiss = true })
	ok, err := d.s.EvictOnce(context.Background())
	if err != nil {
		d.t.Fatalf("evict: %v", err)
	}
	d.note("evict: %v", ok)
	d.m.all(func(k *modelKey) { k.durable = k.durable || ok && k.set })
	for i := range modelKeys {
		_, status := readContent(d.n, i)
		d.m.with(i, func(k *modelKey) {
			if k.gone = k.set && status == StatusMiss; !k.gone {
				k.mayMiss = false
			}
		})
	}
}

// quarantine reports a good block as bad: it and all who share its bytes are
// gone, and a copy elsewhere may serve after a rebuild.
func (d *driver) quarantine(k int) {
	found, err := d.s.lookup(context.Background(), []index.Key{{Namespace: d.n.info.Number, Hash: string(hashOf(k))}}, false)
	if err != nil || !found[0].ok {
		return
	}
	d.note("quarantine key %d at %v", k, found[0].entry.Address)
	d.s.storm.reset()
	d.m.all(func(mk *modelKey) {
		if mk.set && mk.content == d.m.keys[k].content {
			mk.mayMiss, mk.dropTried = true, true
		}
	})
	d.s.quarantine(index.Key{Namespace: d.n.info.Number, Hash: string(hashOf(k))}, found[0].entry, "test")
	if _, status := readContent(d.n, k); status == StatusOK {
		d.t.Fatalf("key %d is served after its quarantine", k)
	}
	if err := d.s.Flush(context.Background()); err != nil {
		d.t.Fatalf("flush: %v", err)
	}
	d.allDurable()
	for i := range modelKeys {
		_, status := readContent(d.n, i)
		d.m.with(i, func(mk *modelKey) {
			if status == StatusMiss && mk.mayMiss && !mk.gone {
				mk.set = false
			} else if !mk.gone {
				mk.mayMiss, mk.dropTried = false, false
			}
		})
	}
}

func (d *driver) bump() {
	d.m.all(func(k *modelKey) { k.bumping = true })
	n, err := d.n.BumpEpoch(context.Background())
	if err != nil {
		d.t.Fatalf("bump: %v", err)
	}
	d.note("bump")
	d.n = n
	d.m.all(func(k *modelKey) { *k = modelKey{putting: -1, orphans: map[int]bool{}} })
}

// modelOptions make segments so small that a few blocks fill one.
func modelOptions(fs vfs.FS) Options {
	o := testOptions(fs)
	o.MaxBlockBytes, o.SegmentBytes, o.CapacityBytes = 16*kib, 96*kib, 4*mib
	o.private.memTableBytes = 64 * kib
	return o
}

// crashPlan is one crash of a random history.
type crashPlan struct {
	at        uint64 // mutating operation before which it happens
	options   vfs.CrashOptions
	loseIndex bool
	loseLog   bool
}

func (p crashPlan) String() string {
	kind := "power cut"
	if p.options.KeepAll {
		kind = "kill"
	}
	return fmt.Sprintf("%s before operation %d (keep bytes %.1f names %.1f torn %d, index lost %v, log lost %v)",
		kind, p.at, p.options.KeepBytes, p.options.KeepNames, p.options.TornSectorBytes, p.loseIndex, p.loseLog)
}

func randomCrash(rng *rand.Rand) crashPlan {
	keep := []float64{0, 0.5, 1}
	p := crashPlan{at: 1 + uint64(rng.IntN(120)), options: vfs.CrashOptions{
		Seed: rng.Uint64(), KeepBytes: keep[rng.IntN(3)], KeepNames: keep[rng.IntN(3)],
		TornSectorBytes: []int{0, 512, 4096}[rng.IntN(3)], KeepAll: rng.IntN(3) == 0,
	}}
	switch rng.IntN(8) {
	case 0:
		p.loseIndex = true
	case 1:
		p.loseLog = true
	}
	return p
}

// crashed is a file system as a crash left it, and what may be found in it.
type crashed struct {
	fs  *vfs.Mem
	m   *crashModel
	log []string
}

// runUntilCrash opens a store, checks it, and does random operations; the
// crash comes before its planned operation wherever that is: in Open, in a
// call, in the index's background work. The store that lived on is closed.
func runUntilCrash(t *testing.T, rng *rand.Rand, mem *vfs.Mem, m *crashModel, plan crashPlan, lostLog bool, where string) crashed {
	t.Helper()
	var out crashed
	var mu sync.Mutex
	hooked := vfs.WithHook(mem, func(op vfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if op.Mutates() && op.Index >= plan.at && out.fs == nil {
			out.m = m.snapshot(plan.options.KeepAll)
			out.fs = mem.CrashClone(plan.options)
		}
		return nil
	})
	isCrashed := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return out.fs != nil
	}
	s, err := Open("mem", modelOptions(hooked))
	if err != nil {
		t.Fatalf("%s: open: %v", where, err)
	}
	d := &driver{t: t, rng: rng, m: m, s: s, n: mustSpace(t, s)}
	m.check(t, s, d.n, lostLog, where)
	for !isCrashed() {
		d.step()
	}
	mustClose(t, s)
	lose(t, out.fs, plan)
	out.log = d.log
	return out
}

func lose(t *testing.T, fs *vfs.Mem, p crashPlan) {
	t.Helper()
	for dir, gone := range map[string]bool{indexDir: p.loseIndex, logDir: p.loseLog} {
		if gone {
			if err := fs.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestLaw3CrashModel drives random histories through several crashes each.
// Set SEALSTONE_SEED to replay one, SEALSTONE_FULL for ten thousand.
func TestLaw3CrashModel(t *testing.T) {
	seeds := seedsToRun(t, 150, 10_000)
	for _, seed := range seeds {
		crashHistory(t, seed)
	}
	t.Logf("%d histories from seed %d on", len(seeds), seeds[0])
}

func crashHistory(t *testing.T, seed uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	state := crashed{fs: vfs.NewMem(), m: newModel(modelKeys)}
	lostLog := false
	var log []string
	defer func() {
		if t.Failed() {
			t.Logf("seed %d (SEALSTONE_SEED=%d replays it):", seed, seed)
			for _, l := range log {
				t.Log(l)
			}
		}
	}()
	for life := range 5 {
		plan := randomCrash(rng)
		log = append(log, fmt.Sprintf("life %d ends with a %s", life, plan))
		state = runUntilCrash(t, rng, state.fs, state.m, plan, lostLog, fmt.Sprintf("seed %d life %d", seed, life))
		lostLog = plan.loseLog
		log = append(log, state.log...)
	}
}

// crashTwice runs a fixed history up to a crash, then crashes the Open that
// follows before each step-th of its operations.
func crashTwice(t *testing.T, mode int, plan crashPlan, step uint64) {
	t.Helper()
	const seed = 7
	where := fmt.Sprintf("mode %d crash before operation %d", mode, plan.at)
	first := runUntilCrash(t, rand.New(rand.NewPCG(seed, 1)), vfs.NewMem(), newModel(modelKeys), plan, false, where)
	for j := 1 + plan.at%step; ; j += step {
		left := first.fs.CrashClone(vfs.CrashOptions{KeepAll: true})
		var clone *vfs.Mem
		o := modelOptions(vfs.WithHook(left, func(op vfs.Op) error {
			if op.Mutates() && op.Index == j {
				clone = left.CrashClone(plan.options)
			}
			return nil
		}))
		s := mustOpen(t, o)
		first.m.snapshot(true).check(t, s, mustSpace(t, s), false, where)
		mustClose(t, s)
		if clone == nil {
			return
		}
		s = mustOpen(t, modelOptions(clone))
		first.m.snapshot(true).check(t, s, mustSpace(t, s), false, fmt.Sprintf("%s, and Open before its operation %d", where, j))
		mustClose(t, s)
	}
}
