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
	case d.s.vol.AllocatedBytes() > d.s.room.segmentBudget()/2:
		d.evict() // before a put does, which would not tell
	case p < 35:
		d.put(d.rng.IntN(8) == 0, k)
	case p < 45: // several keys, each the parent of the next
		d.put(d.rng.IntN(8) == 0, d.rng.Perm(modelKeys)[:2+d.rng.IntN(4)]...)
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
	case p < 84:
		d.n.Touch(ctx, [][]byte{hashOf(k)})
	case p < 86:
		if _, err := d.n.Match(ctx, [][]byte{hashOf(k)}); err != nil { // a lease moves it on
			d.t.Fatalf("match: %v", err)
		}
	case p < 91:
		d.evict()
	case p < 94:
		d.compact()
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
	stored := false
	for i, r := range d.n.Put(context.Background(), blocks, PutOptions{Durable: durable}) {
		d.m.with(keys[i], func(mk *modelKey) {
			if err := mk.wasPut(contents[i], r); err != nil {
				d.t.Fatalf("put key %d: %v", keys[i], err)
			}
		})
		d.note("put key %d content %d durable %v: %v existed %v shared %v", keys[i], contents[i], durable, r.Status, r.Existed, r.Shared)
		stored = stored || r.Status == StatusOK && !r.Existed
	}
	if durable && stored {
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
	hit := map[*modelKey]bool{} // to whether a drop of it was tried before
	d.m.all(func(mk *modelKey) {
		if mk.set && mk.content == d.m.keys[k].content {
			hit[mk] = mk.dropTried
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
	if err != nil {
		d.t.Fatalf("bump: %v", err)
	}
	d.note("bump")
	d.n = n
	d.m.all(func(k *modelKey) { *k = modelKey{putting: -1, orphans: map[int]bool{}} })
}
