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
	file        vfs.File
	ownerErr    error
	previous    Owner
	hasPrevious bool

	once     sync.Once
	closeErr error
}

// LockedError names who has the store open.
type LockedError struct {
	Owner *Owner // nil: the text in LOCK could not be read or understood
	Raw   string // the text as found, at most 4 KiB
	self  Owner
}

func (e *LockedError) Error() string {
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
	f, err := fsys.Lock(LockFile)
	if errors.Is(err, vfs.ErrLocked) {
		return nil, lockedBy(fsys, info)
	}
	if err != nil {
		return nil, fmt.Errorf("meta: take %s: %w", LockFile, err)
	}
	l := &Lock{file: f}
	l.previous, l.hasPrevious = decodeOwner(readOwnerText(f))
	l.ownerErr = writeOwner(f, info)
	return l, nil
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
		err := l.file.Truncate(0)
		if closeErr := l.file.Close(); err == nil {
			err = closeErr
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
