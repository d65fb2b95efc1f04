package index

import (
	"context"

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
		err = d.atOnce(func(v *view) error {
			at, ok, err := v.content(tenant, t)
			if err != nil || !ok { // as with most new content
				return err
			}
			keys, err := v.referrers(at)
			for _, k := range keys {
				if k.Content == t {
					a = answer{k.Extent, true}
					break
				}
			}
			return err
		})
		return a, err
	})
	return a.e, a.ok, d.noteDamage(err)
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
