package index

import (
	"context"
	"encoding/binary"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sealstone/sealstone/internal/sums"
	"github.com/sealstone/sealstone/tiers/disk"
)

// Batch collects changes that become visible together, and reads through
// them. It keeps the references and the live bytes right: callers bind and
// unbind keys.
type Batch struct {
	d *DB
	b *pebble.Batch
	// live holds the segments' new live bytes; removed those that are gone.
	live map[uint64]int64
	base map[uint64]int64
}

// Update runs fn on a worker with a fresh batch and commits it. Nothing of it
// is visible or durable before; an error of fn drops it. live are the
// segments' live bytes, which the caller owns between updates; Update changes
// them after the commit. Only one Update may run at a time.
func (d *DB) Update(ctx context.Context, live map[uint64]int64, fn func(*Batch) error) error {
	_, err := call(ctx, d, func() (struct{}, error) {
		b := &Batch{d: d, b: d.db.NewIndexedBatch(), live: map[uint64]int64{}, base: live}
		defer b.b.Close()
		if err := fn(b); err != nil {
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
			err = b.b.Delete(key, nil)
		} else {
			err = b.b.Set(key, binary.LittleEndian.AppendUint64(nil, uint64(n)), nil)
		}
		if err != nil {
			return err
		}
	}
	if err := b.d.db.Apply(b.b, pebble.NoSync); err != nil {
		return err
	}
	for segment, n := range b.live {
		if n == 0 {
			delete(b.base, segment)
		} else {
			b.base[segment] = n
		}
	}
	return nil
}

func (b *Batch) addLive(segment uint64, delta int64) {
	n, ok := b.live[segment]
	if !ok {
		n = b.base[segment]
	}
	b.live[segment] = n + delta
}

// SetApplied records that the log up to position lsn is applied.
func (b *Batch) SetApplied(lsn uint64) error {
	return b.b.Set(metaApplied, binary.LittleEndian.AppendUint64(nil, lsn), nil)
}

// Get looks up a key.
func (b *Batch) Get(k Key) (Entry, bool, error) {
	found, err := b.d.get(b.b, []Key{k}, false)
	if err != nil {
		return Entry{}, false, err
	}
	return found[0].Entry, found[0].OK, nil
}

// Referrers lists the keys whose bytes lie at an address.
func (b *Batch) Referrers(a disk.Address) ([]KeyEntry, error) { return b.d.referrers(b.b, a) }

// SegmentKeys lists the keys that refer to a segment; see DB.SegmentKeys.
func (b *Batch) SegmentKeys(segment uint64) ([]KeyEntry, error) {
	return b.d.segmentKeys(b.b, segment)
}

// Content looks up where content of a tenant lies.
func (b *Batch) Content(tenant uint32, id sums.ContentID) (Content, bool, error) {
	return getContent(b.b, tenant, id)
}

// SetContent records where content of a tenant lies.
func (b *Batch) SetContent(tenant uint32, id sums.ContentID, c Content) error {
	return b.b.Set(contentKey(tenant, id), appendContent(nil, c), nil)
}

// DropContent forgets content of a tenant if it is recorded at an address.
func (b *Batch) DropContent(tenant uint32, id sums.ContentID, at disk.Address) error {
	c, ok, err := getContent(b.b, tenant, id)
	if err != nil || !ok || c.Address != at {
		return err
	}
	return b.b.Delete(contentKey(tenant, id), nil)
}

// Bind makes k refer to e; k must be unbound. The segment gains live bytes
// with the first referrer.
func (b *Batch) Bind(k Key, e Entry) error {
	others, err := b.Referrers(e.Address)
	if err != nil {
		return err
	}
	if len(others) == 0 {
		b.addLive(e.Address.Segment, e.Bytes())
	}
	if err := b.b.Set(appendKey(nil, k), appendEntry(nil, e), nil); err != nil {
		return err
	}
	if e.IsAlias() {
		if err := b.b.Set(appendRef(nil, e.Own.Address, k), nil, nil); err != nil {
			return err
		}
	}
	return b.b.Set(appendRef(nil, e.Address, k), nil, nil)
}

// Unbind removes k, which holds e. With the last referrer the segment loses
// live bytes and, for the tenant, the content is forgotten.
func (b *Batch) Unbind(k Key, e Entry, tenant uint32) error {
	if err := b.b.Delete(appendKey(nil, k), nil); err != nil {
		return err
	}
	if err := b.b.Delete(appendRef(nil, e.Address, k), nil); err != nil {
		return err
	}
	if e.IsAlias() {
		if err := b.b.Delete(appendRef(nil, e.Own.Address, k), nil); err != nil {
			return err
		}
	}
	others, err := b.Referrers(e.Address)
	if err != nil || len(others) > 0 {
		return err
	}
	b.addLive(e.Address.Segment, -e.Bytes())
	return b.DropContent(tenant, e.ContentID, e.Address)
}
