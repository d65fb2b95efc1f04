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
	clone, _ := m.Crash(opts)
	return clone
}

// Crash is CrashClone, and tells what became of each unsynced change: a test
// that draws its crashes can then hold that all kinds of harm came up.
func (m *Mem) Crash(opts CrashOptions) (*Mem, CrashReport) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &cloner{
		opts:  opts,
		into:  &Mem{lastIno: m.lastIno, lastSerial: m.lastSerial, capacityBytes: m.capacityBytes, directRefused: m.directRefused},
		nodes: map[*memNode]*memNode{},
	}
	if !opts.KeepAll {
		c.names = c.survivingNames(m.pending)
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
	c.report.Reordered = c.reordered()
	return c.into, c.report
}

// survivingNames draws from the pending operations and returns the directories
// that they change, as they are found afterwards.
func (c *cloner) survivingNames(pending []nameOp) map[*memNode]map[string]*memNode {
	rng := rand.New(rand.NewPCG(c.opts.Seed, 0)) // 0 is no node's number
	chosen := make([]bool, len(pending))
	for i := range chosen {
		chosen[i] = rng.Float64() < c.opts.KeepNames
	}
	closeOver(pending, chosen)
	names := map[*memNode]map[string]*memNode{}
	for i, op := range pending {
		c.report.name(op, chosen[i])
		c.fates = append(c.fates, fate{op.serial, chosen[i]})
		if !chosen[i] {
			continue
		}
		for _, s := range op.sets {
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

	report CrashReport
	fates  []fate
}

func (c *cloner) clone(n *memNode, name string) *memNode {
	if done := c.nodes[n]; done != nil {
		return done
	}
	fresh := &memNode{ino: n.ino, isDir: n.isDir}
	c.nodes[n] = fresh
	if !n.isDir {
		fresh.now = c.survivingImage(n, name)
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
		copied := nameOp{serial: op.serial}
		for _, s := range op.sets {
			place := entrySet{entryKey{c.clone(s.dir, ""), s.name}, nil}
			if s.node != nil {
				place.node = c.clone(s.node, "")
			}
			copied.sets = append(copied.sets, place)
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
func (c *cloner) survivingImage(n *memNode, name string) *image {
	if c.opts.KeepAll {
		return n.now.share()
	}
	im := n.durable.share()
	if c.opts.KeepFile != nil {
		kept := c.opts.KeepFile(name)
		for i := range n.unsynced {
			c.bytes(&n.unsynced[i], kept)
		}
		if kept {
			return n.now.share()
		}
		return im
	}
	if len(n.unsynced) == 0 {
		return im
	}
	rng := rand.New(rand.NewPCG(c.opts.Seed, n.ino))
	for i := range n.unsynced {
		op := &n.unsynced[i]
		tears := op.kind == fileWrite && c.opts.TornSectorBytes > 0 && rng.IntN(2) == 0
		if tears {
			c.tearWrite(im, op, rng)
			continue
		}
		kept := rng.Float64() < c.opts.KeepBytes
		c.bytes(op, kept)
		if kept {
			op.apply(im)
		}
	}
	return im
}

// bytes notes what became of a change of a file as a whole.
func (c *cloner) bytes(op *fileOp, kept bool) {
	c.report.file(op, kept)
	c.fates = append(c.fates, fate{op.serial, kept})
}

// tearWrite applies those sectors of a write that are drawn.
func (c *cloner) tearWrite(im *image, op *fileOp, rng *rand.Rand) {
	sector := int64(c.opts.TornSectorBytes)
	data, off := op.data, op.off
	kept, lost := 0, 0
	for len(data) > 0 {
		n := min(int64(len(data)), sector-off%sector)
		if rng.Float64() < c.opts.KeepBytes {
			im.writeAt(data[:n], off)
			kept++
		} else {
			lost++
		}
		data, off = data[n:], off+n
	}
	if rng.Float64() < c.opts.KeepBytes {
		im.sizeBytes = max(im.sizeBytes, off)
	}
	if kept > 0 && lost > 0 {
		c.report.torn(c.opts.TornSectorBytes)
		return
	}
	c.bytes(op, kept > 0)
}
