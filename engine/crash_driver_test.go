package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/sealstone/sealstone/engine/index"
)

// driver does random operations and tells the model.
type driver struct {
	t    *testing.T
	rng  *rand.Rand
	m    *crashModel
	life *life
	s    *Store
	n    *Namespace
	log  []string // what was done, for the report of a failure

	where      string
	lostLog    bool // the log was lost before this life
	rebuilding bool // the first Open begins with a rebuild
	moveShare  float64
	healed     int // failures that the store has got over
}

func (d *driver) note(format string, args ...any) {
	d.log = append(d.log, fmt.Sprintf(format, args...))
}

const (
	modelKeys     = 10
	modelContents = 4 // few, so that keys share content
)

// step does one random thing, and mends what failed on the way.
func (d *driver) step() {
	d.act()
	d.mend()
}

func (d *driver) act() {
	k := d.rng.IntN(modelKeys)
	ctx := context.Background()
	switch p := d.rng.IntN(100); {
	case d.s.vol.AllocatedBytes() > d.s.room.segmentBudget()/2:
		d.evict() // before a put does, which would not tell
	case p < 35:
		d.put(d.rng.IntN(8) == 0, k)
	case p < 45: // several keys, each the parent of the next
		d.put(d.rng.IntN(8) == 0, d.rng.Perm(modelKeys)[:2+d.rng.IntN(4)]...)
	case p < 57:
		d.drop(k)
	case p < 65:
		d.sync("sync", d.s.syncOnce)
	case p < 71:
		d.sync("sync and apply", d.s.syncAndApply)
	case p < 77:
		d.flush()
	case p < 82:
		d.flushIndex()
	case p < 84:
		d.n.Touch(ctx, [][]byte{hashOf(k)})
	case p < 86:
		if _, err := d.n.Match(ctx, [][]byte{hashOf(k)}); err != nil && !d.hurt() { // a lease moves it on
			d.t.Fatalf("match: %v", err)
		}
	case p < 90:
		d.evict()
	case p < 93:
		d.compact()
	case p < 96:
		d.quarantine(k)
	case p < 97:
		d.bump()
	case p < 98:
		d.reopen()
	default:
		d.expect(k)
	}
}

func (d *driver) sync(name string, do func()) {
	defer d.life.begin(phaseSync)()
	d.note("%s", name)
	do()
}

func (d *driver) flush() {
	defer d.life.begin(phaseSync)()
	err := d.s.Flush(context.Background())
	d.note("flush: %v", err)
	switch {
	case err == nil:
		d.allDurable()
	case !d.hurt():
		d.t.Fatalf("flush: %v", err)
	}
}

func (d *driver) flushIndex() {
	defer d.life.begin(phaseIndex)()
	d.note("flush the index: %v", d.s.idx.Flush(context.Background()))
}

// space opens the namespace, to write with one codec or another.
func (d *driver) space() {
	codec := []Compression{CompressionOff, CompressionOff, CompressionS2, CompressionZstd}[d.rng.IntN(4)]
	n, err := d.s.Namespace(context.Background(), testLayout(), "tenant", NamespaceOptions{Compression: codec})
	if err == nil {
		d.n = n
		return
	}
	d.note("namespace: %v", err)
	if !d.hurt() {
		d.t.Fatalf("%s: namespace: %v", d.where, err)
	}
	d.life.end()
}

// expect compares one key in the running store, where everything is exact
// but evictions.
func (d *driver) expect(k int) {
	got, status := readContent(d.n, k)
	d.m.mu.Lock() // not around the get: a crash in its middle takes a snapshot
	defer d.m.mu.Unlock()
	mk := d.m.keys[k]
	switch {
	case d.hurt(): // see mend
	case status == StatusMiss && (!mk.set || mk.mayMiss):
	case status == StatusOK && mk.set && got == mk.content && !mk.gone:
	default:
		d.t.Fatalf("key %d: status %v content %d; model: set %v content %d may-miss %v gone %v", k, status, got, mk.set, mk.content, mk.mayMiss, mk.gone)
	}
}

func (d *driver) allDurable() { d.m.all((*modelKey).nowDurable) }

// nowDurable notes that what the key holds survives a power cut.
func (mk *modelKey) nowDurable() {
	if mk.durable = mk.set; mk.set {
		mk.undone = nil
	}
}

// put stores keys in one batch.
func (d *driver) put(durable bool, keys ...int) {
	blocks := make([]PutBlock, len(keys))
	contents := make([]int, len(keys))
	for i, k := range keys {
		contents[i] = d.rng.IntN(modelContents)
		blocks[i] = modelBlock(k, contents[i])
		if i > 0 {
			blocks[i].Parent = blocks[i-1].Hash
		}
		d.m.with(k, func(mk *modelKey) { mk.putting = contents[i] })
	}
	defer d.life.begin(phasePut)()
	stored := false
	for i, r := range d.n.Put(context.Background(), blocks, PutOptions{Durable: durable}) {
		d.m.with(keys[i], func(mk *modelKey) {
			if d.hurt() && r.Status != StatusOK {
				mk.putFailed(contents[i], r)
				return
			}
			if err := mk.wasPut(contents[i], r); err != nil {
				d.t.Fatalf("put key %d: %v", keys[i], err)
			}
		})
		d.note("put key %d content %d durable %v: %v existed %v shared %v", keys[i], contents[i], durable, r.Status, r.Existed, r.Shared)
		stored = stored || r.Status == StatusOK && !r.Existed
	}
	if durable && stored && !d.hurt() {
		d.allDurable()
	}
}

// wasPut takes over the answer to a put.
func (mk *modelKey) wasPut(content int, r PutResult) error {
	mk.putting = -1
	switch {
	case r.Status == StatusOK && r.Existed:
		if !mk.set || mk.gone {
			return errors.New("it is absent, and existed")
		}
		if r.Differs != (mk.content != content) {
			return fmt.Errorf("differs %v, stored %d, put %d", r.Differs, mk.content, content)
		}
	case r.Status == StatusOK:
		if mk.set && !mk.mayMiss {
			return errors.New("it is stored, and was written")
		}
		undone := mk.undone
		if mk.set {
			undone = map[int]bool{mk.content: true}
		}
		*mk = modelKey{set: true, content: content, putting: -1, orphans: map[int]bool{}, undone: undone}
	case r.Status == StatusShed && errors.Is(r.Err, ErrShed):
	default:
		return fmt.Errorf("%v %w", r.Status, r.Err)
	}
	return nil
}

// putFailed takes over a put that a failure ended. Only one that is unknown
// may be visible later.
func (mk *modelKey) putFailed(content int, r PutResult) {
	mk.putting = -1
	if r.Status == StatusIOError && (!mk.set || mk.mayMiss) {
		mk.orphans[content] = true
	}
}

func (d *driver) drop(k int) {
	defer d.life.begin(phaseDrop)()
	d.m.with(k, func(mk *modelKey) { mk.dropping = true })
	r := d.n.Drop(context.Background(), [][]byte{hashOf(k)})[0]
	d.m.with(k, func(mk *modelKey) {
		mk.dropping = false
		switch {
		case r.Status == StatusOK && mk.set && !mk.gone, r.Status == StatusMiss && (!mk.set || mk.mayMiss):
			mk.set, mk.orphans = false, map[int]bool{}
		case d.hurt():
			mk.dropTried = mk.dropTried || r.Status == StatusIOError
		default:
			d.t.Fatalf("drop key %d: %v %v; model set %v", k, r.Status, r.Err, mk.set)
		}
	})
	d.note("drop key %d: %v", k, r.Status)
	if r.Status == StatusOK && !d.hurt() {
		d.allDurable()
	}
}

// evict may take any key that is stored; afterwards it is looked which.
func (d *driver) evict() {
	defer d.life.begin(phaseEvict)()
	d.m.all(func(k *modelKey) { k.mayMiss = true })
	ok, err := d.s.EvictOnce(context.Background())
	d.note("evict: %v %v", ok, err)
	if err != nil && d.hurt() {
		return // see mend
	}
	if err != nil {
		d.t.Fatalf("evict: %v", err)
	}
	d.m.all(func(k *modelKey) { k.durable = k.durable || ok && k.set })
	d.lookWhatWent()
}

// lookWhatWent finds which keys an eviction took.
func (d *driver) lookWhatWent() {
	for i := range modelKeys {
		_, status := readContent(d.n, i)
		d.m.with(i, func(k *modelKey) {
			if status == StatusCorrupt {
				return // a quarantine that a failure cut short: it may still be finished
			}
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
	defer d.life.begin(phaseBad)()
	d.note("quarantine key %d at %v", k, found[0].entry.Address)
	d.s.Resume()
	hit := map[*modelKey]bool{} // to whether a drop of it was tried before
	d.m.all(func(mk *modelKey) {
		if mk.set && mk.content == d.m.keys[k].content {
			hit[mk] = mk.dropTried
			mk.mayMiss, mk.dropTried = true, true
		}
	})
	d.s.quarantine(index.Key{Namespace: d.n.info.Number, Hash: string(hashOf(k))}, found[0].entry, "test")
	if d.hurt() {
		return // see mend
	}
	if _, status := readContent(d.n, k); status == StatusOK {
		d.t.Fatalf("key %d is served after its quarantine", k)
	}
	switch err := d.s.Flush(context.Background()); {
	case d.hurt():
		return
	case err != nil:
		d.t.Fatalf("flush: %v", err)
	}
	d.allDurable()
	for i := range modelKeys {
		_, status := readContent(d.n, i)
		d.m.with(i, func(mk *modelKey) {
			tried, ours := hit[mk]
			switch {
			case mk.gone || !ours:
			case status == StatusMiss:
				mk.set = false
			default:
				mk.mayMiss, mk.dropTried = false, tried
			}
		})
	}
}

func (d *driver) bump() {
	d.m.all(func(k *modelKey) { k.bumping = true })
	n, err := d.n.BumpEpoch(context.Background())
	d.note("bump: %v", err)
	if err != nil && d.hurt() {
		d.life.end() // the metadata take no more changes
		return
	}
	if err != nil {
		d.t.Fatalf("bump: %v", err)
	}
	d.n = n
	d.m.all(func(k *modelKey) { *k = modelKey{putting: -1, orphans: map[int]bool{}} })
}
