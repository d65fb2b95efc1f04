package engine

import (
	"context"
	"fmt"

	"github.com/sealstone/sealstone/engine/layout"
	"github.com/sealstone/sealstone/engine/meta"
)

// Layout is everything that decides what a block's bytes mean; see package
// layout.
type Layout = layout.Layout

// NamespaceOptions says how Store.Namespace treats a layout that is not
// stored yet.
type NamespaceOptions struct {
	// RequireMatch fails with a *LayoutMismatchError instead of making a new
	// namespace when the tenant has blocks under another layout of the same
	// model.
	RequireMatch bool
	// Compression is how blocks put through this handle are stored, off by
	// default. MinSavingShare is what CompressionAuto wants to save, 0.10 by
	// default.
	Compression    Compression
	MinSavingShare float64
	// GPUDirect marks the namespace as one whose blocks a GPU reads by
	// itself, which cannot decode: until the store is closed nothing put to
	// it, by any handle, is compressed. Blocks that are stored compressed
	// stay so.
	GPUDirect bool
}

// NamespaceInfo describes a namespace.
type NamespaceInfo struct {
	Number      uint32
	Tenant      string
	Fingerprint [16]byte
	Epoch       uint64
	Floor       uint64 // put sequences below are of older epochs
}

// Namespace is a handle on the blocks of one layout and tenant. It is bound
// to the epoch at which it was opened.
type Namespace struct {
	s      *Store
	info   NamespaceInfo
	layout Layout
	// planes gives each plane's place in the layout.
	planes   map[string]int
	diffs    []layout.Difference
	warn     []string
	space    *space
	compress *compressor
}

// Info describes the namespace as it was when the handle was opened.
func (n *Namespace) Info() NamespaceInfo { return n.info }

// Layout is the namespace's descriptor.
func (n *Namespace) Layout() Layout { return n.layout }

// Differences lists, for a namespace that this call made, the fields in which
// its layout differs from the tenant's nearest stored one: A is stored, B new.
// Empty if there was none, or if the namespace existed.
func (n *Namespace) Differences() []layout.Difference { return n.diffs }

// Warnings are sentences for an operator's eyes, such as a root hash that
// differs from the stored one.
func (n *Namespace) Warnings() []string { return n.warn }

// Namespace opens the namespace of a layout and a tenant, and makes it if it
// is new. A new one is durable when Namespace returns. When the context ends
// first, it may be made later or not: ask again.
func (s *Store) Namespace(ctx context.Context, l Layout, tenant string, o NamespaceOptions) (*Namespace, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := l.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err := o.checkCompression(); err != nil {
		return nil, err
	}
	if n, err := s.knownNamespace(l, tenant, o); n != nil || err != nil {
		return n, err
	}
	l = l.Clone() // the caller may leave
	return control(ctx, s, "open namespace", func(context.Context) (*Namespace, error) { return s.namespace(l, tenant, o) })
}

// knownNamespace opens a namespace that is there, which asks no device.
func (s *Store) knownNamespace(l Layout, tenant string, o NamespaceOptions) (*Namespace, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.ops.done()
	m, ok := s.meta.Lookup(tenant, l.Fingerprint())
	if !ok {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spaces[m.Number] == nil {
		return nil, nil // it is being made; wait for that
	}
	return s.handleLocked(m, newCompressor(o)).marked(o)
}

func (s *Store) namespace(l Layout, tenant string, o NamespaceOptions) (*Namespace, error) {
	near, found := s.nearest(l, tenant)
	if found && o.RequireMatch {
		return nil, &LayoutMismatchError{Tenant: tenant, Differences: near}
	}
	if err := s.writable(); err != nil {
		return nil, err
	}
	m, err := s.meta.AddNamespace(tenant, l, s.o.private.now().Unix())
	if err != nil {
		s.metaFailed()
		return nil, fmt.Errorf("engine: add namespace: %w", err)
	}
	s.mu.Lock()
	if s.spaces[m.Number] == nil {
		s.addSpaceLocked(m)
	}
	n, err := s.handleLocked(m, newCompressor(o)).marked(o)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if found {
		n.diffs = near
		s.noteNear(n, tenant)
	}
	return n, nil
}

func (s *Store) handleLocked(m meta.Namespace, c *compressor) *Namespace {
	sp := s.spaces[m.Number]
	if sp != nil {
		m = sp.Namespace
	}
	n := &Namespace{s: s, space: sp, compress: c, layout: m.Layout, planes: map[string]int{}, info: NamespaceInfo{
		Number: m.Number, Tenant: m.Tenant, Fingerprint: m.Fingerprint, Epoch: m.Epoch, Floor: m.Floor,
	}}
	for i, p := range m.Layout.Planes {
		n.planes[p.Name] = i
	}
	return n
}

// marked takes over the mark of GPUDirect, and holds other handles to it.
func (n *Namespace) marked(o NamespaceOptions) (*Namespace, error) {
	if o.GPUDirect {
		n.space.gpuDirect.Store(true)
	}
	if o.Compression != CompressionOff && n.gpuDirect() {
		return nil, invalidf("namespace %d is marked GPUDirect by another handle: leave Compression (%v) off", n.info.Number, o.Compression)
	}
	return n, nil
}

func (n *Namespace) gpuDirect() bool { return n.space != nil && n.space.gpuDirect.Load() }

// nearest compares with the tenant's stored layouts of the same model and
// returns the fewest differences.
func (s *Store) nearest(l Layout, tenant string) ([]layout.Difference, bool) {
	var best []layout.Difference
	found := false
	for _, m := range s.meta.Namespaces() {
		if m.Tenant != tenant || !layout.Near(m.Layout, l) {
			continue
		}
		if d := layout.Diff(m.Layout, l); !found || len(d) < len(best) {
			best, found = d, true
		}
	}
	return best, found
}

func (s *Store) noteNear(n *Namespace, tenant string) {
	for _, d := range n.diffs {
		if d.Field == fieldRootHash {
			n.warn = append(n.warn, fmt.Sprintf("root hash differs from the stored one (stored %s, now %s): "+
				"if the engine draws it anew at each start, its blocks will never be found again; give it a fixed hash seed", d.A, d.B))
		}
	}
	s.event(EventLayoutNear, "new layout of tenant %q differs from a stored one in %d field(s): %v", tenant, len(n.diffs), n.diffs)
	for _, w := range n.warn {
		s.o.Logger.Warn("sealstone: "+w, "dir", s.dir)
	}
}

// stale reports whether the epoch has moved on since the handle was opened.
func (n *Namespace) stale() bool {
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	return n.staleLocked()
}

func (n *Namespace) staleLocked() bool {
	sp := n.s.spaces[n.info.Number]
	return sp == nil || sp.Epoch != n.info.Epoch
}

// BumpEpoch makes all blocks of the namespace invisible at once and first to
// go: the weights were swapped. It is durable when it returns, and gives a
// handle of the new epoch; handles opened before answer StaleEpoch. When the
// context ends first, the epoch may move on later or not: a further BumpEpoch
// by the same handle answers ErrEpoch if it has.
func (n *Namespace) BumpEpoch(ctx context.Context) (*Namespace, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return control(ctx, n.s, "bump epoch", func(context.Context) (*Namespace, error) { return n.bumpEpoch() })
}

// bumpEpoch raises the floor durably before it is visible. No record is logged
// meanwhile, so every put that is logged later is checked against it.
func (n *Namespace) bumpEpoch() (*Namespace, error) {
	s := n.s
	if err := s.writable(); err != nil {
		return nil, err
	}
	s.orderMu.Lock()
	defer s.orderMu.Unlock()
	if n.stale() {
		return nil, ErrEpoch
	}
	floor, err := s.nextSequences(1)
	if err != nil {
		return nil, fmt.Errorf("engine: bump epoch: %w", err)
	}
	m, err := s.meta.RaiseFloor(n.info.Number, floor)
	if err != nil {
		s.metaFailed()
		return nil, fmt.Errorf("engine: bump epoch: %w", err)
	}
	s.mu.Lock()
	s.spaces[m.Number].Namespace = m
	handle := s.handleLocked(m, n.compress)
	s.mu.Unlock()
	s.events.add(s.o.private.now(), EventEpoch, fmt.Sprintf("namespace %d: epoch %d, floor %d", m.Number, m.Epoch, m.Floor))
	return handle, nil
}

// fieldRootHash is how layout.Diff names the hash scheme's root.
const fieldRootHash = "hash.root"
