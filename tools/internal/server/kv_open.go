package server

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/engine/layout"
	"github.com/sealstone/sealstone/tools/internal/server/resp"
)

func init() {
	register(
		definition{name: "KV.OPEN", argsMin: 2, argsMax: 7, do: kvOpen},
		definition{name: "KV.EPOCH", argsMin: 2, argsMax: 2, do: kvEpoch},
	)
}

// layoutJSONMax bounds the JSON of a layout.
const layoutJSONMax = 2 * layout.MaxEncodedBytes

// openRequest is what KV.OPEN asks for.
type openRequest struct {
	layout layout.Layout
	tenant string // "": the peer's own
	o      engine.NamespaceOptions
}

// parseOpen reads: json [TENANT t] [REQUIREMATCH] [COMPRESSION c].
func parseOpen(args [][]byte) (r openRequest, problem string) {
	if len(args[0]) > layoutJSONMax {
		return r, fmt.Sprintf("LIMIT layout: %d bytes of JSON, %d are the most", len(args[0]), layoutJSONMax)
	}
	if err := json.Unmarshal(args[0], &r.layout); err != nil {
		return r, "ERR the layout is not valid JSON of one: " + err.Error()
	}
	for rest := args[1:]; len(rest) > 0; {
		switch {
		case isWord(rest[0], "REQUIREMATCH"):
			r.o.RequireMatch = true
			rest = rest[1:]
		case isWord(rest[0], "TENANT") && len(rest) > 1:
			r.tenant, rest = string(rest[1]), rest[2:]
		case isWord(rest[0], "COMPRESSION") && len(rest) > 1:
			c, ok := compressions[string(rest[1])]
			if !ok {
				return r, fmt.Sprintf("ERR compression %q is not known: off, auto, s2 and zstd are", clip(rest[1]))
			}
			r.o.Compression, rest = c, rest[2:]
		default:
			return r, fmt.Sprintf("ERR %q is not an option of KV.OPEN, or lacks its value: TENANT name, REQUIREMATCH and COMPRESSION kind are", clip(rest[0]))
		}
	}
	return r, ""
}

var compressions = map[string]engine.Compression{
	"off": engine.CompressionOff, "auto": engine.CompressionAuto, "s2": engine.CompressionS2, "zstd": engine.CompressionZstd,
}

func kvOpen(c *conn, cmd *resp.Command) {
	if !c.who.Read && !c.who.Write {
		c.fail("NOPERM this user may neither read nor write, so there is nothing to open")
		return
	}
	r, problem := parseOpen(cmd.Args[1:])
	if problem != "" {
		c.fail("%s", problem)
		return
	}
	if r.tenant == "" {
		r.tenant = c.who.Tenant
	}
	if r.tenant != c.who.Tenant && !c.who.Admin {
		c.fail("NOPERM this user belongs to tenant %q and may not open namespaces of %q", c.who.Tenant, clip([]byte(r.tenant)))
		return
	}
	ctx, cancel := c.context()
	defer cancel()
	h, n, err := c.s.spaces.open(ctx, r.layout, r.tenant, r.o)
	var mismatch *engine.LayoutMismatchError
	switch {
	case errors.As(err, &mismatch):
		c.out.Array(2)
		c.out.BulkString("layout-mismatch")
		c.differences(mismatch.Differences)
	case err != nil:
		c.failStore("KV.OPEN", err)
	default:
		c.opened(h, n)
	}
}

func (c *conn) opened(h *handle, n *engine.Namespace) {
	i := n.Info()
	c.out.Array(7)
	c.out.BulkString("ok")
	c.out.Int(h.id)
	c.out.BulkString(hex.EncodeToString(i.Fingerprint[:]))
	c.out.Int(int64(i.Epoch))
	c.out.BulkString(i.Tenant)
	c.differences(n.Differences())
	c.out.Array(len(n.Warnings()))
	for _, w := range n.Warnings() {
		c.out.BulkString(w)
	}
}

func (c *conn) differences(all []layout.Difference) {
	c.out.Array(len(all))
	for _, d := range all {
		c.out.Array(3)
		c.out.BulkString(d.Field)
		c.out.BulkString(d.A)
		c.out.BulkString(d.B)
	}
}

// failStore answers what the store refused as a whole.
func (c *conn) failStore(what string, err error) {
	switch {
	case errors.Is(err, errHandles):
		c.s.count.limit(limitHandles)
		c.fail("LIMIT handles: %d namespaces are open, as many as may be; restart the server with a higher limit", c.s.o.HandlesMax)
	case errors.Is(err, engine.ErrEpoch):
		c.fail("BADHANDLE the epoch has moved on: open the namespace again with KV.OPEN")
	default:
		c.fail("ERR %s: %v", what, err)
	}
}

// kvEpoch begins a new epoch: all older blocks are gone at once.
func kvEpoch(c *conn, cmd *resp.Command) {
	if !c.who.Write && !c.who.Admin {
		c.fail("NOPERM this user may not write, and so not begin an epoch")
		return
	}
	h := c.handleOf(cmd.Args[1])
	if h == nil {
		return
	}
	ctx, cancel := c.context()
	defer cancel()
	next, n, err := c.s.spaces.bump(ctx, h)
	if err != nil {
		c.failStore("KV.EPOCH", err)
		return
	}
	c.out.Array(2)
	c.out.Int(next.id)
	c.out.Int(int64(n.Info().Epoch))
}
