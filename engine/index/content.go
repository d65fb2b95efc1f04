package index

import (
	"context"
	"errors"

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
		if known, err := d.hasContent(tenant, t); err != nil || !known { // as with most new content
			return a, err
		}
		err = d.atOnce(func(v *view) error {
			at, ok, err := v.content(tenant, t)
			if err != nil || !ok { // not any more
				return err
			}
			a.e, a.ok, err = v.shared(at, t)
			return err
		})
		return a, err
	})
	return a.e, a.ok, d.noteDamage(err)
}

// hasContent reports whether content is recorded, without the snapshot that
// it takes to say where.
func (d *DB) hasContent(tenant uint32, t ContentTag) (bool, error) {
	v := &view{r: d.db}
	_, ok, err := v.content(tenant, t)
	return ok, errors.Join(err, v.close())
}

// SharersMax bounds the keys that share an extent, but for those that were put
// at the same time: each costs whoever comes next a look. Further blocks of that
// content are written in full.
const SharersMax = 64

// shared is the extent at an address if one more key may share it.
func (v *view) shared(at disk.Address, t ContentTag) (Extent, bool, error) {
	list, err := v.refsAt(at)
	if err != nil || len(list) >= SharersMax {
		return Extent{}, false, err
	}
	for _, r := range list {
		keys, err := v.keysOf(r)
		if err != nil {
			return Extent{}, false, err
		}
		for _, k := range keys {
			if k.Address == at && k.Content == t {
				return k.Extent, true, nil
			}
		}
	}
	return Extent{}, false, nil
}

// content is the address at which content of a tenant is recorded.
func (v *view) content(tenant uint32, t ContentTag) (disk.Address, bool, error) {
	p, ok, err := v.get(contentKey(tenant, t))
	if err != nil || !ok {
		return disk.Address{}, false, err
	}
	at, err := decodeAddress(p)
	return at, err == nil, err
}
