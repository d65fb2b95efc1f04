package index

import (
	"context"
	"encoding/binary"
	"errors"
	"maps"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sealstone/sealstone/tiers/disk"
)

// Use is what the keys of a namespace hold in segments. An extent that several
// keys refer to counts once, in the lowest namespace that does: only keys of one
// tenant ever share one. An alias's own extent counts in its namespace.
type Use struct {
	Blocks int64
	Bytes  int64
}

// uses are those of all namespaces.
type uses map[uint32]Use

func (u uses) add(namespace uint32, blocks, bytes int64) {
	n := u[namespace]
	u[namespace] = Use{n.Blocks + blocks, n.Bytes + bytes}
}

// payer is the namespace in which an extent with these references counts.
func payer(list []ref) (namespace uint32, ok bool) {
	for _, r := range list {
		if !ok || r.namespace < namespace {
			namespace, ok = r.namespace, true
		}
	}
	return namespace, ok
}

// pay moves the bytes of an extent from who counted it to who does now.
func (u uses) pay(before, after []ref, bytes int64) {
	from, had := payer(before)
	to, has := payer(after)
	if had && has && from == to {
		return
	}
	if had {
		u.add(from, 0, -bytes)
	}
	if has {
		u.add(to, 0, bytes)
	}
}

// Uses is what all namespaces with keys hold, as of the last Update. It asks
// nobody and never waits; the caller owns the result.
func (d *DB) Uses() map[uint32]Use {
	d.usesMu.Lock()
	defer d.usesMu.Unlock()
	return maps.Clone(d.uses)
}

// took enters what an update has changed.
func (d *DB) took(changed uses) {
	d.usesMu.Lock()
	defer d.usesMu.Unlock()
	for namespace, delta := range changed {
		d.uses.add(namespace, delta.Blocks, delta.Bytes)
		if d.uses[namespace] == (Use{}) {
			delete(d.uses, namespace)
		}
	}
}

func useKey(namespace uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{kindUse}, namespace)
}

func appendUse(dst []byte, u Use) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, uint64(u.Blocks))
	return binary.LittleEndian.AppendUint64(dst, uint64(u.Bytes))
}

func decodeUse(k, v []byte) (namespace uint32, u Use, err error) {
	if len(k) != 5 || len(v) != 16 {
		return 0, Use{}, errBadRecord
	}
	u = Use{int64(binary.LittleEndian.Uint64(v)), int64(binary.LittleEndian.Uint64(v[8:]))}
	if u.Blocks < 0 || u.Bytes < 0 || u == (Use{}) {
		return 0, Use{}, errBadRecord
	}
	return binary.BigEndian.Uint32(k[1:]), u, nil
}

// readUses reads the u records.
func (d *DB) readUses() (uses, error) {
	out := uses{}
	err := d.scan(kindUse, func(k, v []byte) error {
		namespace, u, err := decodeUse(k, v)
		out[namespace] = u
		return err
	})
	return out, err
}

// tally counts uses from references in the order of their addresses.
type tally struct {
	uses  uses
	at    disk.Address // whose keys are being met
	payer uint32
	bytes int64
}

// meet takes in the keys of one reference.
func (t *tally) meet(r ref, keys []KeyEntry) {
	for _, k := range keys {
		switch {
		case k.Address == r.at && t.at != r.at:
			t.close()
			t.at, t.payer, t.bytes = r.at, r.namespace, k.Bytes()
			t.uses.add(r.namespace, 1, 0)
		case k.Address == r.at:
			t.payer = min(t.payer, r.namespace)
			t.uses.add(r.namespace, 1, 0)
		case k.Own.Address == r.at:
			t.uses.add(r.namespace, 0, k.Own.Bytes())
		}
	}
}

func (t *tally) close() {
	if !t.at.IsZero() {
		t.uses.add(t.payer, 0, t.bytes)
	}
	t.at = disk.Address{}
}

// countUses counts uses anew, from every reference and its keys.
func (d *DB) countUses() (uses, error) {
	t := tally{uses: uses{}}
	v := &view{r: d.db}
	err := d.scan(kindRef, func(k, value []byte) error {
		r, err := readRef(k, value)
		if err != nil {
			return err
		}
		keys, err := v.keysOf(r)
		if err != nil {
			return err
		}
		t.meet(r, keys)
		return nil
	})
	t.close()
	return t.uses, errors.Join(err, v.close())
}

// openUses reads the uses; an index of a version that had none gets them, and
// the mark of this version, in one batch.
func (d *DB) openUses(version int) error {
	if version == recordVersion {
		u, err := d.readUses()
		d.uses = u
		return err
	}
	u, err := d.countUses()
	if err != nil {
		return err
	}
	d.uses = u
	if d.opts.ReadOnly {
		d.countless = true
		return nil
	}
	b := d.db.NewBatch()
	defer b.Close()
	for namespace, use := range u {
		if err := b.Set(useKey(namespace), appendUse(nil, use), nil); err != nil {
			return err
		}
	}
	if err := b.Set(metaComplete, d.mark(), nil); err != nil {
		return err
	}
	if err := d.db.Apply(b, pebble.NoSync); err != nil {
		return err
	}
	return d.flushOrGiveUp()
}

// RecountUses counts anew what Uses keeps, from every record: for tests and for
// whoever doubts it.
func (d *DB) RecountUses(ctx context.Context) (map[uint32]Use, error) {
	u, err := call(ctx, d, d.countUses)
	return u, d.noteDamage(err)
}
