package meta

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sealstone/sealstone/engine/layout"
	"github.com/sealstone/sealstone/internal/sums"
	"github.com/sealstone/sealstone/internal/vfs"
)

const (
	// SegmentStep is the grain of reserved segment ids: the bound is a
	// multiple of it, so that NAMESPACES is written rarely.
	SegmentStep = 64
	// SequenceStep is that of put sequences.
	SequenceStep = 1 << 20

	maxBound = uint64(1) << 62 // far from overflow, never reached
)

// Meta is the open metadata of a store. It is safe for concurrent use; reads
// do not wait for a write's I/O. It holds no files open.
type Meta struct {
	fs       vfs.FS
	readOnly bool
	key      sums.Key

	writing sync.Mutex // held over a change and its I/O
	// tried is the highest generation of NAMESPACES that a change has tried to
	// write, with writing: one that failed may be on disk all the same.
	tried    uint64
	store    atomic.Pointer[storeState]
	names    atomic.Pointer[namesState]
	poisoned atomic.Pointer[error]
}

func newMeta(fsys vfs.FS, readOnly bool, s *storeState, n *namesState) *Meta {
	m := &Meta{fs: fsys, readOnly: readOnly, key: sums.NewKey(s.secret)}
	m.store.Store(s)
	m.names.Store(n)
	return m
}

// Store is what STORE says.
func (m *Meta) Store() StoreInfo { return m.store.Load().info }

// Key makes the keyed sums of this store.
func (m *Meta) Key() sums.Key { return m.key }

// Err is nil, or says why nothing can be written any more; it then wraps
// ErrPoisoned and the cause.
func (m *Meta) Err() error {
	if err := m.poisoned.Load(); err != nil {
		return *err
	}
	return nil
}

func (m *Meta) poison(cause error) error {
	if cause == nil {
		return nil
	}
	err := fmt.Errorf("%w: %w", ErrPoisoned, cause)
	m.poisoned.CompareAndSwap(nil, &err) // the first cause is the one to know
	return err
}

// Bounds are the reservations so far: segment ids and put sequences below them
// may have been used.
func (m *Meta) Bounds() (segments, sequences uint64) {
	n := m.names.Load()
	return n.segmentBound, n.sequenceBound
}

// Namespaces lists the namespaces, ascending by number.
func (m *Meta) Namespaces() []Namespace {
	list := slices.Clone(m.names.Load().list)
	for i := range list {
		list[i] = list[i].clone()
	}
	return list
}

// Lookup finds the namespace of a tenant and a layout's fingerprint.
func (m *Meta) Lookup(tenant string, fp [16]byte) (Namespace, bool) {
	if n := m.names.Load().find(tenant, fp); n != nil {
		return n.clone(), true
	}
	return Namespace{}, false
}

// Near lists the tenant's namespaces with a layout near to l and not equal to
// it: what to show the differences to when l is opened.
func (m *Meta) Near(tenant string, l layout.Layout) []Namespace {
	var near []Namespace
	fp := l.Fingerprint()
	for _, n := range m.names.Load().list {
		if n.Tenant == tenant && n.Fingerprint != fp && layout.Near(n.Layout, l) {
			near = append(near, n.clone())
		}
	}
	return near
}

func (s *namesState) find(tenant string, fp [16]byte) *Namespace {
	for i := range s.list {
		if s.list[i].Fingerprint == fp && s.list[i].Tenant == tenant {
			return &s.list[i]
		}
	}
	return nil
}

// errUnchanged ends a change that turns out to be none.
var errUnchanged = errors.New("meta: unchanged")

// change edits a copy of the names, makes it durable in both files, and only
// then visible. One that fails may be found by a later Open; in this run it has
// not taken place. The next change is written to new files again, so nothing of
// the failure is tried once more, and with a higher generation, so it wins.
func (m *Meta) change(edit func(next *namesState) error) error {
	m.writing.Lock()
	defer m.writing.Unlock()
	if err := m.writable(); err != nil {
		return err
	}
	next := *m.names.Load()
	next.list = slices.Clone(next.list)
	next.generation = max(next.generation, m.tried) + 1
	next.features.Compat = 0 // what unknown bits stand for is not kept
	if err := edit(&next); err != nil {
		return err
	}
	p := encodeNames(&next, m.key)
	if len(p) > MaxNamespacesBytes {
		return fmt.Errorf("%w: %s would have %d bytes, more than %d", ErrFull, NamespacesFile, len(p), MaxNamespacesBytes)
	}
	m.tried = next.generation
	if err := replacePair(m.fs, NamespacesFile, NamespacesCopyFile, p); err != nil {
		return err
	}
	m.names.Store(&next)
	return nil
}

func (m *Meta) writable() error {
	if m.readOnly {
		return ErrReadOnly
	}
	return m.Err()
}
