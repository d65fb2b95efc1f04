package server

import (
	"context"
	"errors"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/engine/layout"
)

// errHandles: the table of handles is full.
var errHandles = errors.New("server: too many namespaces are open")

// handle is an open namespace as peers name it, by a number.
type handle struct {
	id int64
	ns *engine.Namespace
}

// handleKey tells handles apart: equal opens give equal ones. Another epoch is
// another handle, as those of the older one answer nothing any more.
type handleKey struct {
	tenant      string
	fingerprint [16]byte
	epoch       uint64
	compression engine.Compression
}

func (h *handle) tenant() string { return h.ns.Info().Tenant }

// open opens a namespace, and gives it a number if it has none. Differences
// and warnings are of the namespace that this call returns.
func (p *spaces) open(ctx context.Context, l layout.Layout, tenant string, o engine.NamespaceOptions) (*handle, *engine.Namespace, error) {
	n, err := p.store.Namespace(ctx, l, tenant, o)
	if err != nil {
		return nil, nil, err
	}
	h, err := p.enter(n, o.Compression)
	return h, n, err
}

// bump begins a new epoch of a handle's namespace and gives its handle.
func (p *spaces) bump(ctx context.Context, h *handle) (*handle, *engine.Namespace, error) {
	n, err := h.ns.BumpEpoch(ctx)
	if err != nil {
		return nil, nil, err
	}
	p.mu.Lock()
	compression := p.compression[h.id]
	p.mu.Unlock()
	next, err := p.enter(n, compression)
	return next, n, err
}

// enter gives a namespace a number.
func (p *spaces) enter(n *engine.Namespace, c engine.Compression) (*handle, error) {
	i := n.Info()
	key := handleKey{i.Tenant, i.Fingerprint, i.Epoch, c}
	p.mu.Lock()
	defer p.mu.Unlock()
	if h := p.byKey[key]; h != nil {
		return h, nil
	}
	if len(p.byID) >= p.max {
		p.dropOlderLocked(i)
	}
	if len(p.byID) >= p.max {
		return nil, errHandles
	}
	p.lastID++
	h := &handle{id: p.lastID, ns: n}
	p.byKey[key], p.byID[h.id], p.compression[h.id] = h, h, c
	return h, nil
}

// dropOlderLocked makes room: handles of a namespace with a later epoch answer
// nothing but StaleEpoch, and a number that is not known says the same.
func (p *spaces) dropOlderLocked(opened engine.NamespaceInfo) {
	newest := map[uint32]uint64{opened.Number: opened.Epoch}
	for k, h := range p.byKey {
		n := h.ns.Info().Number
		newest[n] = max(newest[n], k.epoch)
	}
	for k, h := range p.byKey {
		if k.epoch < newest[h.ns.Info().Number] {
			delete(p.byKey, k)
			delete(p.byID, h.id)
			delete(p.compression, h.id)
		}
	}
}

// find gives the handle of a number, or nil.
func (p *spaces) find(id int64) *handle {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byID[id]
}

func (p *spaces) handles() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.byID)
}
