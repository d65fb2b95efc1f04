package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/sealstone/sealstone/engine"
)

// keyBytesMax is the longest plain key; longer ones are never stored.
const keyBytesMax = 512

// keepable reports whether a key can be stored at all. One that can not is
// always a miss: clients that mistake an error line for an answer lose their
// place in the stream.
func keepable(key []byte) bool { return len(key) > 0 && len(key) <= keyBytesMax }

// withPlain does work on the namespace of the peer's plain keys, again with a
// new handle where the epoch has moved on.
func (c *conn) withPlain(work func(ctx context.Context, n *engine.Namespace) (stale bool)) error {
	ctx, cancel := c.context()
	defer cancel()
	for range 3 {
		n, err := c.s.spaces.plainOf(ctx, c.who.Tenant)
		if err != nil {
			return fmt.Errorf("server: plain keys of tenant %q: %w", c.who.Tenant, err)
		}
		if !work(ctx, n) {
			return nil
		}
		c.s.spaces.forget(c.who.Tenant, n)
	}
	return errors.New("server: the epoch moves on faster than a command is done")
}
