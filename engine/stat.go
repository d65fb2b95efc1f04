package engine

import (
	"context"

	"github.com/sealstone/sealstone/tiers/disk"
)

// BlockStat is what the header of a stored block tells.
type BlockStat struct {
	Status Status
	Err    error // nil if OK, else a *BlockError
	// PlaneBytes are the raw sizes of the planes in the order of the layout.
	PlaneBytes []int64
	// PlainKey is the key that the block was put with, or nil; Parent the hash of
	// its parent, nil at the root. Of a block that shares its bytes with another
	// both stand in a page that a Get does not need; where that is damaged they
	// are nil, and the rest is as it should be.
	PlainKey, Parent []byte
	// Depth is how far the block is from the root of its prefix.
	Depth uint32
}

// Stat tells the sizes and keys of stored blocks, one answer each, in order. It
// reads and verifies their headers alone: a later Get may find the bytes
// damaged. Statuses are those of a Get, and a header that does not verify has
// the same consequences; it is not a use that keeps a block from eviction.
func (n *Namespace) Stat(ctx context.Context, hashes [][]byte) []BlockStat {
	g := n.newBatch(hashes)
	g.heads = make([]BlockStat, len(hashes))
	g.call(ctx)
	return g.stats()
}

// stats gives each answer its status.
func (g *getBatch) stats() []BlockStat {
	for i := range g.heads {
		g.heads[i].Status, g.heads[i].Err = g.out[i].Status, g.out[i].Err
	}
	return g.heads
}

// readHead reads the header of one block by itself.
func (g *getBatch) readHead(ctx context.Context, w *want) error {
	ext, err := g.readHeader(ctx, w)
	if err == nil {
		g.headArrived(w, ext)
	}
	return err
}

// headArrived settles a block whose header verified.
func (g *getBatch) headArrived(w *want, ext *disk.Extent) {
	if !g.op.enter() {
		w.settled = true
		return // the caller has its answer: Timeout
	}
	defer g.op.exit()
	h := &g.heads[w.i]
	for i := range ext.Planes {
		h.PlaneBytes = append(h.PlaneBytes, ext.Planes[i].RawBytes)
	}
	if k := g.keys[w.i]; ext.Namespace == k.Namespace && string(ext.Hash) == k.Hash { // else of the block that it shares the bytes of
		h.PlainKey, h.Parent = ext.PlainKey, ext.Parent
	}
	h.Depth = w.found.entry.Depth
	g.settle(w, GetResult{Status: StatusOK}, true)
}
