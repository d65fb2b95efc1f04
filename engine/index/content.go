package index

import (
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sealstone/sealstone/tiers/disk"
)

// Content finds an extent that holds content of a tenant, or seems to: the tag
// is half of the content id, and not even equal ids prove equal bytes.
func (d *DB) Content(ctx context.Context, tenant uint32, t ContentTag) (Extent, bool, error) {
	type answer struct {
		e  Extent
		ok bool
	}
	a, err := call(ctx, d, func() (a answer, err error) {
		at, ok, err := getContent(d.db, tenant, t)
		if err != nil || !ok { // as of most new content
			return a, err
		}
		snap := d.db.NewSnapshot() // a record and what it leads to, of one state
		defer func() { err = errors.Join(err, snap.Close()) }()
		if at, ok, err = getContent(snap, tenant, t); err != nil || !ok {
			return a, err
		}
		keys, err := referrers(snap, at)
		if err != nil {
			return a, err
		}
		for _, k := range keys {
			if k.Content == t {
				return answer{k.Extent, true}, nil
			}
		}
		return a, nil
	})
	return a.e, a.ok, d.noteDamage(err)
}

func getContent(r pebble.Reader, tenant uint32, t ContentTag) (disk.Address, bool, error) {
	v, closer, err := r.Get(contentKey(tenant, t))
	if errors.Is(err, pebble.ErrNotFound) {
		return disk.Address{}, false, nil
	}
	if err != nil {
		return disk.Address{}, false, err
	}
	defer closer.Close()
	at, err := decodeAddress(v)
	return at, err == nil, err
}
