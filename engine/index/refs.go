package index

import (
	"bytes"
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sealstone/sealstone/tiers/disk"
)

// ref is an r record: so many keys of a tag refer to an address.
type ref struct {
	at disk.Address
	keyTag
	count uint64
}

// SegmentKeys lists, in order of address, the keys whose bytes or whose own
// extent lie in a segment. A key may come twice.
func (d *DB) SegmentKeys(ctx context.Context, segment uint64) ([]KeyEntry, error) {
	out, err := call(ctx, d, func() (out []KeyEntry, err error) {
		// References and entries are read apart: of one state, or a key that is
		// unbound in between would look like damage.
		snap := d.db.NewSnapshot()
		defer func() { err = errors.Join(err, snap.Close()) }()
		return segmentKeys(snap, segment)
	})
	return out, d.noteDamage(err)
}

func segmentKeys(r pebble.Reader, segment uint64) ([]KeyEntry, error) {
	list, err := refs(r, segmentPrefix(kindRef, segment), segmentPrefix(kindRef, segment+1))
	if err != nil {
		return nil, err
	}
	return resolve(r, list)
}

// referrers lists the keys whose bytes lie at an address.
func referrers(r pebble.Reader, a disk.Address) ([]KeyEntry, error) {
	list, err := refsAt(r, a)
	if err != nil {
		return nil, err
	}
	all, err := resolve(r, list)
	if err != nil {
		return nil, err
	}
	out := all[:0]
	for _, k := range all {
		if k.Address == a {
			out = append(out, k)
		}
	}
	return out, nil
}

// resolve finds the keys behind references: those of the tag whose entry
// names the address. A tag that several keys share is told apart by that.
func resolve(r pebble.Reader, list []ref) (out []KeyEntry, err error) {
	if len(list) == 0 {
		return nil, nil
	}
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: []byte{kindKey}, UpperBound: []byte{kindKey + 1}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for _, ref := range list {
		same, err := tagged(it, ref.keyTag)
		if err != nil {
			return nil, err
		}
		found := uint64(0)
		for _, k := range same {
			if k.Address == ref.at || k.Own.Address == ref.at {
				out = append(out, k)
				found++
			}
		}
		if found != ref.count {
			return nil, errBadRecord // a reference without its key, or the reverse
		}
	}
	return out, nil
}

// tagged lists the keys of a tag: one, but for chance or ill will. it is over
// the k records.
func tagged(it *pebble.Iterator, t keyTag) (out []KeyEntry, err error) {
	prefix := t.appendPrefix(nil)
	for it.SeekGE(prefix); it.Valid() && bytes.HasPrefix(it.Key(), prefix); it.Next() {
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

// refsAt lists the references to an address.
func refsAt(r pebble.Reader, a disk.Address) ([]ref, error) {
	next := a
	next.Page++ // a page count fits 32 bits, so no extent begins at the last
	return refs(r, appendRefPrefix(nil, a), appendRefPrefix(nil, next))
}

func refs(r pebble.Reader, lower, upper []byte) (list []ref, err error) {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for it.First(); it.Valid(); it.Next() {
		at, t, err := decodeRef(it.Key())
		if err != nil {
			return nil, err
		}
		n, err := decodeRefCount(it.Value())
		if err != nil {
			return nil, err
		}
		list = append(list, ref{at, t, n})
	}
	return list, it.Error()
}
