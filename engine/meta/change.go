package meta

import (
	"errors"
	"fmt"

	"github.com/sealstone/sealstone/engine/layout"
)

// AddNamespace makes a namespace, durable before it returns. If the tenant has
// one with this layout, that one is returned and nothing is written.
func (m *Meta) AddNamespace(tenant string, l layout.Layout, nowUnix int64) (Namespace, error) {
	if err := checkTenant(tenant); err != nil {
		return Namespace{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err := l.Validate(); err != nil {
		return Namespace{}, fmt.Errorf("meta: add namespace: %w", err)
	}
	n := Namespace{
		Tenant: tenant, Layout: l.Clone(), Fingerprint: l.Fingerprint(),
		Epoch: 1, CreatedUnix: nowUnix,
	}
	if there, ok := m.Lookup(tenant, n.Fingerprint); ok {
		return there, nil // also read-only or poisoned: nothing is to be written
	}
	err := m.change(func(next *namesState) error {
		if there := next.find(tenant, n.Fingerprint); there != nil {
			n = *there
			return errUnchanged
		}
		if len(next.list) >= MaxNamespaces {
			return fmt.Errorf("%w: %d namespaces", ErrFull, len(next.list))
		}
		n.Number = next.nextNumber
		next.nextNumber++
		next.list = append(next.list, n)
		return nil
	})
	if err != nil && !errors.Is(err, errUnchanged) {
		return Namespace{}, err
	}
	return n.clone(), nil
}

// RaiseFloor begins a new epoch of a namespace: puts below floor are dead.
// Durable before it returns. A floor below the present one leaves that as it
// is (the epoch still moves on). No sequence below the floor is handed out
// later by ReserveSequences: a new put must not be born dead.
func (m *Meta) RaiseFloor(number uint32, floor uint64) (Namespace, error) {
	if floor > maxBound {
		return Namespace{}, fmt.Errorf("%w: floor %d", ErrInvalid, floor)
	}
	var n Namespace
	err := m.change(func(next *namesState) error {
		for i := range next.list {
			if next.list[i].Number != number {
				continue
			}
			next.list[i].Epoch++
			next.list[i].Floor = max(next.list[i].Floor, floor)
			next.sequenceBound = max(next.sequenceBound, floor)
			n = next.list[i]
			return nil
		}
		return fmt.Errorf("%w: %d", ErrNoNamespace, number)
	})
	if err != nil {
		return Namespace{}, err
	}
	return n.clone(), nil
}

// ReserveSegments hands out the segment ids [first, bound), at least n and up
// to the next multiple of SegmentStep. They are never handed out again, also
// after a crash; durable before it returns. The first id ever is 1.
func (m *Meta) ReserveSegments(n uint64) (first, bound uint64, err error) {
	err = m.change(func(next *namesState) (err error) {
		first = next.segmentBound
		bound, err = raise(first, n, SegmentStep)
		next.segmentBound = bound
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	return first, bound, nil
}

// ReserveSequences hands out the put sequences [first, bound), at least n and
// up to the next multiple of SequenceStep, as ReserveSegments does ids.
func (m *Meta) ReserveSequences(n uint64) (first, bound uint64, err error) {
	err = m.change(func(next *namesState) (err error) {
		first = next.sequenceBound
		bound, err = raise(first, n, SequenceStep)
		next.sequenceBound = bound
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	return first, bound, nil
}

func raise(bound, n, step uint64) (uint64, error) {
	if n == 0 {
		return 0, fmt.Errorf("%w: reserve nothing", ErrInvalid)
	}
	if n > maxBound || bound+n > maxBound-step {
		return 0, fmt.Errorf("%w: %d more beyond %d", ErrFull, n, bound)
	}
	return (bound + n + step - 1) / step * step, nil
}

// RaisePebbleFormat records the index's new format version, durable before it
// returns. It is never lowered: older code could not open the index.
func (m *Meta) RaisePebbleFormat(version uint32) error {
	m.writing.Lock()
	defer m.writing.Unlock()
	if err := m.writable(); err != nil {
		return err
	}
	next := *m.store.Load()
	switch {
	case version < next.info.PebbleFormat:
		return fmt.Errorf("%w: index format %d is below %d", ErrInvalid, version, next.info.PebbleFormat)
	case version == next.info.PebbleFormat:
		return nil
	}
	next.info.PebbleFormat = version
	next.info.Generation++
	next.info.Features.Compat = 0
	if err := replacePair(m.fs, StoreFile, StoreCopyFile, encodeStore(next)); err != nil {
		return m.poison(err) // only Open raises it, and fails with it
	}
	m.store.Store(&next)
	return nil
}
