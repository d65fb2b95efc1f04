package client

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/engine/layout"
)

// space is what a namespace was opened by. Each connection opens it for itself:
// a handle is a number, and a server that was started again may give it to
// somebody else.
type space struct {
	layoutJSON  []byte
	tenant      string
	compression engine.Compression
	epoch       uint64 // of the handle that the caller has
}

// Namespace is engine.Namespace at a server. It is bound to the epoch at which
// it was opened.
type Namespace struct {
	c      *Client
	space  *space
	info   engine.NamespaceInfo
	layout layout.Layout
	diffs  []layout.Difference
	warn   []string
}

// Info describes the namespace as it was when it was opened. Number and Floor
// are the store's own and 0 here.
func (n *Namespace) Info() engine.NamespaceInfo { return n.info }

// Layout is the namespace's descriptor.
func (n *Namespace) Layout() layout.Layout { return n.layout }

// Differences is that of engine.Namespace.
func (n *Namespace) Differences() []layout.Difference { return n.diffs }

// Warnings is that of engine.Namespace.
func (n *Namespace) Warnings() []string { return n.warn }

// Namespace opens a namespace as engine.Store.Namespace does; with RequireMatch
// a differing layout is an *engine.LayoutMismatchError. A tenant of "" is the
// peer's own. MinSavingShare and GPUDirect cannot be asked of a server.
func (c *Client) Namespace(ctx context.Context, l layout.Layout, tenant string, o engine.NamespaceOptions) (*Namespace, error) {
	if o.GPUDirect || o.MinSavingShare != 0 {
		return nil, fmt.Errorf("client: namespace: %w: GPUDirect and MinSavingShare cannot be asked of a server", engine.ErrInvalid)
	}
	text, err := json.Marshal(l)
	if err != nil {
		return nil, fmt.Errorf("client: namespace: %w: %w", engine.ErrInvalid, err)
	}
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	n := &Namespace{c: c, layout: l.Clone(), space: &space{layoutJSON: text, tenant: tenant, compression: o.Compression}}
	err = c.pool.with(ctx, c.pool.asks, true, func(conn *conn) error {
		a, err := conn.open(ctx, n.space, o.RequireMatch)
		if err == nil {
			n.space.epoch = a.info.Epoch
			n.info, n.diffs, n.warn = a.info, a.diffs, a.warn
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("client: namespace: %w", err)
	}
	return n, nil
}

// opened is the answer of KV.OPEN.
type opened struct {
	handle int64
	info   engine.NamespaceInfo
	diffs  []layout.Difference
	warn   []string
}

// open opens a space on this connection and keeps its handle.
func (c *conn) open(ctx context.Context, s *space, requireMatch bool) (*opened, error) {
	cmd := newCommand("KV.OPEN")
	cmd.bytes(s.layoutJSON)
	if s.tenant != "" {
		cmd.str("TENANT")
		cmd.str(s.tenant)
	}
	if requireMatch {
		cmd.str("REQUIREMATCH")
	}
	if s.compression != engine.CompressionOff {
		cmd.str("COMPRESSION")
		cmd.str(s.compression.String())
	}
	var out *opened
	err := c.do(ctx, cmd, func(a *answers) (err error) {
		out, err = a.opened()
		return err
	})
	if err != nil {
		return nil, err
	}
	if out.handle == 0 { // differs
		return nil, &engine.LayoutMismatchError{Tenant: s.tenant, Differences: out.diffs}
	}
	c.handles[s] = out.handle
	return out, nil
}

func (a *answers) opened() (*opened, error) {
	n, err := a.list()
	if err != nil {
		return nil, err
	}
	word, err := a.text(answerLineMax)
	if err != nil {
		return nil, err
	}
	out := &opened{}
	switch {
	case string(word) == "layout-mismatch" && n == 2:
		out.diffs, err = a.differences()
		return out, err
	case string(word) != "ok" || n != 7:
		return nil, malformed("KV.OPEN answers %q and %d more", word[:min(len(word), 32)], n-1)
	}
	if out.handle, err = a.int(); err != nil {
		return nil, err
	}
	fingerprint, err := a.text(answerLineMax)
	if err != nil {
		return nil, err
	}
	if k, err := hex.Decode(out.info.Fingerprint[:], fingerprint[:min(len(fingerprint), 32)]); err != nil || k != 16 || out.handle <= 0 {
		return nil, malformed("KV.OPEN answers handle %d and fingerprint %q", out.handle, fingerprint[:min(len(fingerprint), 64)])
	}
	epoch, err := a.int()
	if err != nil {
		return nil, err
	}
	tenant, err := a.text(answerLineMax)
	if err != nil {
		return nil, err
	}
	out.info.Epoch, out.info.Tenant = uint64(epoch), string(tenant)
	if out.diffs, err = a.differences(); err != nil {
		return nil, err
	}
	out.warn, err = a.texts()
	return out, err
}

func (a *answers) differences() (out []layout.Difference, err error) {
	n, err := a.list()
	for i := 0; err == nil && i < n; i++ {
		var three []string
		if three, err = a.texts(); err == nil && len(three) != 3 {
			err = malformed("a difference of %d strings, not 3", len(three))
		}
		if err == nil {
			out = append(out, layout.Difference{Field: three[0], A: three[1], B: three[2]})
		}
	}
	return out, err
}

// handle is the number of a namespace on this connection.
func (c *conn) handle(ctx context.Context, s *space) (int64, error) {
	if h, ok := c.handles[s]; ok {
		return h, nil
	}
	a, err := c.open(ctx, s, false)
	if err != nil {
		return 0, err
	}
	if a.info.Epoch != s.epoch {
		delete(c.handles, s)
		return 0, fmt.Errorf("%w: open the namespace again (it is at %d, this handle is of %d)", engine.ErrEpoch, a.info.Epoch, s.epoch)
	}
	return a.handle, nil
}

// with does work on a connection that has the namespace open. A server that
// does not know the handle any more is asked for a new one, once.
func (n *Namespace) with(ctx context.Context, from chan *slot, repeat bool, work func(c *conn, handle int64) error) error {
	return n.c.pool.with(ctx, from, repeat, func(c *conn) error {
		for again := false; ; again = true {
			h, err := c.handle(ctx, n.space)
			if err != nil {
				return err
			}
			if err = work(c, h); codeOf(err) != "BADHANDLE" || again {
				return err
			}
			delete(c.handles, n.space)
		}
	})
}

// BumpEpoch is that of engine.Namespace. When it fails the epoch may have moved
// on or not.
func (n *Namespace) BumpEpoch(ctx context.Context) (*Namespace, error) {
	ctx, cancel := n.c.bounded(ctx)
	defer cancel()
	next := *n
	s := *n.space
	next.space, next.diffs, next.warn = &s, nil, nil
	err := n.with(ctx, n.c.pool.asks, false, func(c *conn, handle int64) error {
		cmd := newCommand("KV.EPOCH")
		cmd.int(handle)
		var fresh, epoch int64
		err := c.do(ctx, cmd, func(a *answers) (err error) {
			if err = a.listOf(2); err != nil {
				return err
			}
			if fresh, err = a.int(); err != nil {
				return err
			}
			epoch, err = a.int()
			return err
		})
		if err == nil {
			s.epoch = uint64(epoch)
			next.info.Epoch = s.epoch
			c.handles[&s] = fresh
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("client: bump epoch: %w", err)
	}
	return &next, nil
}
