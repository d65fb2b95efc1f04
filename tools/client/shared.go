package client

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/sealstone/sealstone/tools/internal/wire"
)

// place is a span of the caller within a region.
type place struct {
	r      *Region
	off, n int64
}

// placesMax is how many spans the server takes in one list.
const placesMax = 4096

// places finds spans in regions; nil if not all of them lie in some.
func (c *Client) places(spans [][]byte) []place {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.regions.list) == 0 || len(spans) > placesMax {
		return nil
	}
	var out []place
	for _, s := range spans {
		if len(s) == 0 {
			continue // the server has no spans without bytes
		}
		r, off := c.regions.of(s)
		if r == nil {
			return nil
		}
		out = append(out, place{r, off, int64(len(s))})
	}
	return out
}

// lostRegion is a region among places that must not be used any more, or nil.
func lostRegion(places []place) *Region {
	for _, p := range places {
		if p.r.lost.Load() {
			return p.r
		}
	}
	return nil
}

// share makes regions known on this connection.
func (c *conn) share(ctx context.Context, regions map[*Region]bool) error {
	for r := range regions {
		if _, err := c.regionID(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// places writes spans as the server names them; their regions are known there.
func (c *command) places(conn *conn, list []place) {
	var text []byte
	for _, p := range list {
		text = wire.AppendSpan(text, conn.regions[p.r], p.off, p.n)
	}
	c.bytes(text)
}

// exchangeShared is do for a command that shares memory: it waits for the
// answer also behind the end of ctx, for LingerMax.
func (n *Namespace) exchangeShared(ctx context.Context, c *conn, cmd *command, regions map[*Region]bool, read func(*answers) error) error {
	if len(regions) == 0 {
		return c.do(ctx, cmd, read)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	end, _ := ctx.Deadline()
	err := c.doUntil(end.Add(n.c.o.LingerMax), cmd, read)
	switch {
	case err == nil || !c.spent || !errors.Is(err, os.ErrDeadlineExceeded):
		return err
	case !c.sent: // half a command is none
		return context.DeadlineExceeded
	default:
		for r := range regions {
			r.lost.Store(true)
		}
		return fmt.Errorf("%w: no answer for %v behind the call's end", ErrRegionLost, n.c.o.LingerMax)
	}
}

// timeoutMaxMillis is the longest time that the server lets be asked for.
const timeoutMaxMillis = 24 * 60 * 60 * 1000

// flags are the flags of a command, with what is left of the context's time.
func flags(ctx context.Context, words ...string) string {
	left := int64(1)
	if end, ok := ctx.Deadline(); ok {
		left = max(min(time.Until(end).Milliseconds(), timeoutMaxMillis), 1)
	}
	text := "timeout=" + strconv.FormatInt(left, 10)
	for _, w := range words {
		text += "," + w
	}
	return text
}

// Bounds of one command: what is beyond follows in another.
const (
	groupInlineBytes = 32 << 20
	groupArgs        = 16 << 10
)

// grouper cuts a batch into commands.
type grouper struct {
	args   int
	inline int64
}

// fits takes one more block into the command; false: it begins the next one.
func (g *grouper) fits(args int, inline int64) bool {
	if g.args > 0 && (g.args+args > groupArgs || g.inline+inline > groupInlineBytes) {
		*g = grouper{args, inline}
		return false
	}
	g.args += args
	g.inline += inline
	return true
}
