package vfs

import "sync/atomic"

// LockWatcher is told of the descriptors behind the locks of OS, of all trees
// of the process. A lock of flock(2) belongs to the open file, which a child of
// fork(2) shares: as long as the child has its copy of the descriptor the lock
// is held, whatever the parent does. A host that forks can close the copies.
//
// Both functions are called from within Lock and Close, from any goroutine;
// they must not block. On systems other than Linux they are not called.
type LockWatcher struct {
	// Taken is called before the lock is tried.
	Taken func(fd int)
	// Given is called after the descriptor was closed: its number may be
	// another file's by then, which who was told of the lock has to look at.
	Given func(fd int)
}

var lockWatcher atomic.Pointer[LockWatcher]

// WatchLocks sets the watcher of locks taken from now on; nil: none.
func WatchLocks(w *LockWatcher) { lockWatcher.Store(w) }

// lockWatch is one lock that a watcher was told of.
type lockWatch struct {
	w  *LockWatcher
	fd int
}

// watchLock tells the watcher, if there is one, that fd will hold a lock.
func watchLock(fd int) *lockWatch {
	w := lockWatcher.Load()
	if w == nil {
		return nil
	}
	w.Taken(fd)
	return &lockWatch{w, fd}
}

// end tells the same watcher that the descriptor is closed; nil is nothing.
func (l *lockWatch) end() {
	if l != nil {
		l.w.Given(l.fd)
	}
}
