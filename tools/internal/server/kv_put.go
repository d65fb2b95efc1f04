package server

import (
	"errors"
	"strings"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/engine/layout"
	"github.com/sealstone/sealstone/tools/internal/server/resp"
	"github.com/sealstone/sealstone/tools/internal/wire"
)

func init() {
	register(definition{name: "KV.PUT", argsMin: 4, rights: mayWrite, takesLost: true, do: kvPut})
}

// kvBlocksMax bounds the blocks of one KV.PUT or KV.GET.
const kvBlocksMax = 4096

// kvPutRequest is a KV.PUT as it was read.
type kvPutRequest struct {
	flags  kvFlags
	blocks []engine.PutBlock
	lost   map[int]limit // blocks of which something was not kept, and why
	held   []func()      // what the spans lie in
}

// kvPut stores blocks: KV.PUT handle flags n BLOCK…
func kvPut(c *conn, cmd *resp.Command) {
	if cmd.IsLost(1) {
		c.refuseLost(cmd)
		return
	}
	h := c.handleOf(cmd.Args[1])
	if h == nil {
		return
	}
	a := newKVArgs(cmd, 2)
	r := c.parsePut(a)
	defer r.release()
	switch {
	case a.problem != "" && len(cmd.Lost) > 0:
		c.refuseLost(cmd)
	case a.problem != "":
		c.fail("%s", a.problem)
	default:
		c.answerPut(r, c.doPut(h.ns, r))
	}
}

func (r *kvPutRequest) release() {
	for _, f := range r.held {
		f()
	}
}

func (c *conn) parsePut(a *kvArgs) *kvPutRequest {
	r := &kvPutRequest{flags: a.flags()}
	n := a.number("the number of blocks", 1, kvBlocksMax)
	for i := 0; i < int(n) && a.problem == ""; i++ {
		r.blocks = append(r.blocks, c.parsePutBlock(a, r))
	}
	a.end()
	return r
}

// parsePutBlock reads: hash parent seal nplanes (name kind data)…
func (c *conn) parsePutBlock(a *kvArgs, r *kvPutRequest) (b engine.PutBlock) {
	first := a.at
	b.Hash = a.next("the hash")
	if parent := a.next("the parent"); len(parent) > 0 {
		b.Parent = parent
	}
	if p := a.next("the seal"); len(p) > 0 {
		var err error
		if b.Seal, err = wire.ParseSeal(p); err != nil {
			a.wrong("%v; see docs/server/protocol.md", err)
		}
	}
	planes := a.number("the number of planes", 1, layout.MaxPlanes)
	for range planes {
		b.Planes = append(b.Planes, c.parsePlane(a, r))
	}
	for _, l := range a.cmd.Lost {
		if l.Arg >= first && l.Arg < a.at {
			if r.lost == nil {
				r.lost = map[int]limit{}
			}
			r.lost[len(r.blocks)] = limitOf(l.Reason)
		}
	}
	return b
}

func (c *conn) parsePlane(a *kvArgs, r *kvPutRequest) engine.PlaneData {
	p := engine.PlaneData{Name: string(a.next("the name of the plane"))}
	kind := string(a.next("the kind of the data"))
	data := a.next("the data")
	switch {
	case a.problem != "":
	case kind == "B":
		p.Spans = [][]byte{data}
	case kind == "S":
		var release func()
		if p.Spans, release = c.resolve(a, data); release != nil {
			r.held = append(r.held, release)
		}
	default:
		a.wrong("the kind of the data is %q: B (bytes) and S (spans in regions) are", clip([]byte(kind)))
	}
	return p
}

// resolve finds memory that the peer shares.
func (c *conn) resolve(a *kvArgs, text []byte) ([][]byte, func()) {
	if c.regions == nil {
		a.wrong("there are no regions on this connection: use KV.REGION over the Unix socket first")
		return nil, nil
	}
	spans, release, err := c.regions.Resolve(text)
	if err != nil {
		a.wrong("%v", err)
		return nil, nil
	}
	return spans, release
}

// doPut puts the blocks that came whole.
func (c *conn) doPut(n *engine.Namespace, r *kvPutRequest) []engine.PutResult {
	ctx, cancel := c.contextFor(r.flags)
	defer cancel()
	whole := r.blocks
	if len(r.lost) > 0 {
		whole = nil
		for i, b := range r.blocks {
			if _, lost := r.lost[i]; !lost {
				whole = append(whole, b)
			}
		}
	}
	o := engine.PutOptions{Durable: r.flags.durable}
	var results []engine.PutResult
	if len(whole) > 0 {
		results = n.Put(ctx, whole, o)
	}
	if len(r.lost) == 0 {
		return results
	}
	all := make([]engine.PutResult, len(r.blocks))
	for i := range all {
		if why, lost := r.lost[i]; lost {
			c.s.count.limit(why)
			all[i] = engine.PutResult{Status: engine.StatusShed, Err: &engine.BlockError{
				Status: engine.StatusShed, Hash: r.blocks[i].Hash, Offset: -1, Reason: "the server has no room for the bytes: " + limitNames[why]}}
			continue
		}
		all[i], results = results[0], results[1:]
	}
	return all
}

func (c *conn) answerPut(r *kvPutRequest, results []engine.PutResult) {
	c.out.Array(len(results))
	for i := range results {
		p := &results[i]
		c.s.count.kinds[kindBlock].put(p, bytesOf(&r.blocks[i]))
		c.out.Array(4)
		c.out.BulkString(p.Status.String())
		c.out.BulkString(reasonOf(p.Err))
		c.out.BulkString(putFlags(p))
		c.out.Int(p.WrittenBytes)
	}
}

func bytesOf(b *engine.PutBlock) (n int64) {
	for _, p := range b.Planes {
		for _, s := range p.Spans {
			n += int64(len(s))
		}
	}
	return n
}

// put counts a block that was put.
func (k *kindCounters) put(r *engine.PutResult, bytes int64) {
	k.puts.Add(1)
	switch {
	case r.Status == engine.StatusOK && r.Existed:
		k.existed.Add(1)
	case r.Status == engine.StatusOK:
		k.stored.Add(1)
		k.bytesPut.Add(bytes)
	case r.Status == engine.StatusShed || r.Status == engine.StatusTooLarge:
		k.shed.Add(1)
	default:
		k.putFailed.Add(1)
	}
}

func putFlags(r *engine.PutResult) string {
	var words []string
	for _, f := range []struct {
		set  bool
		name string
	}{{r.Existed, "existed"}, {r.Differs, "differs"}, {r.Shared, "shared"}, {r.Durable, "durable"}} {
		if f.set {
			words = append(words, f.name)
		}
	}
	return strings.Join(words, ",")
}

// reasonOf is what a block's error says beside its status.
func reasonOf(err error) string {
	if err == nil {
		return ""
	}
	var b *engine.BlockError
	if !errors.As(err, &b) {
		return err.Error()
	}
	switch {
	case b.Err == nil:
		return b.Reason
	case b.Reason == "":
		return b.Err.Error()
	}
	return b.Reason + ": " + b.Err.Error()
}
