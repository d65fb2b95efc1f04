package index

import (
	"bytes"
	"errors"

	"github.com/cockroachdb/pebble/v2"
)

// view reads records: one state of Pebble and, in a batch, the changes made so
// far over it. Its iterators are made when first needed and kept, as making one
// costs more than most questions. It belongs to one goroutine and must be
// closed.
type view struct {
	r       pebble.Reader
	changes *changes // nil outside a batch
	// points finds single keys through the filters, lists walks, tags finds
	// keys by their beginning.
	points, lists, tags *pebble.Iterator
}

// get reads the value of one key, valid until the next call. It goes through
// an iterator, not Pebble's Get: only iterators use the bloom filters of the
// lowest level, where nine keys of ten lie, and most questions to a cache are
// "do you have it?".
func (v *view) get(key []byte) (value []byte, ok bool, err error) {
	if v.changes != nil {
		if c := v.changes.find(key); c != nil {
			return c.value, !c.gone, nil
		}
	}
	if v.points == nil {
		if v.points, err = v.r.NewIter(&pebble.IterOptions{UseL6Filters: true}); err != nil {
			return nil, false, err
		}
	}
	if v.points.SeekPrefixGE(key) && bytes.Equal(v.points.Key(), key) {
		return v.points.Value(), true, nil
	}
	return nil, false, v.points.Error()
}

// scan calls fn for each record whose key begins with prefix: first those of
// Pebble in order, then those of the batch.
func (v *view) scan(prefix []byte, fn func(key, value []byte) error) (err error) {
	if v.lists == nil {
		if v.lists, err = v.r.NewIter(nil); err != nil {
			return err
		}
	}
	it := v.lists
	it.SetBounds(prefix, prefixEnd(prefix))
	for it.First(); it.Valid(); it.Next() {
		if v.changes != nil && v.changes.find(it.Key()) != nil {
			continue
		}
		if err := fn(it.Key(), it.Value()); err != nil {
			return err
		}
	}
	if err := it.Error(); err != nil || v.changes == nil {
		return err
	}
	return v.changes.scan(prefix, fn)
}

// scanTag is scan for the k records of a tag. Without bounds of its own a seek
// that goes on from the one before it is short: asked in order, many tags cost
// little more than a walk. (Where many references were deleted, the bounds of
// scan are what keeps it from walking over all of them; keys are not deleted
// in rows.)
func (v *view) scanTag(prefix []byte, fn func(key, value []byte) error) (err error) {
	if v.tags == nil {
		if v.tags, err = v.r.NewIter(&pebble.IterOptions{LowerBound: []byte{kindKey}, UpperBound: []byte{kindKey + 1}}); err != nil {
			return err
		}
	}
	it := v.tags
	for it.SeekGE(prefix); it.Valid() && bytes.HasPrefix(it.Key(), prefix); it.Next() {
		if v.changes != nil && v.changes.find(it.Key()) != nil {
			continue
		}
		if err := fn(it.Key(), it.Value()); err != nil {
			return err
		}
	}
	if err := it.Error(); err != nil || v.changes == nil {
		return err
	}
	return v.changes.scan(prefix, fn)
}

func (v *view) close() error {
	var errs []error
	for _, it := range []**pebble.Iterator{&v.points, &v.lists, &v.tags} {
		if *it != nil {
			errs = append(errs, (*it).Close())
			*it = nil
		}
	}
	return errors.Join(errs...)
}

// prefixEnd is the first key behind all that begin with prefix. No prefix of
// the index is all 0xff.
func prefixEnd(prefix []byte) []byte {
	end := bytes.Clone(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}
