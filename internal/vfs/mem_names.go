package vfs

import (
	"io/fs"
	"syscall"
)

// entryKey is a place in a directory.
type entryKey struct {
	dir  *memNode
	name string
}

// entrySet puts node at a place, or empties it where node is nil.
type entrySet struct {
	entryKey
	node *memNode
}

// nameOp is a change of names that is durable as a whole or not at all: one
// place, or the two of a rename.
type nameOp struct {
	sets   []entrySet
	serial uint64 // among all changes of the tree
}

// touches says whether op concerns a place of directory dir.
func (op nameOp) touches(dir *memNode) bool {
	for _, s := range op.sets {
		if s.dir == dir {
			return true
		}
	}
	return false
}

// closeOver completes a choice of pending operations: whoever is chosen takes
// those before it along that concern one of its places, for they cannot come
// later, and without them a rename could lose a file or leave it twice.
func closeOver(ops []nameOp, chosen []bool) {
	needed := map[entryKey]struct{}{}
	for i := len(ops) - 1; i >= 0; i-- {
		for _, s := range ops[i].sets {
			if _, ok := needed[s.entryKey]; ok {
				chosen[i] = true
			}
		}
		if !chosen[i] {
			continue
		}
		for _, s := range ops[i].sets {
			needed[s.entryKey] = struct{}{}
		}
	}
}

// setEntry puts node at a place of a map of names.
func setEntry(entries map[string]*memNode, name string, node *memNode) {
	if node == nil {
		delete(entries, name)
		return
	}
	entries[name] = node
}

// changeNames does a change now and keeps it for the next SyncDir.
func (m *Mem) changeNames(sets ...entrySet) {
	for _, s := range sets {
		if old := s.dir.entries[s.name]; old != nil && !old.isDir {
			old.names--
		}
		setEntry(s.dir.entries, s.name, s.node)
		if s.node != nil && !s.node.isDir {
			s.node.names++
		}
	}
	m.lastSerial++
	m.pending = append(m.pending, nameOp{sets, m.lastSerial})
}

// syncNames makes the pending operations on dir durable, and what they need.
func (m *Mem) syncNames(dir *memNode) {
	chosen := make([]bool, len(m.pending))
	for i, op := range m.pending {
		chosen[i] = op.touches(dir)
	}
	closeOver(m.pending, chosen)
	var rest []nameOp
	for i, op := range m.pending {
		if !chosen[i] {
			rest = append(rest, op)
			continue
		}
		for _, s := range op.sets {
			setEntry(s.dir.durableEntries, s.name, s.node)
		}
	}
	m.pending = rest
}

// lookup finds a node by its whole name.
func (m *Mem) lookup(name string) (*memNode, error) {
	n := m.root
	for _, part := range components(name) {
		if !n.isDir {
			return nil, syscall.ENOTDIR
		}
		next := n.entries[part]
		if next == nil {
			return nil, syscall.ENOENT
		}
		n = next
	}
	return n, nil
}

// lookupDir is lookup for a directory.
func (m *Mem) lookupDir(name string) (*memNode, error) {
	n, err := m.lookup(name)
	if err == nil && !n.isDir {
		err = syscall.ENOTDIR
	}
	return n, err
}

// place finds the directory that holds name, and what stands there or nil.
func (m *Mem) place(name string) (entryKey, *memNode, error) {
	dir, base := splitName(name)
	n, err := m.lookupDir(dir)
	if err != nil {
		return entryKey{}, nil, err
	}
	return entryKey{n, base}, n.entries[base], nil
}

// memFail wraps err as the OS implementation does.
func memFail(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}
