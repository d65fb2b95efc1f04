package server

import (
	"context"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/engine/layout"
	"github.com/sealstone/sealstone/tools/internal/server/resp"
	"github.com/sealstone/sealstone/tools/internal/wire"
)

func init() {
	register(definition{name: "KV.GET", argsMin: 4, rights: mayRead, do: kvGet})
}

// kvPart is a part of a block that a peer wants.
type kvPart struct {
	plane           string
	offset, length  int64
	inline          bool // the bytes go into the answer
	spans           [][]byte
	buffer          resp.Buffer // of an inline part
	lengthIsUnknown bool
}

// kvWanted is a block that a peer wants: whole and inline without parts.
type kvWanted struct {
	hash  []byte
	parts []kvPart
	// refused is why the store need not be asked.
	refused *engine.BlockError
}

type kvGetRequest struct {
	flags  kvFlags
	blocks []kvWanted
	held   []func()
}

// kvGet reads blocks: KV.GET handle flags n BLOCK…
func kvGet(c *conn, cmd *resp.Command) {
	h := c.handleOf(cmd.Args[1])
	if h == nil {
		return
	}
	a := newKVArgs(cmd, 2)
	r := c.parseGet(a)
	defer func() {
		for _, f := range r.held {
			f()
		}
	}()
	if a.problem != "" {
		c.fail("%s", a.problem)
		return
	}
	ctx, cancel := c.contextFor(r.flags)
	defer cancel()
	c.out.Array(len(r.blocks))
	for rest := r.blocks; len(rest) > 0; {
		n := 1
		whole := len(rest[0].parts) == 0
		for n < len(rest) && (len(rest[n].parts) == 0) == whole {
			n++
		}
		if whole {
			c.getWhole(ctx, h.ns, rest[:n], r.flags)
		} else {
			c.getParts(ctx, h.ns, rest[:n], r.flags)
		}
		rest = rest[n:]
	}
}

func (c *conn) parseGet(a *kvArgs) *kvGetRequest {
	r := &kvGetRequest{flags: a.flags()}
	n := a.number("the number of blocks", 1, kvBlocksMax)
	for i := 0; i < int(n) && a.problem == ""; i++ {
		w := kvWanted{hash: a.next("the hash")}
		for range a.number("the number of parts", 0, layout.MaxPlanes) {
			w.parts = append(w.parts, c.parsePart(a, r))
		}
		r.blocks = append(r.blocks, w)
	}
	a.end()
	return r
}

// parsePart reads: plane offset length kind dest
func (c *conn) parsePart(a *kvArgs, r *kvGetRequest) kvPart {
	p := kvPart{
		plane:  string(a.next("the plane")),
		offset: a.number("the offset", 0, engine.MaxBlockBytes),
		length: a.number("the length", 0, engine.MaxBlockBytes),
	}
	kind := string(a.next("the kind of the destination"))
	dest := a.next("the destination")
	switch {
	case a.problem != "":
	case kind == "B":
		p.inline, p.lengthIsUnknown = true, p.length == 0
		if len(dest) > 0 {
			a.wrong("the destination of kind B is to be empty: the bytes are in the answer")
		}
	case kind == "S":
		var release func()
		if p.spans, release = c.resolve(a, dest); release != nil {
			r.held = append(r.held, release)
		}
	default:
		a.wrong("the kind of the destination is %q: B (bytes in the answer) and S (spans in regions) are", clip([]byte(kind)))
	}
	return p
}

// getWhole answers whole blocks, from where the store has verified them: one
// to begin with, then as many as may come to mgetBytes.
func (c *conn) getWhole(ctx context.Context, n *engine.Namespace, blocks []kvWanted, f kvFlags) {
	largest := int64(mgetBytes)
	if size, fixed := n.Layout().SizeBytes(); fixed {
		largest = max(size, 1)
	}
	for len(blocks) > 0 {
		count := min(int64(len(blocks)), max(mgetBytes/largest, 1), mgetKeysMax)
		hashes := make([][]byte, count)
		for i := range hashes {
			hashes[i] = blocks[i].hash
		}
		// Who holds views and asks for more may wait for itself.
		if c.out.Lends() {
			_ = c.out.Flush()
		}
		views := n.View(ctx, hashes, engine.ViewOptions{WantSeal: f.seal})
		largest = 1
		for i := range views {
			largest = max(largest, views[i].VerifiedBytes)
			c.answerWhole(&views[i])
		}
		blocks = blocks[count:]
	}
}

func (c *conn) answerWhole(v *engine.View) {
	c.s.count.kinds[kindBlock].got(v.Status, v.VerifiedBytes)
	c.answerGet(v.Status, v.Err, v.Bytes(), v.VerifiedBytes, v.Seal)
	planes := v.Planes
	c.out.Array(len(planes))
	for _, p := range planes {
		c.part(p)
	}
	c.out.Hold(v)
}

// answerGet begins the answer for a block; the array of inline parts follows.
func (c *conn) answerGet(st engine.Status, err error, bytes, verifiedBytes int64, seal *engine.Seal) {
	c.out.Array(6)
	c.out.BulkString(st.String())
	c.out.BulkString(reasonOf(err))
	c.out.Int(bytes)
	c.out.Int(verifiedBytes)
	if seal == nil {
		c.out.BulkString("")
	} else {
		c.out.Bulk(wire.AppendSeal(nil, seal))
	}
}

// part writes bytes that somebody holds until they are written.
func (c *conn) part(p []byte) {
	if len(p) <= resp.SmallBytesMax {
		c.out.Bulk(p)
		return
	}
	c.out.BulkHeader(int64(len(p)))
	c.out.LendPart(p)
	c.out.End()
}
