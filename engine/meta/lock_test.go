package meta

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
)

func TestLock(t *testing.T) {
	mem := vfs.NewMem()
	self := CurrentOwner()
	l, err := AcquireLock(mem, self)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := l.Previous(); ok || l.OwnerErr() != nil {
		t.Errorf("first lock: previous owner %v, OwnerErr %v", ok, l.OwnerErr())
	}
	for name, c := range map[string]struct {
		edit func(o *Owner)
		want string
	}{
		"same process":  {func(*Owner) {}, "this very process"},
		"other process": {func(o *Owner) { o.PID++ }, ": stop it"},
		"container":     {func(o *Owner) { o.PIDNamespace++ }, "another PID namespace"},
		"other host":    {func(o *Owner) { o.Host += "x" }, "another host"},
		"other boot":    {func(o *Owner) { o.BootID += "x" }, "before the last boot"},
	} {
		other := self
		c.edit(&other)
		_, err := AcquireLock(mem, other)
		var locked *LockedError
		if !errors.Is(err, ErrLocked) || !errors.As(err, &locked) || locked.Owner == nil || *locked.Owner != self {
			t.Fatalf("%s: %v", name, err)
		}
		for _, want := range []string{c.want, self.Program, "do not delete LOCK"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not say %q", name, err, want)
			}
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	again, err := AcquireLock(mem, self)
	if err != nil {
		t.Fatal(err)
	}
	if o, ok := again.Previous(); ok {
		t.Errorf("after an orderly Close there is a previous owner: %v", o)
	}
	// killed: the lock goes, the text stays
	after := mem.CrashClone(vfs.CrashOptions{KeepAll: true})
	next, err := AcquireLock(after, Owner{PID: 1, Host: "short"})
	if err != nil {
		t.Fatal(err)
	}
	if o, ok := next.Previous(); !ok || o != self {
		t.Errorf("previous owner %+v, %v", o, ok)
	}
	if p := readAll(t, after, LockFile); string(p) != `{"host":"short","pid":1}`+"\n" {
		t.Errorf("LOCK reads %q: rests of the longer text?", p)
	}
}

// TestLockReplaced deletes LOCK, or puts another file in its place, while it
// is held: whoever comes then is refused all the same, also who only looks,
// because the directory is locked too.
func TestLockReplaced(t *testing.T) {
	osfs, err := vfs.OpenOS(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer osfs.Close()
	for name, fs := range map[string]vfs.FS{"in memory": vfs.NewMem(), "on disk": osfs} {
		for change, do := range map[string]func() error{
			"deleted": func() error { return fs.Remove(LockFile) },
			"renamed": func() error { return fs.Rename(LockFile, "LOCK.old") },
			"replaced": func() error {
				f, err := fs.Open("LOCK.new", vfs.Create)
				if err != nil {
					return err
				}
				return errors.Join(f.Close(), fs.Rename("LOCK.new", LockFile))
			},
		} {
			t.Run(name+", "+change, func(t *testing.T) {
				l, err := AcquireLock(fs, CurrentOwner())
				if err != nil {
					t.Fatal(err)
				}
				if err := do(); err != nil {
					t.Fatal(err)
				}
				for kind, take := range map[string]func(vfs.FS, Owner) (*Lock, error){"own": AcquireLock, "look": HoldLock} {
					var locked *LockedError
					_, err := take(fs, CurrentOwner())
					if !errors.Is(err, ErrLocked) || !errors.As(err, &locked) || !locked.Replaced || !strings.Contains(err.Error(), "deleted or replaced") {
						t.Errorf("%s: %v", kind, err)
					}
				}
				if err := l.Close(); err != nil {
					t.Error(err)
				}
				again, err := AcquireLock(fs, CurrentOwner())
				if err != nil {
					t.Fatalf("after Close: %v", err)
				}
				if err := again.Close(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestHoldLock: who only looks leaves the text of an owner that crashed, makes
// no LOCK where there is none, and holds the store all the same.
func TestHoldLock(t *testing.T) {
	for _, text := range []string{"", "of an owner that crashed"} {
		mem := vfs.NewMem()
		if text != "" {
			f, err := mem.Open(LockFile, vfs.Create)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteAt([]byte(text), 0); err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
		l, err := HoldLock(mem, CurrentOwner())
		if err != nil {
			t.Fatal(err)
		}
		for kind, take := range map[string]func(vfs.FS, Owner) (*Lock, error){"own": AcquireLock, "look": HoldLock} {
			if text == "" && kind == "own" {
				continue // makes a LOCK, see TestLockReplaced
			}
			if _, err := take(mem, CurrentOwner()); !errors.Is(err, ErrLocked) {
				t.Errorf("%s beside who looks: %v", kind, err)
			}
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if text != "" {
			if p := readAll(t, mem, LockFile); string(p) != text {
				t.Errorf("LOCK reads %q afterwards", p)
			}
		} else if _, err := mem.Stat(LockFile); !vfs.IsNotExist(err) {
			t.Errorf("a LOCK was made: %v", err)
		}
	}
}

func TestLockWithUnreadableOwner(t *testing.T) {
	mem := vfs.NewMem()
	l, err := AcquireLock(mem, CurrentOwner())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, text := range []string{"", "scribble\x1b[31m", `{"pid":0}`, "[]", strings.Repeat("x", 3*maxOwnerBytes)} {
		overwrite(t, mem, LockFile, []byte(text))
		_, err := AcquireLock(mem, CurrentOwner())
		var locked *LockedError
		if !errors.As(err, &locked) || locked.Owner != nil || !strings.HasPrefix(text, locked.Raw) {
			t.Errorf("%.20q: %v", text, err)
		}
		if strings.Contains(err.Error(), "\x1b") || len(err.Error()) > 500 {
			t.Errorf("%.20q: raw text in the message %q", text, err)
		}
	}
}

// A disk too full for the owner's name does not keep the store closed.
func TestLockOnFullDisk(t *testing.T) {
	fsys := vfs.WithHook(vfs.NewMem(), func(op vfs.Op) error {
		if op.Kind == vfs.OpWrite {
			return syscall.ENOSPC
		}
		return nil
	})
	l, err := AcquireLock(fsys, CurrentOwner())
	if err != nil {
		t.Fatal(err)
	}
	if !errors.Is(l.OwnerErr(), syscall.ENOSPC) {
		t.Errorf("OwnerErr = %v", l.OwnerErr())
	}
	if _, err := AcquireLock(fsys, CurrentOwner()); !errors.Is(err, ErrLocked) {
		t.Errorf("second: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func TestLockOnDisk(t *testing.T) {
	open := func(dir string) vfs.FS {
		fsys, err := vfs.OpenOS(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { fsys.Close() })
		return fsys
	}
	dir := t.TempDir()
	l, err := AcquireLock(open(dir), CurrentOwner())
	if err != nil {
		t.Fatal(err)
	}
	var locked *LockedError
	if _, err := AcquireLock(open(dir), CurrentOwner()); !errors.As(err, &locked) || locked.Owner == nil || locked.Owner.PID != os.Getpid() {
		t.Errorf("second: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l, err = AcquireLock(open(dir), CurrentOwner())
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestCurrentOwner(t *testing.T) {
	o := CurrentOwner()
	if o.PID != os.Getpid() || o.Program == "" {
		t.Errorf("%+v", o)
	}
	if runtime.GOOS == "linux" && (o.PIDNamespace == 0 || o.StartTicks == 0 || o.BootID == "") {
		t.Errorf("facts are missing: %+v", o)
	}
}
