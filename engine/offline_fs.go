package engine

import (
	"io/fs"

	"github.com/sealstone/sealstone/internal/vfs"
)

// lookOnlyFS refuses every change, so that looking at a store leaves no trace
// whatever the libraries below attempt.
type lookOnlyFS struct{ vfs.FS }

func refuse(op, name string) error {
	return &fs.PathError{Op: op, Path: name, Err: ErrReadOnly}
}

func (l lookOnlyFS) Open(name string, flags vfs.OpenFlag) (vfs.File, error) {
	if flags&^vfs.Direct != 0 {
		return nil, refuse("open for writing", name)
	}
	return l.FS.Open(name, flags)
}

func (l lookOnlyFS) Mkdir(name string) error       { return refuse("mkdir", name) }
func (l lookOnlyFS) MkdirAll(name string) error    { return refuse("mkdir", name) }
func (l lookOnlyFS) Remove(name string) error      { return refuse("remove", name) }
func (l lookOnlyFS) RemoveAll(name string) error   { return refuse("remove", name) }
func (l lookOnlyFS) Rename(name, to string) error  { return refuse("rename", name) }
func (l lookOnlyFS) Link(name, other string) error { return refuse("link", other) }
func (l lookOnlyFS) SyncDir(name string) error     { return refuse("sync", name) }

// Lock is asked for by the index. Who looks holds the lock of the whole store
// already, and a lock file that is not there must not be made.
func (l lookOnlyFS) Lock(name string) (vfs.File, error) {
	if _, err := l.FS.Stat(name); vfs.IsNotExist(err) {
		return noLock{}, nil
	}
	return l.FS.Lock(name)
}

// noLock is a lock on nothing.
type noLock struct{ vfs.File }

func (noLock) Close() error { return nil }
