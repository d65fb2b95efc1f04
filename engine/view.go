package engine

import (
	"context"
	"sync/atomic"
)

// ViewOptions applies to a batch.
type ViewOptions struct {
	// WantSeal returns each block's seal for the next hop.
	WantSeal bool
}

// View is the outcome for one block of a view. It may be copied; the copies
// are one view, and one of them is to be released.
type View struct {
	Status Status
	Err    error // nil if OK, else a *BlockError
	// Planes are the block's planes in the order of the layout, nil unless OK.
	// They lie in memory of the store, which is lent: read it, and do not write
	// to it, until Release.
	Planes [][]byte
	// VerifiedBytes is what was read and verified for it.
	VerifiedBytes int64
	// Seal is set if asked for and Status is OK.
	Seal *Seal

	held *held // nil: nothing is lent
}

// lender is memory of the store that views show: what a read was read into.
// It is released once for each view that shows it.
type lender interface{ release() }

// held is what a view and its copies hold together.
type held struct {
	from     lender
	released atomic.Bool
}

// Release gives the memory of the planes back: nothing may look at them any
// more. Releasing twice is nothing, and so is releasing a view that is not OK.
func (v *View) Release() {
	v.Planes = nil
	if v.held != nil && v.held.released.CompareAndSwap(false, true) {
		v.held.from.release()
	}
}

// Bytes is how many bytes the planes have together.
func (v *View) Bytes() int64 { return spanBytes(v.Planes) }

// View reads whole blocks as Get does, every byte verified, and lends the
// memory of the store that they were read into instead of copying them out. It
// returns one view each, in order; every view that is OK must be released
// exactly once, by whatever goroutine, and soon: until then its memory counts
// against Options.MaxInflightBytes, or HostCacheBytes if it was found there, and
// Close waits for it. Blocks that were read together, neighbours on disk, share
// memory that is free again when the last of them is released.
//
// All views together hold at most half of MaxInflightBytes, beside what they show
// of the cache, so that gets and puts always find memory. A call waits, until its
// context ends, while others hold what it needs: who holds views and calls View
// again may wait for itself. Of a call that needs more than that half by itself
// the blocks beyond it are Miss, with an error that wraps ErrShed: release some
// and ask for the rest.
//
// When the context ends first, blocks not yet decided are Timeout, and nothing
// of them is lent.
func (n *Namespace) View(ctx context.Context, hashes [][]byte, o ViewOptions) []View {
	views := make([]View, len(hashes))
	g := n.newBatch(hashes)
	g.o.WantSeal = o.WantSeal
	g.lend = newLending(n.s.lent, views)
	g.call(ctx)
	for i := range views {
		r := &g.out[i]
		v := &views[i]
		v.Status, v.Err, v.VerifiedBytes, v.Seal = r.Status, r.Err, r.VerifiedBytes, r.Seal
	}
	return views
}

// newBatch is a batch of whole blocks.
func (n *Namespace) newBatch(hashes [][]byte) *getBatch {
	blocks := make([]GetBlock, len(hashes))
	for i, h := range hashes {
		blocks[i].Hash = h
	}
	return &getBatch{n: n, s: n.s, blocks: blocks, out: make([]GetResult, len(hashes))}
}
