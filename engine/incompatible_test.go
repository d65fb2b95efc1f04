package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/faults/faulttest"
	"github.com/sealstone/sealstone/internal/vfs"
)

// incompatible are ways in which a store can not be opened.
var incompatible = map[string]struct {
	make func(t testing.TB, fs *vfs.Mem)
	kind error
	says string
}{
	"a newer index": {makeNewer, ErrUnsupported, "format"},
	"a newer log": {func(t testing.TB, fs *vfs.Mem) {
		for _, name := range filesUnder(t, fs, logDir, ".wal") {
			patch(t, fs, name, 0, func(p []byte) { newerLogHeader(p) }, 4096)
		}
	}, ErrUnsupported, "version 2"},
	"STORE lost":      {func(t testing.TB, fs *vfs.Mem) { removeAll(t, fs, "STORE", "STORE.2") }, ErrDamaged, "STORE"},
	"NAMESPACES lost": {func(t testing.TB, fs *vfs.Mem) { removeAll(t, fs, "NAMESPACES", "NAMESPACES.2") }, ErrDamaged, "NAMESPACES"},
	"STORE damaged": {func(t testing.TB, fs *vfs.Mem) {
		for _, name := range []string{"STORE", "STORE.2"} {
			patch(t, fs, name, 0, func(p []byte) { clear(p) }, 512)
		}
	}, ErrDamaged, "STORE"},
}

// makeNewer has STORE name an index of a later format.
func makeNewer(t testing.TB, fs *vfs.Mem) {
	t.Helper()
	s := mustOpen(t, victimOptions(fs))
	if err := s.meta.RaisePebbleFormat(index.FormatVersion + 1); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
}

func removeAll(t testing.TB, fs vfs.FS, names ...string) {
	t.Helper()
	for _, n := range names {
		if err := fs.RemoveAll(n); err != nil {
			t.Fatal(err)
		}
	}
}

func setAsideOptions(fs vfs.FS) Options {
	o := victimOptions(fs)
	o.OnIncompatible, o.CapacityBytes = IncompatibleSetAside, 16*mib
	return o
}

// TestSetAside: refused by default, with nothing changed; set aside where that
// is asked for, with nothing lost.
func TestSetAside(t *testing.T) {
	for name, c := range incompatible {
		t.Run(name, func(t *testing.T) {
			v := newVictim(t)
			c.make(t, v.fs)
			before := v.clone()
			_, err := Open("mem", victimOptions(v.fs))
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "set-aside") {
				t.Fatalf("refused with %v", err)
			}
			wantSameTree(t, before, v.fs)

			s := mustOpen(t, setAsideOptions(v.fs))
			if !eventWith(s, EventSetAside, asidePrefix) || s.strangeBytes == 0 {
				t.Errorf("not said: %v, %d bytes", s.Events(0), s.strangeBytes)
			}
			n := mustSpace(t, s)
			for _, b := range v.blocks {
				wantStatus(t, n, b.id, b.size, StatusMiss)
			}
			mustPut(t, n, blockOf(1, 0, 5000))
			wantBlock(t, n, 1, 0, 5000)
			mustClose(t, s)
			wantAside(t, before, v.fs)
			wantClean(t, v.fs)

			o := setAsideOptions(v.fs) // by now it is a store like any
			o.OnIncompatible = IncompatibleRefuse
			s = mustOpen(t, o)
			wantBlock(t, mustSpace(t, s), 1, 0, 5000)
			mustClose(t, s)
		})
	}
}

// wantAside wants all that was in a store in one directory that was set aside.
func wantAside(t testing.TB, before, fs vfs.FS) {
	t.Helper()
	names, err := fs.List(".")
	if err != nil {
		t.Fatal(err)
	}
	now := map[string]string{}
	dirs := 0
	for _, n := range names {
		if strings.HasPrefix(n, asidePrefix) {
			dirs++
			for name, content := range treeOf(t, fs, n) {
				now[strings.TrimPrefix(name, n+"/")] = content
			}
		}
	}
	for name, content := range treeOf(t, before, ".") {
		if name = strings.TrimPrefix(name, "./"); name == "LOCK" || name == probeFile {
			continue
		}
		if got, ok := now[name]; !ok || got != content {
			t.Errorf("%s was not set aside as it was (there: %v)", name, ok)
		}
	}
	if _, ok := now[manifestName]; !ok || dirs != 1 {
		t.Errorf("%d directories, with a manifest: %v", dirs, ok)
	}
}

// TestFaultSetAsideCrash crashes the setting aside before each of its
// operations: nothing is lost of what was there, and the next Open comes to
// the same end.
func TestFaultSetAsideCrash(t *testing.T) {
	tally := faulttest.New(t)
	v := newVictim(t)
	makeNewer(t, v.fs)
	before := v.clone()
	modes := append([]vfs.CrashOptions{killed, plainCut}, namesCuts()...)
	if testing.Short() {
		modes = modes[1:3]
	}
	var mu sync.Mutex
	var wrecks []wreck
	done := false
	fs := vfs.WithHook(v.fs, func(op vfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if !op.Mutates() || done {
			return nil
		}
		for i, m := range modes {
			wrecks = append(wrecks, wreck{v.fs.CrashClone(m), fmt.Sprintf("crash %d before %v", i, op)})
		}
		// Behind it lies the making of a store, which has its own test.
		done = op.Kind == vfs.OpRename && strings.HasSuffix(op.Name, meta0)
		return nil
	})
	mustClose(t, mustOpen(t, setAsideOptions(fs)))
	if !done {
		t.Fatal("the manifest was never written")
	}
	for _, w := range wrecks {
		f := tally.Try(w.name)
		f.Fire()
		if s, err := Open("mem", victimOptions(w.fs.CrashClone(killed))); err == nil {
			// Nothing of the store was there any more: all had been moved.
			mustClose(t, s)
			wantAsideButManifest(t, before, w.fs)
		}
		mustClose(t, mustOpen(t, setAsideOptions(w.fs)))
		if _, err := w.fs.Stat("STORE"); err != nil {
			t.Errorf("%s: %v", w.name, err)
		}
		wantAsideButManifest(t, before, w.fs)
		if t.Failed() {
			t.Fatal(w.name)
		}
		f.Survive()
	}
}

// meta0 is the last name that is renamed while content is set aside.
const meta0 = manifestName + ".tmp"

func wantAsideButManifest(t testing.TB, before, fs vfs.FS) {
	t.Helper()
	names, err := fs.List(".")
	if err != nil {
		t.Fatal(err)
	}
	now := map[string]string{}
	for _, n := range names {
		if strings.HasPrefix(n, asidePrefix) {
			for name, content := range treeOf(t, fs, n) {
				now[strings.TrimPrefix(name, n+"/")] = content
			}
		}
	}
	for name, content := range treeOf(t, before, ".") {
		if name = path.Clean(name); name == "LOCK" || name == probeFile {
			continue
		}
		if got, ok := now[name]; !ok || got != content {
			t.Errorf("%s is lost or changed (there: %v)", name, ok)
		}
	}
}

// TestSetAsideCapacity: what is set aside counts, and where it leaves too
// little nothing is moved.
func TestSetAsideCapacity(t *testing.T) {
	v := newVictim(t)
	makeNewer(t, v.fs)
	before := v.clone()
	o := setAsideOptions(v.fs)
	o.CapacityBytes = 2700 * kib
	if _, err := Open("mem", o); !errors.Is(err, ErrCapacity) || !strings.Contains(err.Error(), "set aside") {
		t.Fatalf("%v", err)
	}
	wantSameTree(t, before, v.fs)
}

// TestSetAsideDeviceFails: a device that answers errors has nothing set aside.
func TestSetAsideDeviceFails(t *testing.T) {
	v := newVictim(t)
	before := v.clone()
	fs := vfs.WithHook(v.fs, func(op vfs.Op) error {
		if op.Kind == vfs.OpRead && strings.HasPrefix(op.Name, "STORE") {
			return syscall.EIO
		}
		return nil
	})
	if _, err := Open("mem", setAsideOptions(fs)); !errors.Is(err, syscall.EIO) {
		t.Fatalf("%v", err)
	}
	wantSameTree(t, before, v.fs)
}

// TestSetAsideBounded is field case 4: a store filled to its limit, then a
// program of another format version, and 100 MiB of somebody else's files. The
// limit holds for all of it together, at every moment.
func TestSetAsideBounded(t *testing.T) {
	fs := vfs.NewMem()
	o := setAsideOptions(fs)
	s := mustOpen(t, o)
	n := mustSpace(t, s)
	fill := func(n *Namespace, from int) {
		t.Helper()
		for id := range 120 {
			if r := putOne(n, blockOf(from+id, 0, 100*int(kib))); r.Status != StatusOK && r.Status != StatusShed {
				t.Fatalf("put %d: %v %v", id, r.Status, r.Err)
			}
			if used := fs.UsedBytes(); used > o.CapacityBytes {
				t.Fatalf("%d bytes used of %d", used, o.CapacityBytes)
			}
		}
	}
	fill(n, 0)
	mustClose(t, s)
	makeNewer(t, fs)
	old := fs.UsedBytes()

	o.CapacityBytes = old + 2*mib
	_, err := Open("mem", o)
	if !errors.Is(err, ErrCapacity) || !strings.Contains(err.Error(), "set aside") {
		t.Fatalf("%d bytes are set aside of %d, and open says %v", old, o.CapacityBytes, err)
	}
	o.CapacityBytes = old + 6*mib
	s = mustOpen(t, o)
	fill(mustSpace(t, s), 1000)
	if err := fs.MkdirAll("stray"); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	writeFileTo(t, fs, "stray/file", strings.Repeat("x", 1<<20))
	o.CapacityBytes += mib
	s = mustOpen(t, o)
	if !eventWith(s, EventStrangeFile, "stray") || !eventWith(s, EventStrangeFile, asidePrefix) {
		t.Errorf("not reported: %v", s.Events(0))
	}
	fill(mustSpace(t, s), 2000)
	mustClose(t, s)
	if _, err := fs.Stat("stray/file"); err != nil {
		t.Errorf("somebody else's file: %v", err)
	}
}

func TestParseOnIncompatible(t *testing.T) {
	for s, want := range map[string]OnIncompatible{"": IncompatibleRefuse, "refuse": IncompatibleRefuse, "set-aside": IncompatibleSetAside} {
		if got, err := ParseOnIncompatible(s); got != want || err != nil {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
	if _, err := ParseOnIncompatible("delete"); !errors.Is(err, ErrInvalid) {
		t.Errorf("%v", err)
	}
	o := setAsideOptions(vfs.NewMem())
	for _, set := range []func(*Options){func(o *Options) { o.ReadOnly = true }, func(o *Options) { o.MustExist = true }} {
		o := o
		set(&o)
		if _, err := Open("mem", o); !errors.Is(err, ErrInvalid) {
			t.Errorf("%v", err)
		}
	}
}

// newerLogHeader makes the header page of a log file one of the next version,
// with its sum.
func newerLogHeader(p []byte) {
	binary.LittleEndian.PutUint32(p[8:], 2)
	binary.LittleEndian.PutUint64(p[4088:], xxhash.Sum64(p[:4088]))
}
