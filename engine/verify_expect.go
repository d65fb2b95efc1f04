package engine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/tiers/disk"
)

// expected is an extent that must be in a segment: the index refers to it, or
// the footer lists it.
type expected struct {
	page        uint32
	headerPages uint16
	pages       uint32
	headerSum   uint64
	footer      *disk.FooterEntry // nil if the footer does not list it
	// blocks are the keys whose bytes these are. alias is the key that this
	// header alone was written for.
	blocks []index.KeyEntry
	alias  *index.KeyEntry
}

func (x *expected) end() uint32 { return x.page + x.pages }

// owner is the block that a finding about the extent names: the one that it
// was written for if that still lives.
func (x *expected) owner() (k index.Key, ok bool) {
	if x.alias != nil {
		return x.alias.Key, true
	}
	for _, b := range x.blocks {
		if !b.IsAlias() {
			return b.Key, true
		}
	}
	if len(x.blocks) > 0 {
		return x.blocks[0].Key, true
	}
	if x.footer != nil {
		return index.Key{Namespace: x.footer.Namespace, Hash: string(x.footer.Hash)}, true
	}
	return k, false
}

// kind is what damage of the extent amounts to.
func (x *expected) kind() DamageKind {
	switch {
	case len(x.blocks) > 0:
		return DamageBlock
	case x.alias != nil:
		return DamageAlias
	}
	return DamageDead
}

// damage begins a finding about the extent.
func (x *expected) damage(kind DamageKind, segment uint64) Damage {
	d := Damage{Kind: kind, File: disk.SegmentName(segment), Segment: segment, Page: x.page, Blocks: len(x.blocks)}
	if k, ok := x.owner(); ok {
		d.Namespace, d.Hash = k.Namespace, fmt.Sprintf("%x", k.Hash)
	}
	return d
}

// expectations lists what must be in a segment, in order of pages.
func (v *verifier) expectations(ctx context.Context, segment uint64, footer []disk.FooterEntry) ([]*expected, error) {
	m := expectedSet{}
	for i := range footer {
		f := &footer[i]
		m.at(index.Extent{
			Address: disk.Address{Segment: segment, Page: f.Page}, HeaderPages: f.HeaderPages,
			Pages: uint32(f.HeaderPages) + f.PayloadPages, HeaderSum: f.HeaderSum,
		}).footer = f
	}
	if v.rec.lost != "" {
		for _, x := range m {
			v.claimByFooter(x, segment)
		}
		for _, k := range v.logged[segment] {
			if !v.gone(k) {
				m.claim(k, segment)
			}
		}
		return m.sorted(), nil
	}
	keys, err := v.keysOf(ctx, segment)
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		m.claim(k, segment)
	}
	return m.sorted(), nil
}

// keysOf lists the visible keys with bytes or an alias in a segment, each
// once, as they will be when the log is applied.
func (v *verifier) keysOf(ctx context.Context, segment uint64) ([]index.KeyEntry, error) {
	base, err := v.s.idx.SegmentKeys(ctx, segment)
	if err != nil {
		return nil, fmt.Errorf("engine: read the index: %w", err)
	}
	for _, k := range v.changes.segments[segment] {
		base = append(base, index.KeyEntry{Key: k, Entry: *v.changes.keys[k]})
	}
	seen := map[index.Key]bool{}
	keys := base[:0]
	for _, k := range base {
		e, touched := v.changes.keys[k.Key]
		if seen[k.Key] || touched && (e == nil || *e != k.Entry) || k.Seq < v.s.floorLocked(k.Namespace) {
			continue
		}
		seen[k.Key] = true
		keys = append(keys, k)
	}
	return keys, nil
}

type expectedSet map[uint32]*expected

func (m expectedSet) at(e index.Extent) *expected {
	x := m[e.Address.Page]
	if x == nil {
		x = &expected{page: e.Address.Page}
		m[e.Address.Page] = x
	}
	// Where footer and index differ the index counts: a get asks it alone.
	x.headerPages, x.pages, x.headerSum = e.HeaderPages, e.Pages, e.HeaderSum
	return x
}

func (m expectedSet) claim(k index.KeyEntry, segment uint64) {
	if k.Address.Segment == segment {
		x := m.at(k.Extent)
		x.blocks = append(x.blocks, k)
	}
	if k.IsAlias() && k.Own.Address.Segment == segment {
		m.at(k.Own).alias = &k
	}
}

func (m expectedSet) sorted() []*expected {
	return slices.SortedFunc(maps.Values(m), func(a, b *expected) int { return cmp.Compare(a.page, b.page) })
}
