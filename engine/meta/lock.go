package meta

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/sealstone/sealstone/internal/vfs"
)

// Lock is the exclusive right to a store, held until Close or the end of the
// process. The kernel's lock is what counts; the text in the file is for
// people.
type Lock struct {
	// file is LOCK, or nil if there is none and none is to be made.
	file vfs.File
	// dir is the lock on the directory itself: it keeps a second owner out
	// also when LOCK was deleted or replaced meanwhile. Nil where the file
	// system locks no directories.
	dir      vfs.File
	looking  bool // LOCK is left as it was
	ownerErr error

	previous    Owner
	hasPrevious bool

	once     sync.Once
	closeErr error
}

// LockedError names who has the store open.
type LockedError struct {
	Owner *Owner // nil: the text in LOCK could not be read or understood
	Raw   string // the text as found, at most 4 KiB
	// Replaced: LOCK itself is free, and another has the directory: its LOCK
	// was deleted or replaced while it had the store open.
	Replaced bool
	self     Owner
}

func (e *LockedError) Error() string {
	if e.Replaced {
		return fmt.Sprintf("meta: the directory is held by a process whose %s was deleted or replaced, so that its name is not known: "+
			"find it (fuser -v DIR) and stop it, or use another directory", LockFile)
	}
	if e.Owner == nil {
		return fmt.Sprintf("meta: %s is held by another process, which has not said its name (it reads %.200q): "+
			"stop that process, or use another directory; do not delete %[1]s", LockFile, e.Raw)
	}
	return fmt.Sprintf("meta: %s is held by %s: %s, or use another directory; do not delete %[1]s",
		LockFile, e.Owner, e.Owner.whereabouts(e.self))
}

// Unwrap makes errors.Is(err, ErrLocked) hold.
func (e *LockedError) Unwrap() error { return ErrLocked }

// AcquireLock takes LOCK and writes the owner into it. If another has it the
// error is a *LockedError.
func AcquireLock(fsys vfs.FS, info Owner) (*Lock, error) {
	l, err := takeLock(fsys, info)
	if err != nil {
		return nil, err
	}
	l.previous, l.hasPrevious = decodeOwner(readOwnerText(l.file))
	l.ownerErr = writeOwner(l.file, info)
	return l, nil
}

// HoldLock takes LOCK and leaves its text as it is, for who only looks at a
// store. A store without LOCK is held by its directory alone.
func HoldLock(fsys vfs.FS, info Owner) (*Lock, error) {
	l := &Lock{}
	var err error
	if _, absent := fsys.Stat(LockFile); vfs.IsNotExist(absent) {
		err = l.takeDir(fsys, info)
	} else if l, err = takeLock(fsys, info); err != nil && !errors.Is(err, ErrLocked) {
		// A read-only file system takes no lock: nobody writes there.
		return &Lock{looking: true}, nil
	}
	if err != nil {
		return nil, err
	}
	l.looking = true
	return l, nil
}

func takeLock(fsys vfs.FS, info Owner) (*Lock, error) {
	f, err := fsys.Lock(LockFile)
	if errors.Is(err, vfs.ErrLocked) {
		return nil, lockedBy(fsys, info)
	}
	if err != nil {
		return nil, fmt.Errorf("meta: take %s: %w", LockFile, err)
	}
	l := &Lock{file: f}
	if err := l.takeDir(fsys, info); err != nil {
		_ = f.Close()
		return nil, err
	}
	return l, nil
}

// takeDir locks the directory. One that takes no lock (NFS wants a descriptor
// for writing) is no obstacle: LOCK is held.
func (l *Lock) takeDir(fsys vfs.FS, info Owner) error {
	d, err := fsys.Lock(".")
	switch {
	case errors.Is(err, vfs.ErrLocked):
		return &LockedError{Replaced: true, self: info}
	case err == nil:
		l.dir = d
	}
	return nil
}

// Previous is the last owner, if it ended without Close.
func (l *Lock) Previous() (Owner, bool) { return l.previous, l.hasPrevious }

// OwnerErr is nil, or why the owner could not be written into LOCK (a full
// disk, say). The lock holds all the same.
func (l *Lock) OwnerErr() error { return l.ownerErr }

// Close empties LOCK, which marks an orderly end, and gives it up. Later calls
// return what the first did.
func (l *Lock) Close() error {
	l.once.Do(func() {
		var err error
		if l.file != nil && !l.looking {
			err = l.file.Truncate(0)
		}
		// In this order, or who comes in between would find LOCK free and the
		// directory held, and blame a LOCK that was deleted.
		for _, f := range []vfs.File{l.dir, l.file} {
			if f != nil {
				err = errors.Join(err, f.Close())
			}
		}
		if err != nil {
			l.closeErr = fmt.Errorf("meta: give up %s: %w", LockFile, err)
		}
	})
	return l.closeErr
}

func writeOwner(f vfs.File, info Owner) error {
	p, err := encodeOwner(info)
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt(p, 0)
	}
	if err != nil {
		return fmt.Errorf("meta: write the owner into %s: %w", LockFile, err)
	}
	return nil
}

func lockedBy(fsys vfs.FS, self Owner) error {
	e := &LockedError{self: self}
	f, err := fsys.Open(LockFile, 0)
	if err != nil {
		return e // who it is stays unknown; that it is locked does not
	}
	defer f.Close()
	text := readOwnerText(f)
	e.Raw = strings.TrimSpace(string(text))
	if o, ok := decodeOwner(text); ok {
		e.Owner = &o
	}
	return e
}

func readOwnerText(f vfs.File) []byte {
	p := make([]byte, maxOwnerBytes)
	n, err := f.ReadAt(p, 0)
	if err != nil && err != io.EOF {
		return nil
	}
	return p[:n]
}
