package core

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/tools/client"
)

// remote is a store behind a server.
type remote struct{ c *client.Client }

func openRemote(ctx context.Context, o *options) (backend, error) {
	c, err := client.Dial(ctx, o.server, client.Options{
		User: o.user, Password: o.token, CallTimeout: o.callTimeout, Connections: min(o.workers, 8),
	})
	if err != nil {
		return nil, err
	}
	return remote{c}, nil
}

func (remote) mode() string { return "server" }

func (r remote) namespace(ctx context.Context, l engine.Layout, tenant string, o engine.NamespaceOptions) (space, error) {
	n, err := r.c.Namespace(ctx, l, tenant, o)
	if err != nil {
		return nil, err
	}
	return remoteSpace{n}, nil
}

func (r remote) register(p []byte, fd int) (func(), error) {
	region, err := r.c.RegisterMemory(p, fd)
	if err != nil {
		return nil, err
	}
	return region.Release, nil
}

func (r remote) stats(ctx context.Context) (json.RawMessage, error) { return r.c.Stats(ctx) }

func (r remote) health(ctx context.Context) Health {
	h, err := r.c.Health(ctx)
	if err != nil {
		return Health{Unreached, "unreached", []string{err.Error()}}
	}
	for _, s := range []engine.HealthState{engine.HealthOK, engine.HealthReadOnly, engine.HealthAllMiss, engine.HealthClosed} {
		if h.State == s.String() {
			return Health{HealthState(s), h.State, h.Reasons}
		}
	}
	return Health{Unreached, "unreached", append(h.Reasons, "the server says "+h.State)}
}

func (remote) events(uint64) ([]engine.Event, error) {
	return nil, failf(Unsupported, "a server's events are on its status page")
}

// close fails only where calls under way outlast ctx: the client can be closed
// again, and has to be.
func (r remote) close(ctx context.Context) error {
	if err := r.c.Close(ctx); err != nil {
		return fmt.Errorf("%w: calls to the server are under way: %w", engine.ErrClosing, err)
	}
	return nil
}

// remoteSpace is a namespace behind a server.
type remoteSpace struct{ *client.Namespace }

func (n remoteSpace) match(ctx context.Context, hashes [][]byte) (lease, error) {
	l, err := n.Match(ctx, hashes)
	if err != nil {
		return nil, err
	}
	return remoteLease{l}, nil
}

// lookupNow: this process has nothing in memory about the server's blocks.
func (remoteSpace) lookupNow(hashes [][]byte) []engine.Status {
	out := make([]engine.Status, len(hashes))
	for i := range out {
		out[i] = engine.StatusTimeout
	}
	return out
}

func (n remoteSpace) bump(ctx context.Context) (space, error) {
	next, err := n.BumpEpoch(ctx)
	if err != nil {
		return nil, err
	}
	return remoteSpace{next}, nil
}

func (n remoteSpace) onlyPlane() string {
	l := n.Layout()
	return onlyPlane(&l)
}

type remoteLease struct{ *client.Lease }

func (l remoteLease) renew(ctx context.Context) bool { return l.Renew(ctx) }
