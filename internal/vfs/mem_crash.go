package vfs

import (
	"maps"
	"math/rand/v2"
)

// CrashOptions says what a crash leaves. Probabilities lie in [0, 1]; the
// zero value is the plainest power cut, after which only what was synced is
// there.
type CrashOptions struct {
	// Seed of all draws: equal trees and equal options leave equal trees.
	Seed uint64
	// KeepBytes is the probability that an unsynced change of a file's
	// content or size survives, each by itself; KeepNames that of an unsynced
	// change of names.
	KeepBytes, KeepNames float64
	// TornSectorBytes, if not 0, is the unit of tearing: half of the unsynced
	// writes are drawn sector by sector (aligned in the file), and the size
	// they reach apart from their bytes.
	TornSectorBytes int
	// KeepAll is the end of the process, not of power: all survives, and the
	// other fields but Seed do not matter.
	KeepAll bool
}

// CrashClone returns the tree as it would be found after a crash at this
// instant. Everything in it is durable, no file is open and none is locked.
// The two trees share nothing that either can see the other change; m goes on
// as if nothing had happened.
func (m *Mem) CrashClone(opts CrashOptions) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &cloner{
		opts:  opts,
		into:  &Mem{lastIno: m.lastIno, capacityBytes: m.capacityBytes, directRefused: m.directRefused},
		nodes: map[*memNode]*memNode{},
	}
	if !opts.KeepAll {
		c.names = survivingNames(m.pending, opts)
	}
	c.into.root = c.clone(m.root)
	return c.into
}

// survivingNames draws from the pending operations and returns the directories
// that they change, as they are found afterwards.
func survivingNames(pending []nameOp, opts CrashOptions) map[*memNode]map[string]*memNode {
	rng := rand.New(rand.NewPCG(opts.Seed, 0)) // 0 is no node's number
	chosen := make([]bool, len(pending))
	for i := range chosen {
		chosen[i] = rng.Float64() < opts.KeepNames
	}
	closeOver(pending, chosen)
	names := map[*memNode]map[string]*memNode{}
	for i, op := range pending {
		if !chosen[i] {
			continue
		}
		for _, s := range op {
			if names[s.dir] == nil {
				names[s.dir] = maps.Clone(s.dir.durableEntries)
			}
			setEntry(names[s.dir], s.name, s.node)
		}
	}
	return names
}

// cloner copies what survives, from the root on.
type cloner struct {
	opts  CrashOptions
	into  *Mem
	names map[*memNode]map[string]*memNode
	nodes map[*memNode]*memNode // old to new: hard links stay links
}

func (c *cloner) clone(n *memNode) *memNode {
	if done := c.nodes[n]; done != nil {
		return done
	}
	fresh := &memNode{ino: n.ino, isDir: n.isDir}
	c.nodes[n] = fresh
	if !n.isDir {
		fresh.now = n.survivingImage(c.opts)
		fresh.durable = fresh.now.share()
		c.into.usedPages += fresh.now.pages
		return fresh
	}
	found := c.found(n)
	fresh.entries = make(map[string]*memNode, len(found))
	for name, child := range found {
		copied := c.clone(child)
		copied.names++
		fresh.entries[name] = copied
	}
	fresh.durableEntries = maps.Clone(fresh.entries)
	return fresh
}

// found is what directory n holds after the crash.
func (c *cloner) found(n *memNode) map[string]*memNode {
	if c.opts.KeepAll {
		return n.entries
	}
	if drawn := c.names[n]; drawn != nil {
		return drawn
	}
	return n.durableEntries
}

// survivingImage draws the content of file n.
func (n *memNode) survivingImage(opts CrashOptions) *image {
	if opts.KeepAll {
		return n.now.share()
	}
	im := n.durable.share()
	if len(n.unsynced) == 0 {
		return im
	}
	rng := rand.New(rand.NewPCG(opts.Seed, n.ino))
	for i := range n.unsynced {
		op := &n.unsynced[i]
		tears := op.kind == fileWrite && opts.TornSectorBytes > 0 && rng.IntN(2) == 0
		if tears {
			tearWrite(im, op, rng, opts)
		} else if rng.Float64() < opts.KeepBytes {
			op.apply(im)
		}
	}
	return im
}

// tearWrite applies those sectors of a write that are drawn.
func tearWrite(im *image, op *fileOp, rng *rand.Rand, opts CrashOptions) {
	sector := int64(opts.TornSectorBytes)
	data, off := op.data, op.off
	for len(data) > 0 {
		n := min(int64(len(data)), sector-off%sector)
		if rng.Float64() < opts.KeepBytes {
			im.writeAt(data[:n], off)
		}
		data, off = data[n:], off+n
	}
	if rng.Float64() < opts.KeepBytes {
		im.sizeBytes = max(im.sizeBytes, off)
	}
}
