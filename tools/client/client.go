package client

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/engine/layout"
)

var errSoon = errors.New("client: not yet")

// Client is a pool of connections to one server.
type Client struct{}

// Dial connects to "unix:/path" or "host:port".
func Dial(ctx context.Context, address string, o Options) (*Client, error) { return nil, errSoon }

// Namespace opens a namespace as engine.Store.Namespace does; a differing layout
// is an *engine.LayoutMismatchError.
func (c *Client) Namespace(ctx context.Context, l layout.Layout, tenant string, o engine.NamespaceOptions) (*Namespace, error) {
	return nil, errSoon
}

// RegisterMemory shares memory with the server: p maps the file fd from its
// beginning, with MAP_SHARED. The file stays the caller's.
func (c *Client) RegisterMemory(p []byte, fd int) (*Region, error) { return nil, errSoon }

// NewRegion makes memory that is shared with the server.
func (c *Client) NewRegion(sizeBytes int64) (*Region, error) { return nil, errSoon }

// Stats are the server's figures as one JSON object.
func (c *Client) Stats(ctx context.Context) (json.RawMessage, error) { return nil, errSoon }

// Health is how much of its work the server's store does.
func (c *Client) Health(ctx context.Context) (Health, error) { return Health{}, errSoon }

// Close ends the connections, after the calls under way or at the end of ctx.
func (c *Client) Close(ctx context.Context) error { return nil }

// Health is the state of the server's store and why it is not better.
type Health struct {
	State   string
	Reasons []string
}

// Region is memory that the server shares.
type Region struct{}

// Bytes is the memory; nil after Release.
func (r *Region) Bytes() []byte { return nil }

// Release ends the region. No call may use it any more.
func (r *Region) Release() {}

// Lease keeps the blocks of a match, see engine.Lease. It ends with its
// connection too.
type Lease struct{}

// Blocks is the length of the longest stored prefix.
func (l *Lease) Blocks() int { return 0 }

// Duration is how long the lease lasts from the match or the last Renew on.
func (l *Lease) Duration() time.Duration { return 0 }

// Renew begins the lease's time anew; false: it has ended.
func (l *Lease) Renew(ctx context.Context) bool { return false }

// Release ends the lease.
func (l *Lease) Release() {}

// Namespace is engine.Namespace at a server.
type Namespace struct{}

// Info is that of engine.Namespace.
func (n *Namespace) Info() engine.NamespaceInfo { return engine.NamespaceInfo{} }

// Layout is that of engine.Namespace.
func (n *Namespace) Layout() layout.Layout { return layout.Layout{} }

// Differences is that of engine.Namespace.
func (n *Namespace) Differences() []layout.Difference { return nil }

// Warnings is that of engine.Namespace.
func (n *Namespace) Warnings() []string { return nil }

// Put is that of engine.Namespace.
func (n *Namespace) Put(ctx context.Context, blocks []engine.PutBlock, o engine.PutOptions) []engine.PutResult {
	return nil
}

// Get is that of engine.Namespace.
func (n *Namespace) Get(ctx context.Context, blocks []engine.GetBlock, o engine.GetOptions) []engine.GetResult {
	return nil
}

// Has is that of engine.Namespace.
func (n *Namespace) Has(ctx context.Context, hashes [][]byte) []engine.Status { return nil }

// Touch is that of engine.Namespace.
func (n *Namespace) Touch(ctx context.Context, hashes [][]byte) []engine.Status { return nil }

// Drop is that of engine.Namespace.
func (n *Namespace) Drop(ctx context.Context, hashes [][]byte) []engine.Result { return nil }

// Match is that of engine.Namespace.
func (n *Namespace) Match(ctx context.Context, hashes [][]byte) (*Lease, error) { return nil, errSoon }

// BumpEpoch is that of engine.Namespace.
func (n *Namespace) BumpEpoch(ctx context.Context) (*Namespace, error) { return nil, errSoon }
