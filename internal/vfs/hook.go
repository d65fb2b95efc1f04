package vfs

import (
	"fmt"
	"strings"
	"sync/atomic"
)

// OpKind is the kind of an operation that a hook sees.
type OpKind uint8

// The kinds. Those up to OpSyncDir change something or make it durable; the
// rest only look.
const (
	OpCreate      OpKind = iota // FS.Open with Create or Trunc
	OpWrite                     // File.WriteAt
	OpSync                      // File.Sync and File.Datasync
	OpTruncate                  // File.Truncate
	OpPreallocate               // File.Preallocate
	OpRename                    // FS.Rename
	OpRemove                    // FS.Remove, and each removal of FS.RemoveAll
	OpLink                      // FS.Link
	OpMkdir                     // FS.Mkdir, and each directory of FS.MkdirAll
	OpLock                      // FS.Lock
	OpSyncDir                   // FS.SyncDir
	OpOpen                      // FS.Open of what is there
	OpRead                      // File.ReadAt and File.Readv
	OpList                      // FS.List
	OpStat                      // FS.Stat, FS.Statfs and File.Stat
)

var opNames = [...]string{
	"create", "write", "sync", "truncate", "preallocate", "rename", "remove", "link",
	"mkdir", "lock", "syncdir", "open", "read", "list", "stat",
}

func (k OpKind) String() string {
	if int(k) < len(opNames) {
		return opNames[k]
	}
	return fmt.Sprintf("OpKind(%d)", uint8(k))
}

// Op is an operation about to be done.
type Op struct {
	Kind OpKind
	Name string // the whole name; of Rename and Link the old one
	// NewName is the new name of Rename and Link.
	NewName string
	// Offset and Length are the range of OpRead, OpWrite and OpPreallocate;
	// of OpTruncate Offset is the new size.
	Offset, Length int64
	// Index numbers the mutating operations of one WithHook from 1. Of an
	// operation that only looks it is the number of the last one before.
	Index uint64
}

// Mutates says whether the operation changes something or makes it durable.
func (op Op) Mutates() bool { return op.Kind <= OpSyncDir }

func (op Op) String() string {
	s := fmt.Sprintf("#%d %s %s", op.Index, op.Kind, op.Name)
	if op.NewName != "" {
		s += " to " + op.NewName
	}
	if op.Kind == OpWrite || op.Kind == OpRead || op.Kind == OpPreallocate || op.Kind == OpTruncate {
		s += fmt.Sprintf(" [%d,+%d)", op.Offset, op.Length)
	}
	return s
}

// LateError is what a hook returns to have File.WriteAt, Sync and Datasync do
// their work and report Err nevertheless, as a device does whose answer got
// lost. Other operations do nothing and return Err.
type LateError struct{ Err error }

func (e *LateError) Error() string { return e.Err.Error() }
func (e *LateError) Unwrap() error { return e.Err }

// WithHook returns fs, of which every operation first asks h: an error from h
// is returned (as it is) and nothing is done, but for a LateError. h runs in the caller's
// goroutine and without any lock, so it may use fs, or take a CrashClone. It
// may be called concurrently. RemoveAll and MkdirAll ask for each of their
// steps; Close, DropCache and StartWriteback do not ask. The files have no Fd, so that no I/O
// goes past h.
func WithHook(fs FS, h func(Op) error) FS { return &hookFS{fs: fs, h: h} }

type hookFS struct {
	fs    FS
	h     func(Op) error
	count atomic.Uint64
}

// ask numbers op and shows it to the hook.
func (k *hookFS) ask(op Op) error {
	if op.Mutates() {
		op.Index = k.count.Add(1)
	} else {
		op.Index = k.count.Load()
	}
	return k.h(op)
}

func (k *hookFS) Open(name string, flags OpenFlag) (File, error) {
	kind := OpOpen
	if flags&(Create|Trunc) != 0 {
		kind = OpCreate
	}
	if err := k.ask(Op{Kind: kind, Name: name}); err != nil {
		return nil, err
	}
	return k.wrap(name)(k.fs.Open(name, flags))
}

func (k *hookFS) Lock(name string) (File, error) {
	if err := k.ask(Op{Kind: OpLock, Name: name}); err != nil {
		return nil, err
	}
	return k.wrap(name)(k.fs.Lock(name))
}

// wrap puts the hook before a file that was just opened.
func (k *hookFS) wrap(name string) func(File, error) (File, error) {
	return func(f File, err error) (File, error) {
		if err != nil {
			return nil, err
		}
		return &hookFile{File: f, fs: k, name: name}, nil
	}
}

func (k *hookFS) Mkdir(name string) error {
	if err := k.ask(Op{Kind: OpMkdir, Name: name}); err != nil {
		return err
	}
	return k.fs.Mkdir(name)
}

func (k *hookFS) MkdirAll(name string) error {
	if err := checkName("mkdir", name); err != nil {
		return err
	}
	parts := components(name)
	for i := range parts {
		part := strings.Join(parts[:i+1], "/")
		if _, err := k.fs.Stat(part); !IsNotExist(err) {
			continue // there, or an error that the last step reports
		}
		if err := k.ask(Op{Kind: OpMkdir, Name: part}); err != nil {
			return err
		}
		if err := k.fs.MkdirAll(part); err != nil {
			return err
		}
	}
	return k.fs.MkdirAll(name)
}

func (k *hookFS) Remove(name string) error {
	if err := k.ask(Op{Kind: OpRemove, Name: name}); err != nil {
		return err
	}
	return k.fs.Remove(name)
}

func (k *hookFS) RemoveAll(name string) error { return removeAll(k, name) }

func (k *hookFS) Rename(oldName, newName string) error {
	if err := k.ask(Op{Kind: OpRename, Name: oldName, NewName: newName}); err != nil {
		return err
	}
	return k.fs.Rename(oldName, newName)
}

func (k *hookFS) Link(oldName, newName string) error {
	if err := k.ask(Op{Kind: OpLink, Name: oldName, NewName: newName}); err != nil {
		return err
	}
	return k.fs.Link(oldName, newName)
}

func (k *hookFS) List(dir string) ([]string, error) {
	if err := k.ask(Op{Kind: OpList, Name: dir}); err != nil {
		return nil, err
	}
	return k.fs.List(dir)
}

func (k *hookFS) Stat(name string) (Info, error) {
	if err := k.ask(Op{Kind: OpStat, Name: name}); err != nil {
		return Info{}, err
	}
	return k.fs.Stat(name)
}

func (k *hookFS) SyncDir(dir string) error {
	if err := k.ask(Op{Kind: OpSyncDir, Name: dir}); err != nil {
		return err
	}
	return k.fs.SyncDir(dir)
}

func (k *hookFS) Statfs() (Usage, error) {
	if err := k.ask(Op{Kind: OpStat, Name: rootName}); err != nil {
		return Usage{}, err
	}
	return k.fs.Statfs()
}
