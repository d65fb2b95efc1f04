package client

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/engine/layout"
	"github.com/sealstone/sealstone/tools/internal/wire"
)

// Put is that of engine.Namespace. Planes that lie in regions are copied from
// there by the server; the call returns when it has let go of them.
func (n *Namespace) Put(ctx context.Context, blocks []engine.PutBlock, o engine.PutOptions) []engine.PutResult {
	ctx, cancel := n.c.bounded(ctx)
	defer cancel()
	out := make([]engine.PutResult, len(blocks))
	var p putGroup
	var g grouper
	for i := range blocks {
		it := n.putItem(&blocks[i], i)
		if be := it.check(); be != nil {
			out[i] = engine.PutResult{Status: be.Status, Err: be}
			continue
		}
		if !g.fits(it.args(), it.inline) {
			n.putGroup(ctx, p, o, out)
			p = putGroup{}
		}
		p.items = append(p.items, it)
	}
	n.putGroup(ctx, p, o, out)
	return out
}

// putItem is a block of a put as it goes to the server.
type putItem struct {
	i      int
	block  *engine.PutBlock
	places [][]place // by plane; nil: inline
	inline int64
	lost   *Region
}

type putGroup struct{ items []putItem }

func (n *Namespace) putItem(b *engine.PutBlock, i int) putItem {
	it := putItem{i: i, block: b, places: make([][]place, len(b.Planes))}
	for j := range b.Planes {
		it.places[j] = n.c.places(b.Planes[j].Spans)
		if it.places[j] == nil {
			it.inline += spanBytes(b.Planes[j].Spans)
		}
		if r := lostRegion(it.places[j]); r != nil {
			it.lost = r
		}
	}
	return it
}

// check refuses what would fail the command, and others of the batch with it.
func (it *putItem) check() *engine.BlockError {
	be := invalid(bytes.Clone(it.block.Hash), "")
	switch n := len(it.block.Planes); {
	case !goodHash(it.block.Hash), len(it.block.Parent) > 0 && !goodHash(it.block.Parent):
		be.Reason = fmt.Sprintf("hash of %d bytes, parent of %d: %d to %d are allowed", len(it.block.Hash), len(it.block.Parent), engine.MinHashBytes, engine.MaxHashBytes)
	case it.lost != nil:
		be.Reason, be.Err = "a plane lies in a lost region", ErrRegionLost
	case n == 0 || n > layout.MaxPlanes:
		be.Status, be.Reason = engine.StatusLayoutMismatch, fmt.Sprintf("%d planes: a layout has 1 to %d", n, layout.MaxPlanes)
	default:
		return nil
	}
	return be
}

func (it *putItem) args() int { return 4 + 3*len(it.block.Planes) }

// putGroup does one command and settles its blocks.
func (n *Namespace) putGroup(ctx context.Context, p putGroup, o engine.PutOptions, out []engine.PutResult) {
	if len(p.items) == 0 {
		return
	}
	regions := map[*Region]bool{}
	for _, it := range p.items {
		for _, places := range it.places {
			for _, at := range places {
				regions[at.r] = true
			}
		}
	}
	err := n.with(ctx, n.c.pool.idle, true, func(c *conn, handle int64) error {
		if err := c.share(ctx, regions); err != nil {
			return err
		}
		return n.exchangeShared(ctx, c, n.putCommand(ctx, c, handle, p, o), regions, func(a *answers) error {
			return p.read(a, out)
		})
	})
	for _, it := range p.items {
		if err != nil || out[it.i].Status == 0 {
			st := statusOf(err, engine.StatusShed)
			out[it.i] = engine.PutResult{Status: st, Err: blockError(st, bytes.Clone(it.block.Hash), err)}
		}
	}
}

func (n *Namespace) putCommand(ctx context.Context, c *conn, handle int64, p putGroup, o engine.PutOptions) *command {
	var words []string
	if o.Durable {
		words = append(words, "durable")
	}
	cmd := newCommand("KV.PUT")
	cmd.int(handle)
	cmd.str(flags(ctx, words...))
	cmd.int(int64(len(p.items)))
	for _, it := range p.items {
		cmd.bytes(it.block.Hash)
		cmd.bytes(it.block.Parent)
		if it.block.Seal != nil {
			cmd.bytes(wire.AppendSeal(nil, it.block.Seal))
		} else {
			cmd.str("")
		}
		cmd.int(int64(len(it.block.Planes)))
		for j := range it.block.Planes {
			pl := &it.block.Planes[j]
			cmd.str(pl.Name)
			if it.places[j] != nil {
				cmd.str("S")
				cmd.places(c, it.places[j])
			} else {
				cmd.str("B")
				cmd.data(pl.Spans)
			}
		}
	}
	return cmd
}

func (p putGroup) read(a *answers, out []engine.PutResult) error {
	if err := a.listOf(len(p.items)); err != nil {
		return err
	}
	for _, it := range p.items {
		r, err := a.putResult(it.block.Hash)
		if err != nil {
			return err
		}
		out[it.i] = r
	}
	return nil
}

func (a *answers) putResult(hash []byte) (r engine.PutResult, err error) {
	if err = a.listOf(4); err != nil {
		return r, err
	}
	if r.Status, r.Err, err = a.outcome(hash); err != nil {
		return r, err
	}
	words, err := a.text(answerLineMax)
	if err != nil {
		return r, err
	}
	for word := range strings.SplitSeq(string(words), ",") {
		switch word {
		case "existed":
			r.Existed = true
		case "differs":
			r.Differs = true
		case "shared":
			r.Shared = true
		case "durable":
			r.Durable = true
		}
	}
	r.WrittenBytes, err = a.int()
	return r, err
}

// outcome reads the status of a block and why it is not OK.
func (a *answers) outcome(hash []byte) (st engine.Status, failed, err error) {
	if st, err = a.status(); err != nil {
		return 0, nil, err
	}
	reason, err := a.text(reasonBytesMax)
	if err != nil {
		return 0, nil, err
	}
	if st != engine.StatusOK {
		failed = &engine.BlockError{Status: st, Hash: bytes.Clone(hash), Offset: -1, Reason: string(reason)}
	}
	return st, failed, nil
}
