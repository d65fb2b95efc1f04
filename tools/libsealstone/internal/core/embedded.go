package core

import (
	"context"
	"encoding/json"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/tools/internal/figures"
)

// embedded is a store of this process.
type embedded struct{ s *engine.Store }

func openEmbedded(o *options) (backend, error) {
	s, err := engine.Open(o.dir, o.engine)
	if err != nil {
		return nil, err
	}
	return embedded{s}, nil
}

func (embedded) mode() string { return "embedded" }

func (e embedded) namespace(ctx context.Context, l engine.Layout, tenant string, o engine.NamespaceOptions) (space, error) {
	n, err := e.s.Namespace(ctx, l, tenant, o)
	if err != nil {
		return nil, err
	}
	return embeddedSpace{n}, nil
}

func (e embedded) register(p []byte, _ int) (func(), error) {
	m, err := e.s.RegisterMemory(p, engine.MemoryOptions{})
	if err != nil {
		return nil, err
	}
	return m.Release, nil
}

func (e embedded) stats(context.Context) (json.RawMessage, error) {
	return json.Marshal(figures.Of(e.s, e.s.Dir()))
}

func (e embedded) health(context.Context) Health {
	h := e.s.Health()
	return Health{HealthState(h.State), h.State.String(), h.Reasons}
}

func (e embedded) events(after uint64) ([]engine.Event, error) { return e.s.Events(after), nil }

func (e embedded) close(ctx context.Context) error { return e.s.Close(ctx) }

// embeddedSpace is a namespace of an embedded store.
type embeddedSpace struct{ *engine.Namespace }

func (n embeddedSpace) match(ctx context.Context, hashes [][]byte) (lease, error) {
	l, err := n.Match(ctx, hashes)
	if err != nil {
		return nil, err
	}
	return embeddedLease{l}, nil
}

func (n embeddedSpace) lookupNow(hashes [][]byte) []engine.Status { return n.LookupNow(hashes) }

func (n embeddedSpace) bump(ctx context.Context) (space, error) {
	next, err := n.BumpEpoch(ctx)
	if err != nil {
		return nil, err
	}
	return embeddedSpace{next}, nil
}

func (n embeddedSpace) onlyPlane() string {
	l := n.Layout()
	return onlyPlane(&l)
}

type embeddedLease struct{ *engine.Lease }

func (l embeddedLease) renew(context.Context) bool { return l.Renew() }
