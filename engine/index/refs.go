package index

import (
	"cmp"
	"context"
	"errors"
	"slices"

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
		err = d.atOnce(func(v *view) error {
			out, err = v.segmentKeys(segment)
			return err
		})
		return out, err
	})
	return out, d.noteDamage(err)
}

// Referrer is a key, and the address for the sake of which it is listed: that
// of its bytes or of its own extent.
type Referrer struct {
	At disk.Address
	KeyEntry
}

// ReferrersFrom lists, in order of address, who refers to a segment from a page
// on: the first limit references. more says that there may be others. Who goes
// on behind the last address leaves out what else refers to that one. It is for
// those who must not hold what the index knows of a whole segment.
func (d *DB) ReferrersFrom(ctx context.Context, segment uint64, page uint32, limit int) (out []Referrer, more bool, err error) {
	out, err = call(ctx, d, func() (out []Referrer, err error) {
		err = d.atOnce(func(v *view) error {
			out, err = v.referrersFrom(disk.Address{Segment: segment, Page: page}, limit)
			return err
		})
		return out, err
	})
	// A reference may count several keys; it has one at least.
	return out, len(out) >= limit, d.noteDamage(err)
}

func (v *view) referrersFrom(from disk.Address, limit int) ([]Referrer, error) {
	list, err := v.refsFrom(from, limit)
	if err != nil {
		return nil, err
	}
	out := make([]Referrer, 0, len(list))
	for _, r := range list {
		keys, err := v.keysOf(r)
		if err != nil {
			return nil, err
		}
		for _, k := range keys {
			out = append(out, Referrer{r.at, k})
		}
	}
	return out, nil
}

// atOnce runs fn over one state of the index.
func (d *DB) atOnce(fn func(*view) error) error {
	snap := d.db.NewSnapshot()
	v := &view{r: snap}
	err := fn(v)
	return errors.Join(err, v.close(), snap.Close())
}

func (v *view) segmentKeys(segment uint64) ([]KeyEntry, error) {
	list, err := v.refs(segmentPrefix(kindRef, segment))
	if err != nil {
		return nil, err
	}
	if v.changes != nil { // they came behind
		slices.SortFunc(list, compareRefs)
	}
	return v.resolve(list)
}

func compareRefs(a, b ref) int {
	return cmp.Or(cmp.Compare(a.at.Segment, b.at.Segment), cmp.Compare(a.at.Page, b.at.Page),
		cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.tag, b.tag))
}

// referrers lists the keys whose bytes lie at an address.
func (v *view) referrers(a disk.Address) ([]KeyEntry, error) {
	list, err := v.refsAt(a)
	if err != nil {
		return nil, err
	}
	all, err := v.resolve(list)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(k KeyEntry) bool { return k.Address != a }), nil
}

// resolve finds the keys behind references: those of the tag whose entry
// names the address. A tag that several keys share is told apart by that. They
// come in the order of the references, and are looked up in that of the tags.
func (v *view) resolve(list []ref) ([]KeyEntry, error) {
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(list[a].namespace, list[b].namespace), cmp.Compare(list[a].tag, list[b].tag))
	})
	first := make([]KeyEntry, len(list))
	more := map[int][]KeyEntry{} // of references that count several keys
	total := 0
	for _, i := range order {
		keys, err := v.keysOf(list[i])
		if err != nil {
			return nil, err
		}
		first[i] = keys[0]
		if len(keys) > 1 {
			more[i] = keys[1:]
		}
		total += len(keys)
	}
	if len(more) == 0 {
		return first, nil
	}
	out := make([]KeyEntry, 0, total)
	for i, k := range first {
		out = append(append(out, k), more[i]...)
	}
	return out, nil
}

// keysOf are the keys of one reference, as many as it counts.
func (v *view) keysOf(r ref) ([]KeyEntry, error) {
	same, err := v.tagged(r.keyTag)
	if err != nil {
		return nil, err
	}
	keys := slices.DeleteFunc(same, func(k KeyEntry) bool { return k.Address != r.at && k.Own.Address != r.at })
	if uint64(len(keys)) != r.count {
		return nil, errBadRecord // a reference without its key, or the reverse
	}
	return keys, nil
}

// tagged lists the keys of a tag: one, but for chance or ill will.
func (v *view) tagged(t keyTag) (out []KeyEntry, err error) {
	err = v.scanTag(t.appendPrefix(nil), func(key, value []byte) error {
		k, err := decodeKey(key)
		if err != nil {
			return err
		}
		e, err := decodeEntry(value)
		if err != nil {
			return err
		}
		out = append(out, KeyEntry{k, e})
		return nil
	})
	return out, err
}

// refsAt lists the references to an address.
func (v *view) refsAt(a disk.Address) ([]ref, error) { return v.refs(appendRefPrefix(nil, a)) }

func (v *view) refs(prefix []byte) (list []ref, err error) {
	err = v.scan(prefix, func(key, value []byte) error {
		r, err := readRef(key, value)
		if err == nil {
			list = append(list, r)
		}
		return err
	})
	return list, err
}

func readRef(key, value []byte) (ref, error) {
	at, t, err := decodeRef(key)
	if err != nil {
		return ref{}, err
	}
	n, err := decodeRefCount(value)
	return ref{at, t, n}, err
}

// refsFrom lists the first limit references to addresses of a segment, from
// one on. It is for views without changes.
func (v *view) refsFrom(from disk.Address, limit int) (list []ref, err error) {
	it, err := v.r.NewIter(&pebble.IterOptions{
		LowerBound: appendRefPrefix(nil, from), UpperBound: prefixEnd(segmentPrefix(kindRef, from.Segment)),
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for it.First(); it.Valid() && len(list) < limit; it.Next() {
		r, err := readRef(it.Key(), it.Value())
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, it.Error()
}
