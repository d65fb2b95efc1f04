package gpu

import "slices"

// arena keeps which parts of one range of addresses are free. All lengths are
// multiples of a unit that its user chooses. It touches no memory.
type arena struct {
	sizeBytes int64
	free      []gap // by offset; neighbours are never adjacent
}

// gap is a free part.
type gap struct{ off, length int64 }

func newArena(sizeBytes int64) *arena {
	return &arena{sizeBytes: sizeBytes, free: []gap{{0, sizeBytes}}}
}

// take cuts n bytes from the first gap that has them.
func (a *arena) take(n int64) (off int64, ok bool) {
	for i := range a.free {
		g := &a.free[i]
		if g.length < n {
			continue
		}
		off = g.off
		g.off += n
		g.length -= n
		if g.length == 0 {
			a.free = slices.Delete(a.free, i, i+1)
		}
		return off, true
	}
	return 0, false
}

// give takes back what take cut, and joins it with its free neighbours.
func (a *arena) give(off, n int64) {
	i, _ := slices.BinarySearchFunc(a.free, off, func(g gap, off int64) int {
		if g.off < off {
			return -1
		}
		return 1
	})
	a.free = slices.Insert(a.free, i, gap{off, n})
	if i+1 < len(a.free) && off+n == a.free[i+1].off {
		a.free[i].length += a.free[i+1].length
		a.free = slices.Delete(a.free, i+1, i+2)
	}
	if i > 0 && a.free[i-1].off+a.free[i-1].length == off {
		a.free[i-1].length += a.free[i].length
		a.free = slices.Delete(a.free, i, i+1)
	}
}

// unused says that nothing is taken.
func (a *arena) unused() bool { return len(a.free) == 1 && a.free[0].length == a.sizeBytes }
