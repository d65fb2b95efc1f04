package index

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sealstone/sealstone/tiers/disk"
)

// Batch collects changes that become visible together, and reads through
// them. It keeps the references and the live bytes right: callers bind and
// unbind keys.
type Batch struct {
	d *DB
	b *pebble.Batch
	v *view
	// live holds the segments' new live bytes; base what they were.
	live map[uint64]int64
	base map[uint64]int64
	uses uses     // by how much they change
	done []Change // for Options.OnChange
}

// Change is what a batch did to one key.
type Change struct {
	Key   Key
	Seq   uint64 // put sequence of the entry
	Bound bool   // else unbound
}

// Update runs fn on a worker with a fresh batch and commits it. Nothing of it
// is visible or durable before; an error of fn drops it. live are the
// segments' live bytes, which the caller owns between updates; Update changes
// them after the commit. Only one Update may run at a time: the batch reads
// the state of the index that it found.
func (d *DB) Update(ctx context.Context, live map[uint64]int64, fn func(*Batch) error) error {
	_, err := call(ctx, d, func() (struct{}, error) {
		b := &Batch{d: d, b: d.db.NewBatch(), v: &view{r: d.db, changes: newChanges()}, live: map[uint64]int64{}, base: live, uses: uses{}}
		defer b.b.Close()
		err := fn(b)
		if err = errors.Join(err, b.v.close()); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, b.commit()
	})
	return d.noteDamage(err)
}

func (b *Batch) commit() error {
	for segment, n := range b.live {
		key := segmentPrefix(kindSegment, segment)
		var err error
		if n == 0 {
			err = b.delete(key)
		} else {
			err = b.set(key, binary.LittleEndian.AppendUint64(nil, uint64(n)))
		}
		if err != nil {
			return err
		}
	}
	if err := b.setUses(); err != nil {
		return err
	}
	if err := b.d.db.Apply(b.b, pebble.NoSync); err != nil {
		return err
	}
	b.d.took(b.uses)
	for segment, n := range b.live {
		if n == 0 {
			delete(b.base, segment)
		} else {
			b.base[segment] = n
		}
	}
	if len(b.done) > 0 {
		b.d.opts.OnChange(b.done)
	}
	return nil
}

// set takes over value.
func (b *Batch) set(key, value []byte) error {
	b.v.changes.note(key, value, false)
	return b.b.Set(key, value, nil)
}

func (b *Batch) delete(key []byte) error {
	b.v.changes.note(key, nil, true)
	return b.b.Delete(key, nil)
}

func (b *Batch) addLive(segment uint64, delta int64) {
	n, ok := b.live[segment]
	if !ok {
		n = b.base[segment]
	}
	b.live[segment] = n + delta
}

func (b *Batch) note(k Key, e Entry, bound bool) {
	if b.d.opts.OnChange != nil {
		b.done = append(b.done, Change{k, e.Seq, bound})
	}
}

// SetApplied records that the log up to position lsn is applied.
func (b *Batch) SetApplied(lsn uint64) error {
	return b.set(metaApplied, binary.LittleEndian.AppendUint64(nil, lsn))
}

// Get looks up a key.
func (b *Batch) Get(k Key) (Entry, bool, error) { return b.v.entry(appendKey(nil, k)) }

// Referrers lists the keys whose bytes lie at an address.
func (b *Batch) Referrers(a disk.Address) ([]KeyEntry, error) { return b.v.referrers(a) }

// SegmentKeys lists the keys that refer to a segment; see DB.SegmentKeys.
func (b *Batch) SegmentKeys(segment uint64) ([]KeyEntry, error) { return b.v.segmentKeys(segment) }

// Content is the address at which content of a tenant is recorded.
func (b *Batch) Content(tenant uint32, t ContentTag) (disk.Address, bool, error) {
	return b.v.content(tenant, t)
}

// SetContent records where content of a tenant lies: where some key of the
// tenant has it.
func (b *Batch) SetContent(tenant uint32, t ContentTag, at disk.Address) error {
	return b.set(contentKey(tenant, t), appendAddress(nil, at))
}

// DropContent forgets content of a tenant if it is recorded at an address.
func (b *Batch) DropContent(tenant uint32, t ContentTag, at disk.Address) error {
	got, ok, err := b.v.content(tenant, t)
	if err != nil || !ok || got != at {
		return err
	}
	return b.delete(contentKey(tenant, t))
}

// setUses writes the u records of namespaces whose use changes. Only one Update
// runs at a time, so that Uses is what they are now.
func (b *Batch) setUses() error {
	now := b.d.Uses()
	for namespace, delta := range b.uses {
		if delta == (Use{}) {
			continue
		}
		n := Use{now[namespace].Blocks + delta.Blocks, now[namespace].Bytes + delta.Bytes}
		var err error
		if n == (Use{}) {
			err = b.delete(useKey(namespace))
		} else {
			err = b.set(useKey(namespace), appendUse(nil, n))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Bind makes k refer to e; k must be unbound. The segment gains live bytes
// with the first referrer.
func (b *Batch) Bind(k Key, e Entry) error {
	key := appendKey(nil, k)
	before, after, err := b.addRef(e.Address, tagOf(key))
	if err != nil {
		return err
	}
	if len(before) == 0 {
		b.addLive(e.Address.Segment, e.Bytes())
	}
	b.uses.add(k.Namespace, 1, 0)
	b.uses.pay(before, after, e.Bytes())
	b.note(k, e, true)
	if e.IsAlias() {
		if _, _, err := b.addRef(e.Own.Address, tagOf(key)); err != nil {
			return err
		}
		b.uses.add(k.Namespace, 0, e.Own.Bytes())
	}
	return b.set(key, appendEntry(nil, e))
}

// Unbind removes k, which holds e. With the last referrer the segment loses
// live bytes and, for the tenant, the content is forgotten.
func (b *Batch) Unbind(k Key, e Entry, tenant uint32) error {
	key := appendKey(nil, k)
	b.note(k, e, false)
	if err := b.delete(key); err != nil {
		return err
	}
	if e.IsAlias() {
		if _, _, err := b.removeRef(e.Own.Address, tagOf(key)); err != nil {
			return err
		}
		b.uses.add(k.Namespace, 0, -e.Own.Bytes())
	}
	before, after, err := b.removeRef(e.Address, tagOf(key))
	if err != nil {
		return err
	}
	b.uses.add(k.Namespace, -1, 0)
	b.uses.pay(before, after, e.Bytes())
	if len(after) > 0 {
		return nil
	}
	b.addLive(e.Address.Segment, -e.Bytes())
	return b.DropContent(tenant, e.Content, e.Address)
}

// addRef counts one more key of a tag at an address, and returns the references
// there before and after.
func (b *Batch) addRef(at disk.Address, t keyTag) (before, after []ref, err error) {
	before, err = b.v.refsAt(at)
	if err != nil {
		return nil, nil, err
	}
	after = append(before[:len(before):len(before)], ref{at, t, 1})
	return before, after, b.set(appendRef(nil, at, t), appendRefCount(nil, countOf(before, t)+1))
}

// removeRef counts one key less, and returns the references before and after.
func (b *Batch) removeRef(at disk.Address, t keyTag) (before, after []ref, err error) {
	before, err = b.v.refsAt(at)
	if err != nil {
		return nil, nil, err
	}
	switch n := countOf(before, t); n {
	case 0:
		return nil, nil, errBadRecord // a key without its reference
	case 1:
		after = slices.DeleteFunc(slices.Clone(before), func(r ref) bool { return r.keyTag == t })
		return before, after, b.delete(appendRef(nil, at, t))
	default:
		return before, before, b.set(appendRef(nil, at, t), appendRefCount(nil, n-1))
	}
}

// countOf is how many keys of a tag are in a list of references.
func countOf(list []ref, t keyTag) uint64 {
	for _, r := range list {
		if r.keyTag == t {
			return r.count
		}
	}
	return 0
}
