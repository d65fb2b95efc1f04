package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/sealstone/sealstone/engine"
)

// Client is a pool of connections to one server. It connects anew by itself
// after the server was away.
type Client struct {
	o    Options
	pool *pool
	unix bool

	mu      sync.Mutex
	regions regionMap
	closed  bool
}

// Dial connects to "unix:/path" or "host:port". An error means that the server
// is not there now, or refuses the login.
func Dial(ctx context.Context, address string, o Options) (*Client, error) {
	o = o.withDefaults()
	network, _ := parseAddress(address)
	c := &Client{o: o, pool: newPool(address, o), unix: network == "unix"}
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	err := c.ask(ctx, newCommand("PING"), func(a *answers) error {
		_, err := a.text(answerLineMax)
		return err
	})
	if err != nil {
		_ = c.Close(ctx)
		return nil, fmt.Errorf("client: dial %s: %w", address, err)
	}
	return c, nil
}

// bounded gives a context without deadline the default one.
func (c *Client) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, c.o.CallTimeout)
}

// ask sends a short question on the connection that is kept for such.
func (c *Client) ask(ctx context.Context, cmd *command, read func(*answers) error) error {
	return c.pool.with(ctx, c.pool.asks, true, func(conn *conn) error { return conn.do(ctx, cmd, read) })
}

// Stats are the server's figures as one JSON object.
func (c *Client) Stats(ctx context.Context) (json.RawMessage, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	var out []byte
	err := c.ask(ctx, newCommand("KV.STATS"), func(a *answers) (err error) {
		out, err = a.text(answerBulkMax)
		return err
	})
	return out, err
}

// Health is the state of the server's store and why it is not better.
type Health struct {
	State   string // "ok", "read-only", "all-miss", "closed"
	Reasons []string
}

// reasonBytesMax bounds a sentence of the server.
const reasonBytesMax = 1 << 20

// Health is how much of its work the server's store does.
func (c *Client) Health(ctx context.Context) (Health, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	var h Health
	err := c.ask(ctx, newCommand("KV.HEALTH"), func(a *answers) error {
		if err := a.listOf(2); err != nil {
			return err
		}
		state, err := a.text(reasonBytesMax)
		if err != nil {
			return err
		}
		h.State = string(state)
		h.Reasons, err = a.texts()
		return err
	})
	return h, err
}

// texts reads a list of sentences.
func (a *answers) texts() (out []string, err error) {
	n, err := a.list()
	for i := 0; err == nil && i < n; i++ {
		var p []byte
		p, err = a.text(reasonBytesMax)
		out = append(out, string(p))
	}
	return out, err
}

// Close ends the connections when the calls under way have their answers, or
// at the end of ctx, whose error it then returns; it may be called again to
// wait on. Calls that come later are answered StatusClosed. Regions end with
// the client.
func (c *Client) Close(ctx context.Context) error {
	err := c.pool.close(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && !c.closed {
		c.closed = true
		for _, r := range c.regions.all() {
			r.end()
		}
	}
	return err
}

// statusOf is the status of blocks of a command that was not answered: begun
// says that it may have been done.
func statusOf(err error, otherwise engine.Status) engine.Status {
	switch {
	case errors.Is(err, engine.ErrClosed):
		return engine.StatusClosed
	case errors.Is(err, engine.ErrEpoch):
		return engine.StatusStaleEpoch
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return engine.StatusTimeout
	case errors.Is(err, ErrRegionLost):
		return engine.StatusTimeout
	case codeOf(err) == "LIMIT":
		return otherwise
	case codeOf(err) != "":
		return engine.StatusInvalid
	}
	return engine.StatusIOError
}
