package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// script does each kind of operation and joins what went wrong.
func script(f FS) error {
	var errs []error
	add := func(err error) { errs = append(errs, err) }
	add(f.MkdirAll("a/b"))
	add(f.Mkdir("c"))
	if file, err := f.Open("a/f", Create); err != nil {
		add(err)
	} else {
		_, err := file.WriteAt([]byte("0123456789"), 100)
		add(err)
		add(file.Preallocate(0, 4096))
		add(file.Truncate(2000))
		add(file.Sync())
		add(file.Datasync())
		_, err = file.ReadAt(make([]byte, 10), 100)
		add(err)
		_, err = file.Readv([][]byte{make([]byte, 3), make([]byte, 4)}, 100)
		add(err)
		_, err = file.Stat()
		add(err)
		add(file.Close())
	}
	if file, err := f.Open("a/f", 0); err != nil {
		add(err)
	} else {
		add(file.Close())
	}
	add(f.Link("a/f", "a/g"))
	add(f.Rename("a/g", "c/h"))
	add(f.SyncDir("a"))
	if lock, err := f.Lock("LOCK"); err != nil {
		add(err)
	} else {
		add(lock.Close())
	}
	_, err := f.List("a")
	add(err)
	_, err = f.Statfs()
	add(err)
	add(f.RemoveAll("a"))
	return errors.Join(errs...)
}

func TestHookSeesEachOperation(t *testing.T) {
	var seen []string
	f := WithHook(NewMem(), func(op Op) error {
		seen = append(seen, op.String())
		return nil
	})
	must(t, script(f))
	want := []string{
		"#1 mkdir a", "#2 mkdir a/b", "#3 mkdir c", "#4 create a/f",
		"#5 write a/f [100,+10)", "#6 preallocate a/f [0,+4096)", "#7 truncate a/f [2000,+0)",
		"#8 sync a/f", "#9 sync a/f", "#9 read a/f [100,+10)", "#9 read a/f [100,+7)", "#9 stat a/f",
		"#9 open a/f", "#10 link a/f to a/g", "#11 rename a/g to c/h", "#12 syncdir a", "#13 lock LOCK",
		"#13 list a", "#13 stat .",
		"#14 remove a", "#14 list a", "#15 remove a/b", "#16 remove a/f", "#17 remove a",
	}
	if !slices.Equal(seen, want) {
		t.Errorf("seen:\n%s\nwant:\n%s", strings.Join(seen, "\n"), strings.Join(want, "\n"))
	}
}

// TestHookErrorPreventsTheOperation refuses each mutating operation in turn:
// the error comes through, and the tree is as it was before.
func TestHookErrorPreventsTheOperation(t *testing.T) {
	var last uint64
	must(t, script(WithHook(NewMem(), func(op Op) error {
		last = op.Index
		return nil
	})))
	for at := uint64(1); at <= last; at++ {
		m := NewMem()
		var before string
		err := script(WithHook(m, func(op Op) error {
			if op.Mutates() && op.Index == at {
				before = dump(t, m)
			}
			if op.Index >= at { // the device is gone from here on
				return fmt.Errorf("injected: %w", syscall.EIO)
			}
			return nil
		}))
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("operation %d: %v, want EIO", at, err)
		}
		if got := dump(t, m); got != before {
			t.Errorf("operation %d was refused and done:\n%swant\n%s", at, got, before)
		}
	}
}

func TestHookMayCloneAtEachOperation(t *testing.T) {
	m := NewMem()
	clones := 0
	must(t, script(WithHook(m, func(op Op) error {
		c := m.CrashClone(CrashOptions{Seed: op.Index, KeepBytes: 0.5, KeepNames: 0.5, TornSectorBytes: 512})
		dump(t, c)
		clones++
		return nil
	})))
	if clones == 0 {
		t.Error("the hook was never called")
	}
}

func TestHookReads(t *testing.T) {
	m := NewMem()
	put(t, m, "f", "data")
	f := WithHook(m, func(op Op) error {
		if op.Kind == OpRead {
			return syscall.EIO
		}
		return nil
	})
	file, err := f.Open("f", 0)
	must(t, err)
	defer file.Close()
	p := []byte("....")
	if n, err := file.ReadAt(p, 0); n != 0 || !errors.Is(err, syscall.EIO) || string(p) != "...." {
		t.Errorf("ReadAt = %d, %v, %q", n, err, p)
	}
	if n, err := file.Readv([][]byte{p}, 0); n != 0 || !errors.Is(err, syscall.EIO) || string(p) != "...." {
		t.Errorf("Readv = %d, %v, %q", n, err, p)
	}
}

func TestHookMkdirAllOverFile(t *testing.T) {
	m := NewMem()
	put(t, m, "f", "")
	f := WithHook(m, allow)
	if err := f.MkdirAll("f/x"); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("MkdirAll below a file: %v", err)
	}
	if err := f.MkdirAll("f"); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("MkdirAll over a file: %v", err)
	}
}

// TestRemoveAllBesideAnother: what another removes meanwhile is removed too.
func TestRemoveAllBesideAnother(t *testing.T) {
	m := NewMem()
	must(t, m.MkdirAll("a/b"))
	put(t, m, "a/f", "")
	f := WithHook(m, func(op Op) error {
		if op.Kind == OpRemove {
			_ = m.Remove(op.Name)
		}
		return nil
	})
	must(t, f.RemoveAll("a"))
	wantList(t, m, ".")
}

func TestOpKindNames(t *testing.T) {
	seen := map[string]bool{}
	for k := OpCreate; k <= OpStat; k++ {
		s := k.String()
		if s == "" || seen[s] {
			t.Errorf("kind %d is called %q", k, s)
		}
		seen[s] = true
		if got, want := (Op{Kind: k}).Mutates(), k <= OpSyncDir; got != want {
			t.Errorf("%s mutates: %v", k, got)
		}
	}
	if got := OpKind(99).String(); got != "OpKind(99)" {
		t.Errorf("an unknown kind is called %q", got)
	}
}

func TestReadFilter(t *testing.T) {
	m := NewMem()
	put(t, m, "f", "0123456789")
	type call struct {
		name string
		off  int64
		n    int
	}
	var calls []call
	f := WithReadFilter(m, func(name string, off int64, p []byte) {
		calls = append(calls, call{name, off, len(p)})
		if off <= 5 && 5 < off+int64(len(p)) {
			p[5-off] ^= 1 // one bad bit on the device
		}
	})
	file, err := f.Open("f", ReadWrite)
	must(t, err)
	p := make([]byte, 8)
	n, err := file.ReadAt(p, 4)
	if got := string(p[:n]); got != "446789" {
		t.Errorf("ReadAt = %q, %v", got, err)
	}
	bufs := [][]byte{make([]byte, 3), make([]byte, 0), make([]byte, 4), make([]byte, 2)}
	n, err = file.Readv(bufs, 3)
	if got := string(bufs[0]) + string(bufs[2]); n != 7 || got != "3446789" {
		t.Errorf("Readv = %d, %q, %v", n, got, err)
	}
	want := []call{{"f", 4, 6}, {"f", 3, 3}, {"f", 6, 4}}
	if !slices.Equal(calls, want) {
		t.Errorf("calls %v, want %v", calls, want)
	}
	if file.Fd() != InvalidFd {
		t.Error("a descriptor leads past the filter")
	}
	must(t, file.Close())
	if _, err := file.ReadAt(p, 0); !errors.Is(err, fs.ErrClosed) || len(calls) != len(want) {
		t.Errorf("read after close: %v, %d calls", err, len(calls))
	}
	if content(t, m, "f") != "0123456789" {
		t.Error("the filter changed the file")
	}
}

func TestHookLateError(t *testing.T) {
	m := NewMem()
	failing := false
	k := WithHook(m, func(op Op) error {
		if failing && op.Mutates() {
			return &LateError{syscall.EIO}
		}
		return nil
	})
	f, err := k.Open("a", Create|ReadWrite)
	must(t, err)
	must(t, k.SyncDir("."))
	failing = true
	if n, err := f.WriteAt([]byte("x"), 0); n != 0 || err != syscall.EIO {
		t.Errorf("write: %d %v", n, err)
	}
	if err := f.Sync(); err != syscall.EIO {
		t.Errorf("sync: %v", err)
	}
	if _, err := k.Open("b", Create); !errors.Is(err, syscall.EIO) {
		t.Errorf("create: %v", err)
	}
	// The write was done, and the sync; the creation was not.
	if got, want := dump(t, m.CrashClone(CrashOptions{})), "a 1 links \"x\"\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
