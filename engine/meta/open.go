package meta

import (
	"fmt"

	"github.com/sealstone/sealstone/internal/sums"
	"github.com/sealstone/sealstone/internal/vfs"
)

const (
	storeAdvice = "restore one of the two from a backup; without them the secret is lost and no block can be verified: " +
		"else move the directory away and let a new store begin"
	namesAdvice = "restore one of the two from a backup; without them it is unknown what the blocks mean: " +
		"else move the directory away and let a new store begin"
)

// Open reads the metadata of a store. A copy that is missing, damaged or
// behind is a finding; unless readOnly it is healed from the other one.
//
// It fails with ErrNoStore, with a *DamagedError when no copy of a file can be
// used, and with an *UnsupportedError. If healing fails the store opens and is
// poisoned: reads go on, Err says why.
func Open(fsys vfs.FS, readOnly bool) (*Meta, []Finding, error) {
	s, other, storeFound, err := openStore(fsys, readOnly)
	if err != nil {
		return nil, nil, err
	}
	key := sums.NewKey(s.state.secret)
	decode := func(file string, raw []byte) (*namesState, uint64, error) {
		n, err := decodeNames(file, raw, key, s.state.info.UUID, readOnly)
		if n == nil {
			return nil, 0, err
		}
		return n, n.generation, err
	}
	a := readReplica(fsys, NamespacesFile, MaxNamespacesBytes, decode)
	b := readReplica(fsys, NamespacesCopyFile, MaxNamespacesBytes, decode)
	n, otherNames, namesFound, err := choose(&a, &b, namesAdvice)
	if err != nil {
		return nil, storeFound, err
	}
	m := newMeta(fsys, readOnly, &s.state, n.state)
	if !readOnly {
		m.poison(removeLeftovers(fsys))
		m.poison(heal(fsys, s, other, storeFound))
		m.poison(heal(fsys, n, otherNames, namesFound))
	}
	return m, append(storeFound, namesFound...), nil
}

func openStore(fsys vfs.FS, readOnly bool) (s, other *replica[storeState], found []Finding, err error) {
	decode := func(file string, raw []byte) (storeState, uint64, error) {
		s, err := decodeStore(file, raw, readOnly)
		return s, s.info.Generation, err
	}
	a := readReplica(fsys, StoreFile, maxStoreBytes, decode)
	b := readReplica(fsys, StoreCopyFile, maxStoreBytes, decode)
	if !a.missing || !b.missing {
		return choose(&a, &b, storeAdvice)
	}
	dir, err := orphanedData(fsys)
	switch {
	case err != nil:
		return nil, nil, nil, fmt.Errorf("meta: open: %w", err)
	case dir != "":
		findings := []Finding{a.finding(), b.finding(), {File: dir + "/", Problem: "has files of a store"}}
		return nil, nil, nil, &DamagedError{Findings: findings, Advice: storeAdvice}
	}
	return nil, nil, nil, ErrNoStore
}
