package server

import (
	"context"
	"sync"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/engine/layout"
)

// plainName is the layout of the namespace of plain keys, one for each tenant.
const plainName = "plain-keys"

// spaces are the namespaces that are open.
type spaces struct {
	store *engine.Store
	max   int
	mu    sync.Mutex
	plain map[string]*engine.Namespace // by tenant

	lastID      int64
	byID        map[int64]*handle
	byKey       map[handleKey]*handle
	compression map[int64]engine.Compression
}

func newSpaces(store *engine.Store, handlesMax int) *spaces {
	return &spaces{store: store, max: handlesMax, plain: map[string]*engine.Namespace{},
		byID: map[int64]*handle{}, byKey: map[handleKey]*handle{}, compression: map[int64]engine.Compression{}}
}

// plainOf is the namespace of a tenant's plain keys. An error means that the
// store answers nothing now: values are shed, and reads are misses.
func (p *spaces) plainOf(ctx context.Context, tenant string) (*engine.Namespace, error) {
	p.mu.Lock()
	n := p.plain[tenant]
	p.mu.Unlock()
	if n != nil {
		return n, nil
	}
	n, err := p.store.Namespace(ctx, layout.Opaque(plainName), tenant, engine.NamespaceOptions{})
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plain[tenant] = n
	return n, nil
}

// forget drops a handle whose epoch has passed, so that the next command
// opens the namespace anew.
func (p *spaces) forget(tenant string, n *engine.Namespace) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.plain[tenant] == n {
		delete(p.plain, tenant)
	}
}
