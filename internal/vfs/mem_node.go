package vfs

// memNode is a file or a directory of a Mem, apart from its names.
type memNode struct {
	ino   uint64 // in order of creation: what random draws go by
	isDir bool

	// Of a file: what is read now, what a power cut leaves, and what was done
	// since the last sync, in order.
	now, durable *image
	unsynced     []fileOp
	names, opens int
	locked       bool

	// Of a directory: what is found now, and what a power cut leaves but for
	// Mem.pending.
	entries, durableEntries map[string]*memNode
}

type fileOpKind uint8

const (
	fileWrite fileOpKind = iota
	fileTruncate
	fileReserve
)

// fileOp is a change to a file that no sync covered yet.
type fileOp struct {
	kind fileOpKind
	off  int64 // of a truncate: the new size
	// length of the range; of a truncate: how far the old size reached.
	length int64
	data   []byte // of a write; never changed
	serial uint64 // among all changes of the tree
}

// apply does op to im.
func (op *fileOp) apply(im *image) {
	switch op.kind {
	case fileWrite:
		im.writeAt(op.data, op.off)
	case fileTruncate:
		im.truncate(op.off)
	case fileReserve:
		im.reserve(op.off, op.length)
	}
}

// newFile makes a file that no name refers to yet.
func (m *Mem) newFile() *memNode {
	m.lastIno++
	return &memNode{ino: m.lastIno, now: newImage(), durable: newImage()}
}

// newDir makes an empty directory that no name refers to yet.
func (m *Mem) newDir() *memNode {
	m.lastIno++
	return &memNode{
		ino: m.lastIno, isDir: true,
		entries: map[string]*memNode{}, durableEntries: map[string]*memNode{},
	}
}

// change does op to the file now and keeps it for the next sync.
func (m *Mem) change(n *memNode, op fileOp) {
	before := n.now.pages
	op.apply(n.now)
	m.usedPages += n.now.pages - before
	m.lastSerial++
	op.serial = m.lastSerial
	n.unsynced = append(n.unsynced, op)
}

// sync makes the content durable. It costs what was changed, not what the
// file holds.
func (n *memNode) sync() {
	if len(n.unsynced) == 0 {
		return
	}
	touched := map[int64]struct{}{}
	for _, op := range n.unsynced {
		last := (op.off + op.length) / chunkBytes
		if op.kind == fileTruncate && last-op.off/chunkBytes > int64(len(n.durable.chunks)) {
			// A sparse file was cut: look at the chunks that there are.
			for c := range n.durable.chunks {
				touched[c] = struct{}{}
			}
			continue
		}
		for c := op.off / chunkBytes; c <= last; c++ {
			touched[c] = struct{}{}
		}
	}
	n.durable.adopt(n.now, touched)
	n.unsynced = nil
}

// release gives the pages of a file back that has neither name nor handle.
func (m *Mem) release(n *memNode) {
	if !n.isDir && n.names == 0 && n.opens == 0 {
		m.usedPages -= n.now.pages
	}
}

// info describes n under the given last component.
func (n *memNode) info(base string) Info {
	if n.isDir {
		return Info{Name: base, IsDir: true, Links: 2}
	}
	return Info{
		Name: base, SizeBytes: n.now.sizeBytes, AllocatedBytes: n.now.pages * pageBytes,
		IsRegular: true, Links: uint64(n.names),
	}
}
