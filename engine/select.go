package engine

import (
	"context"
	"slices"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/tiers/disk"
)

// Selection says which blocks are meant. All of its conditions are to hold;
// without any, every visible block is meant.
type Selection struct {
	// Namespaces are numbers of namespaces; empty: any.
	Namespaces []uint32
	// Tenant, if not nil, is whose namespaces.
	Tenant *string
	// Hashes are block hashes, in each namespace meant; empty: any.
	Hashes [][]byte
	// FirstSequence and EndSequence bound the put sequence, from the first up
	// to and without the end; 0: no bound.
	FirstSequence, EndSequence uint64
}

// blockFilter is a Selection made ready to be asked.
type blockFilter struct {
	o      Selection
	spaces map[uint32]uint64 // those meant, with their epoch floors
	hashes map[string]bool   // nil: any
}

// newBlockFilter checks a selection: a namespace or a tenant that the store
// does not have is an error, not an empty answer.
func (s *Store) newBlockFilter(o Selection) (*blockFilter, error) {
	f := &blockFilter{o: o, spaces: map[uint32]uint64{}}
	s.mu.Lock()
	for n, sp := range s.spaces {
		if (len(o.Namespaces) == 0 || slices.Contains(o.Namespaces, n)) && (o.Tenant == nil || sp.Tenant == *o.Tenant) {
			f.spaces[n] = sp.Floor
		}
	}
	for _, n := range o.Namespaces {
		if s.spaces[n] == nil {
			s.mu.Unlock()
			return nil, invalidf("the store has no namespace %d; the command layouts lists them", n)
		}
	}
	s.mu.Unlock()
	if o.Tenant != nil && len(f.spaces) == 0 {
		return nil, invalidf("tenant %q has no namespace among those selected", *o.Tenant)
	}
	for _, h := range o.Hashes {
		if err := checkHash(h); err != nil {
			return nil, err
		}
		if f.hashes == nil {
			f.hashes = map[string]bool{}
		}
		f.hashes[string(h)] = true
	}
	return f, nil
}

// has reports whether a block is meant, and visible.
func (f *blockFilter) has(k index.KeyEntry) bool {
	floor, ok := f.spaces[k.Namespace]
	return ok && k.Seq >= floor && k.Seq >= f.o.FirstSequence &&
		(f.o.EndSequence == 0 || k.Seq < f.o.EndSequence) &&
		(f.hashes == nil || f.hashes[k.Hash])
}

// eachBlock calls fn for each visible block that is meant. What is put
// meanwhile may be missed.
func (s *Store) eachBlock(ctx context.Context, f *blockFilter, fn func(index.KeyEntry) error) error {
	views, bad := s.overlayViews()
	visit := func(k index.KeyEntry) error {
		if bad[k.Address] || !f.has(k) {
			return nil
		}
		return fn(k)
	}
	err := s.idx.Keys(ctx, func(k index.KeyEntry) error {
		if v, ok := views[k.Key]; ok && (v.found || k.Seq <= v.dropSeq) {
			return nil
		}
		return visit(k)
	})
	if err != nil {
		return err
	}
	for k, v := range views {
		if v.found {
			if err := visit(index.KeyEntry{Key: k, Entry: v.entry}); err != nil {
				return err
			}
		}
	}
	return nil
}

// overlayViews is what the overlay says now, and which addresses are bad.
func (s *Store) overlayViews() (map[index.Key]view, map[disk.Address]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	views := make(map[index.Key]view, len(s.overlay.keys))
	for k := range s.overlay.keys {
		views[k] = s.overlay.look(k)
	}
	bad := make(map[disk.Address]bool, len(s.bad))
	for a := range s.bad {
		bad[a] = true
	}
	return views, bad
}
