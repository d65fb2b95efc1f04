package vfs

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// unlimitedBytes is the capacity of a Mem for which none was set.
const unlimitedBytes = 1 << 50

// Mem is a tree in memory for tests that cut the power. It behaves as a file
// system that keeps no promise it did not give: beside the content it holds
// what a power cut would leave, and every change since in order; CrashClone
// draws one of the possible outcomes. Unlike most real file systems it makes
// no name durable by a sync of the file.
//
// A Mem is safe for concurrent use. Its errors are *fs.PathError with the
// errors of io/fs, of this package, or of Linux.
type Mem struct {
	mu      sync.Mutex
	root    *memNode
	pending []nameOp // not durable yet, of all directories, in order
	lastIno uint64
	// lastSerial numbers the changes of content and names, in order.
	lastSerial uint64

	usedPages     int64
	capacityBytes int64
	directRefused bool
}

// NewMem makes an empty tree without limit.
func NewMem() *Mem {
	m := &Mem{capacityBytes: unlimitedBytes}
	m.root = m.newDir()
	return m
}

// SetCapacityBytes limits what the files hold together, in pages of 4 KiB.
// What passes it fails with ENOSPC; what is there already stays.
func (m *Mem) SetCapacityBytes(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.capacityBytes = n
}

// SetDirectRefused makes opens with Direct fail with ErrDirectUnsupported.
func (m *Mem) SetDirectRefused(refused bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.directRefused = refused
}

// UsedBytes is what the files hold, those included that are removed and still
// open.
func (m *Mem) UsedBytes() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.usedPages * pageBytes
}

// roomPages is how many pages can still be allocated.
func (m *Mem) roomPages() int64 {
	return max(m.capacityBytes/pageBytes-m.usedPages, 0)
}

// Statfs implements FS.
func (m *Mem) Statfs() (Usage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Usage{TotalBytes: m.capacityBytes, AvailableBytes: m.roomPages() * pageBytes}, nil
}

// Open implements FS. With Direct, I/O that is not aligned to 512 bytes in
// offset, length and memory fails with EINVAL.
func (m *Mem) Open(name string, flags OpenFlag) (File, error) {
	if err := checkEntry("open", name); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	f, err := m.open(name, flags)
	if err != nil {
		return nil, memFail("open", name, err)
	}
	return f, nil
}

func (m *Mem) open(name string, flags OpenFlag) (*memFile, error) {
	at, n, err := m.place(name)
	switch {
	case err != nil:
		return nil, err
	case n == nil && flags&Create == 0:
		return nil, syscall.ENOENT
	case n != nil && flags&Create != 0 && flags&Excl != 0:
		return nil, syscall.EEXIST
	case n != nil && n.isDir:
		return nil, ErrNotRegular
	case flags&Direct != 0 && m.directRefused:
		return nil, ErrDirectUnsupported
	case n == nil:
		n = m.newFile()
		m.changeNames(entrySet{at, n})
	case flags&Trunc != 0 && n.now.sizeBytes > 0:
		m.change(n, fileOp{kind: fileTruncate, length: n.now.sizeBytes})
	}
	n.opens++
	return &memFile{fs: m, node: n, name: name, flags: flags}, nil
}

// Mkdir implements FS.
func (m *Mem) Mkdir(name string) error {
	if err := checkName("mkdir", name); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return memFail("mkdir", name, m.mkdir(name))
}

func (m *Mem) mkdir(name string) error {
	if name == rootName {
		return syscall.EEXIST
	}
	at, n, err := m.place(name)
	if err != nil {
		return err
	}
	if n != nil {
		return syscall.EEXIST
	}
	m.changeNames(entrySet{at, m.newDir()})
	return nil
}

// MkdirAll implements FS.
func (m *Mem) MkdirAll(name string) error {
	if err := checkName("mkdir", name); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	parts := components(name)
	for i := range parts {
		err := m.mkdir(strings.Join(parts[:i+1], "/"))
		if err != nil && err != syscall.EEXIST {
			return memFail("mkdir", name, err)
		}
	}
	_, err := m.lookupDir(name)
	return memFail("mkdir", name, err)
}

// Remove implements FS.
func (m *Mem) Remove(name string) error {
	if err := checkEntry("remove", name); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	at, n, err := m.place(name)
	switch {
	case err != nil:
	case n == nil:
		err = syscall.ENOENT
	case len(n.entries) > 0:
		err = syscall.ENOTEMPTY
	default:
		m.changeNames(entrySet{at, nil})
		m.release(n)
	}
	return memFail("remove", name, err)
}

// RemoveAll implements FS.
func (m *Mem) RemoveAll(name string) error { return removeAll(m, name) }

// Rename implements FS.
func (m *Mem) Rename(oldName, newName string) error {
	return m.withTwo("rename", oldName, newName, func(from, to entryKey, n, target *memNode) error {
		switch {
		case strings.HasPrefix(newName, oldName+"/"):
			return syscall.EINVAL
		case strings.HasPrefix(oldName, newName+"/"):
			return syscall.ENOTEMPTY
		case n == target:
			return nil
		case target == nil:
		case n.isDir && !target.isDir:
			return syscall.ENOTDIR
		case !n.isDir && target.isDir:
			return syscall.EISDIR
		case len(target.entries) > 0:
			return syscall.ENOTEMPTY
		}
		m.changeNames(entrySet{from, nil}, entrySet{to, n})
		if target != nil {
			m.release(target)
		}
		return nil
	})
}

// Link implements FS.
func (m *Mem) Link(oldName, newName string) error {
	return m.withTwo("link", oldName, newName, func(_, to entryKey, n, target *memNode) error {
		switch {
		case target != nil:
			return syscall.EEXIST
		case n.isDir:
			return syscall.EPERM
		}
		m.changeNames(entrySet{to, n})
		return nil
	})
}

// withTwo finds both places for f. The old one is not empty.
func (m *Mem) withTwo(op, oldName, newName string, f func(from, to entryKey, n, target *memNode) error) error {
	if err := checkEntry(op, newName); err != nil {
		return err
	}
	if err := checkEntry(op, oldName); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	from, n, err := m.place(oldName)
	if err == nil && n == nil {
		err = syscall.ENOENT
	}
	if err == nil {
		var to entryKey
		var target *memNode
		if to, target, err = m.place(newName); err == nil {
			err = f(from, to, n, target)
		}
	}
	return memFail(op, oldName+" to "+newName, err)
}

// List implements FS.
func (m *Mem) List(dir string) ([]string, error) {
	if err := checkName("list", dir); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.lookupDir(dir)
	if err != nil {
		return nil, memFail("list", dir, err)
	}
	return slices.Sorted(maps.Keys(n.entries)), nil
}

// Stat implements FS.
func (m *Mem) Stat(name string) (Info, error) {
	if err := checkName("stat", name); err != nil {
		return Info{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.lookup(name)
	if err != nil {
		return Info{}, memFail("stat", name, err)
	}
	_, base := splitName(name)
	return n.info(base), nil
}

// SyncDir implements FS. It costs what is pending in the whole tree.
func (m *Mem) SyncDir(dir string) error {
	if err := checkName("sync", dir); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.lookupDir(dir)
	if err == nil {
		m.syncNames(n)
	}
	return memFail("sync", dir, err)
}

// Lock implements FS.
func (m *Mem) Lock(name string) (File, error) {
	if err := checkName("lock", name); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if name == rootName {
		return m.lockRoot()
	}
	f, err := m.open(name, Create)
	if err != nil {
		return nil, memFail("lock", name, err)
	}
	if f.node.locked {
		f.node.opens--
		return nil, memFail("lock", name, ErrLocked)
	}
	f.node.locked, f.holds = true, f.node
	return f, nil
}

// lockRoot gives the lock as a file that no name refers to.
func (m *Mem) lockRoot() (File, error) {
	if m.root.locked {
		return nil, memFail("lock", rootName, ErrLocked)
	}
	m.root.locked = true
	held := &memNode{now: newImage(), durable: newImage(), opens: 1}
	return &memFile{fs: m, node: held, name: rootName, holds: m.root}, nil
}
