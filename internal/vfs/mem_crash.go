package vfs

import (
	"maps"
	"math/rand/v2"
	"path"
	"slices"
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
	// KeepFile, if not nil, decides for a file whether all of its unsynced
	// content survives or none, instead of the draw. It gets the file's name
	// in the tree as it will be found.
	KeepFile func(name string) bool
	// KeepAll is the end of the process, not of power: all survives, and the
	// fields above do not matter.
	KeepAll bool
	// KeepUnsynced, with KeepAll, leaves unsynced in the clone what was
	// unsynced before, as the page cache does: a later power cut of the clone
	// may still take it. Without it all of the clone is durable.
	KeepUnsynced bool
}

// CrashClone returns the tree as it would be found after a crash at this
// instant. Everything in it is durable (but see KeepUnsynced), no file is
// open and none is locked.
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
	c.into.root = c.clone(m.root, "")
	if opts.KeepAll && opts.KeepUnsynced {
		c.keepUnsynced(m)
	}
	for _, n := range c.nodes {
		if !n.isDir && n.names > 0 {
			c.into.usedPages += n.now.pages
		}
	}
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

func (c *cloner) clone(n *memNode, name string) *memNode {
	if done := c.nodes[n]; done != nil {
		return done
	}
	fresh := &memNode{ino: n.ino, isDir: n.isDir}
	c.nodes[n] = fresh
	if !n.isDir {
		fresh.now = n.survivingImage(c.opts, name)
		fresh.durable = fresh.now.share()
		return fresh
	}
	found := c.found(n)
	fresh.entries = make(map[string]*memNode, len(found))
	for last, child := range found {
		copied := c.clone(child, path.Join(name, last))
		copied.names++
		fresh.entries[last] = copied
	}
	fresh.durableEntries = maps.Clone(fresh.entries)
	return fresh
}

// keepUnsynced takes from all that was cloned, and from what only a power cut
// would bring back, what the clone gained over its durable state.
func (c *cloner) keepUnsynced(m *Mem) {
	for _, op := range m.pending {
		var copied nameOp
		for _, s := range op {
			place := entrySet{entryKey{c.clone(s.dir, ""), s.name}, nil}
			if s.node != nil {
				place.node = c.clone(s.node, "")
			}
			copied = append(copied, place)
		}
		c.into.pending = append(c.into.pending, copied)
	}
	// Cloning one directory's durable entries may add nodes: until none is left.
	settled := map[*memNode]bool{}
	for len(settled) < len(c.nodes) {
		for n, fresh := range maps.Clone(c.nodes) {
			if settled[n] {
				continue
			}
			settled[n] = true
			if !n.isDir {
				fresh.durable = n.durable.share()
				fresh.unsynced = slices.Clone(n.unsynced)
				continue
			}
			fresh.durableEntries = make(map[string]*memNode, len(n.durableEntries))
			for name, child := range n.durableEntries {
				fresh.durableEntries[name] = c.clone(child, "")
			}
		}
	}
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
func (n *memNode) survivingImage(opts CrashOptions, name string) *image {
	if opts.KeepAll {
		return n.now.share()
	}
	im := n.durable.share()
	if opts.KeepFile != nil {
		if opts.KeepFile(name) {
			return n.now.share()
		}
		return im
	}
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
