package index

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/cockroachdb/pebble/v2"
)

// Found is the answer for one key of a batch.
type Found struct {
	Entry
	OK bool
}

// Get looks up keys, in the order given. stopAtMiss ends at the first absent
// key: the rest is reported absent.
func (d *DB) Get(ctx context.Context, keys []Key, stopAtMiss bool) ([]Found, error) {
	out, err := call(ctx, d, func() ([]Found, error) { return d.search(keys, stopAtMiss) })
	return out, d.noteDamage(err)
}

// entry is the entry of a k record.
func (v *view) entry(key []byte) (Entry, bool, error) {
	p, ok, err := v.get(key)
	if err != nil || !ok {
		return Entry{}, false, err
	}
	e, err := decodeEntry(p)
	return e, err == nil, err
}

// KeyEntry is a key with what the index holds for it.
type KeyEntry struct {
	Key
	Entry
}

// Live returns the live bytes of every segment that has any.
func (d *DB) Live(ctx context.Context) (map[uint64]int64, error) {
	out, err := call(ctx, d, func() (map[uint64]int64, error) {
		live := map[uint64]int64{}
		err := d.scan(kindSegment, func(k, v []byte) error {
			if len(k) != 9 || len(v) != 8 {
				return errBadRecord
			}
			live[binary.BigEndian.Uint64(k[1:])] = int64(binary.LittleEndian.Uint64(v))
			return nil
		})
		return live, err
	})
	return out, d.noteDamage(err)
}

// Keys calls fn for every key in order, on the caller's goroutine in
// portions, until fn returns an error.
func (d *DB) Keys(ctx context.Context, fn func(KeyEntry) error) error {
	const portion = 1024
	from := []byte{kindKey}
	for {
		list, err := call(ctx, d, func() ([]KeyEntry, error) { return d.keysFrom(from, portion) })
		if err != nil {
			return d.noteDamage(err)
		}
		for _, k := range list {
			if err := fn(k); err != nil {
				return err
			}
		}
		if len(list) < portion {
			return nil
		}
		from = append(appendKey(nil, list[len(list)-1].Key), 0)
	}
}

// KeysAfter lists keys in order: the first ones behind from, which need not be
// there, or of all if it is nil.
func (d *DB) KeysAfter(ctx context.Context, from *Key, limit int) ([]KeyEntry, error) {
	at := []byte{kindKey}
	if from != nil {
		at = append(appendKey(nil, *from), 0)
	}
	out, err := call(ctx, d, func() ([]KeyEntry, error) { return d.keysFrom(at, limit) })
	return out, d.noteDamage(err)
}

func (d *DB) keysFrom(from []byte, limit int) (out []KeyEntry, err error) {
	it, err := d.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: []byte{kindKey + 1}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for it.First(); it.Valid() && len(out) < limit; it.Next() {
		k, err := decodeKey(it.Key())
		if err != nil {
			return nil, err
		}
		e, err := decodeEntry(it.Value())
		if err != nil {
			return nil, err
		}
		out = append(out, KeyEntry{k, e})
	}
	return out, it.Error()
}

func (d *DB) scan(kind byte, fn func(k, v []byte) error) (err error) {
	it, err := d.db.NewIter(&pebble.IterOptions{LowerBound: []byte{kind}, UpperBound: []byte{kind + 1}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for it.First(); it.Valid(); it.Next() {
		if err := fn(it.Key(), it.Value()); err != nil {
			return err
		}
	}
	return it.Error()
}
