package meta

import (
	"bytes"
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/sealstone/sealstone/engine/layout"
	"github.com/sealstone/sealstone/internal/sums"
	"github.com/sealstone/sealstone/internal/vfs"
)

func readAll(t testing.TB, fsys vfs.FS, name string) []byte {
	t.Helper()
	p, err := readFile(fsys, name, MaxNamespacesBytes)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func overwrite(t testing.TB, fsys vfs.FS, name string, p []byte) {
	t.Helper()
	f, err := fsys.Open(name, vfs.Create|vfs.Trunc)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(p, 0); err != nil {
		t.Fatal(err)
	}
}

var pairs = [][2]string{
	{StoreFile, StoreCopyFile}, {StoreCopyFile, StoreFile},
	{NamespacesFile, NamespacesCopyFile}, {NamespacesCopyFile, NamespacesFile},
}

func sampleMeta(t testing.TB) (*vfs.Mem, *Meta) {
	mem := vfs.NewMem()
	m := mustCreate(t, mem)
	mustAdd(t, m, "tenant", layout.Opaque("a"))
	return mem, m
}

// requireHealed opens and expects the state of want, one healed finding about
// file, and files that need no healing any more.
func requireHealed(t *testing.T, fsys vfs.FS, want *Meta, file string) {
	t.Helper()
	m, found, err := Open(fsys, false)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if len(found) != 1 || found[0].File != file || !found[0].Healed || m.Err() != nil {
		t.Fatalf("%s: findings %v, Err %v", file, found, m.Err())
	}
	requireSame(t, m, want)
	requireSame(t, mustOpen(t, fsys), want)
}

// requireDamaged opens, with and without writing, and expects both files to be
// named and left alone.
func requireDamaged(t *testing.T, fsys vfs.FS, files [2]string) {
	t.Helper()
	for _, readOnly := range []bool{true, false} {
		_, _, err := Open(noWrites(t, fsys), readOnly)
		var damaged *DamagedError
		if !errors.Is(err, ErrDamaged) || !errors.As(err, &damaged) || damaged.Advice == "" {
			t.Fatalf("%v: %v", files, err)
		}
		for _, file := range files {
			if !strings.Contains(err.Error(), file+":") {
				t.Errorf("%q does not name %s", err, file)
			}
		}
	}
}

// Every byte of every copy: damaged in one it is healed, in both it is refused.
func TestEveryByteFlipped(t *testing.T) {
	mem, want := sampleMeta(t)
	for _, files := range pairs {
		good := readAll(t, mem, files[0])
		for i := range good {
			bad := bytes.Clone(good)
			bad[i] ^= byte(1 << (i % 8))
			overwrite(t, mem, files[0], bad)
			requireHealed(t, mem, want, files[0])
			if !bytes.Equal(readAll(t, mem, files[0]), good) {
				t.Fatalf("%s, byte %d: healed to other bytes", files[0], i)
			}
			overwrite(t, mem, files[0], bad)
			overwrite(t, mem, files[1], bad)
			if e := laterFormat("", bad, bad); e != nil { // the same unknown feature in both is not rot
				requireLater(t, mem, files[0], i)
			} else {
				requireDamaged(t, mem, files)
			}
			overwrite(t, mem, files[0], good)
			overwrite(t, mem, files[1], good)
		}
	}
}

// requireLater opens and expects a store of a later program.
func requireLater(t *testing.T, fsys vfs.FS, file string, flipped int) {
	t.Helper()
	var later *UnsupportedError
	if _, _, err := Open(noWrites(t, fsys), false); !errors.As(err, &later) || !strings.Contains(err.Error(), "no sum proves") ||
		!strings.HasPrefix(later.File, strings.TrimSuffix(file, ".2")) || flipped < 8 || flipped >= 16 {
		t.Fatalf("byte %d of both copies: %v", flipped, err)
	}
}

// A later program may sum its files in another way, and make them longer: that
// is not called damage, unless the copies differ.
func TestLaterProgramWithOtherSum(t *testing.T) {
	for _, files := range pairs {
		mem, _ := sampleMeta(t)
		p := append(readAll(t, mem, files[0]), make([]byte, 100)...)
		p[8] = FormatVersion + 1
		overwrite(t, mem, files[0], p)
		overwrite(t, mem, files[1], p)
		var later *UnsupportedError
		if _, _, err := Open(noWrites(t, mem), true); !errors.As(err, &later) || later.Version != FormatVersion+1 {
			t.Errorf("%v of a later version: %v", files, err)
		}
		q := bytes.Clone(p)
		q[8]++
		overwrite(t, mem, files[1], q)
		requireDamaged(t, mem, files)
		if err := mem.Remove(files[1]); err != nil {
			t.Fatal(err)
		}
		requireDamaged(t, mem, files)
	}
}

func TestTornAndMissingCopies(t *testing.T) {
	mem, want := sampleMeta(t)
	for _, files := range pairs {
		good := readAll(t, mem, files[0])
		for _, n := range []int{0, 1, envelopeBytes, len(good) / 2, len(good) - 1} {
			overwrite(t, mem, files[0], good[:n])
			requireHealed(t, mem, want, files[0])
		}
		zeroed := bytes.Clone(good)
		clear(zeroed[len(good)/2:])
		overwrite(t, mem, files[0], zeroed)
		requireHealed(t, mem, want, files[0])
		overwrite(t, mem, files[0], append(bytes.Clone(good), 0))
		requireHealed(t, mem, want, files[0])
		overwrite(t, mem, files[0], make([]byte, MaxNamespacesBytes+1))
		requireHealed(t, mem, want, files[0])
		if err := mem.Remove(files[0]); err != nil {
			t.Fatal(err)
		}
		requireHealed(t, mem, want, files[0])
	}
}

func TestBothMissing(t *testing.T) {
	mem, _ := sampleMeta(t)
	for _, name := range []string{NamespacesFile, NamespacesCopyFile} {
		if err := mem.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	requireDamaged(t, mem, [2]string{NamespacesFile, NamespacesCopyFile})
	for _, name := range []string{StoreFile, StoreCopyFile} {
		if err := mem.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := Open(mem, false); !errors.Is(err, ErrNoStore) {
		t.Errorf("without STORE and data: %v", err)
	}
	// With data there it was a store, and a new one must not bury it.
	for _, dir := range dataDirs {
		if err := mem.MkdirAll(dir + "/x"); err != nil {
			t.Fatal(err)
		}
		requireDamaged(t, mem, [2]string{StoreFile, StoreCopyFile})
		if _, err := Create(mem, testParams()); !errors.Is(err, ErrExists) {
			t.Errorf("Create beside %s: %v", dir, err)
		}
		if err := mem.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Create(mem, testParams()); err != nil {
		t.Errorf("Create over the rest: %v", err)
	}
}

func TestStaleCopy(t *testing.T) {
	for _, file := range []string{NamespacesFile, NamespacesCopyFile} {
		mem, m := sampleMeta(t)
		old := readAll(t, mem, file)
		if _, err := m.RaiseFloor(1, 5); err != nil {
			t.Fatal(err)
		}
		overwrite(t, mem, file, old)
		requireHealed(t, mem, m, file)
	}
}

// Copies of one generation that differ: neither can be preferred.
func TestTwins(t *testing.T) {
	mem, m := sampleMeta(t)
	twin := *m.names.Load()
	twin.segmentBound++
	overwrite(t, mem, NamespacesCopyFile, encodeNames(&twin, m.key))
	if _, _, err := Open(mem, false); !errors.Is(err, ErrDamaged) {
		t.Errorf("twins: %v", err)
	}
}

// The newest copy decides: an older one that this program could read must not
// be preferred, or what the newer program did would be undone.
func TestNewerProgram(t *testing.T) {
	mem, m := sampleMeta(t)
	newer := *m.names.Load()
	newer.generation++
	newer.features.Incompat = 1 << 7
	overwrite(t, mem, NamespacesCopyFile, encodeNames(&newer, m.key))
	var unsupported *UnsupportedError
	if _, _, err := Open(noWrites(t, mem), false); !errors.As(err, &unsupported) ||
		unsupported.File != NamespacesCopyFile || unsupported.Incompat != 1<<7 {
		t.Errorf("newer copy with an unknown feature: %v", err)
	}
	newer.generation -= 2
	overwrite(t, mem, NamespacesCopyFile, encodeNames(&newer, m.key))
	requireHealed(t, mem, m, NamespacesCopyFile)

	p := readAll(t, mem, StoreFile)
	p[16] = 1
	p = reseal(p, sums.DomainStore, m.key)
	overwrite(t, mem, StoreFile, p)
	overwrite(t, mem, StoreCopyFile, p)
	if _, _, err := Open(noWrites(t, mem), false); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("feature that forbids writing: %v", err)
	}
	if _, _, err := Open(noWrites(t, mem), true); err != nil {
		t.Errorf("the same, read-only: %v", err)
	}
}

// A store whose copy cannot be healed opens, reads, and does not write.
func TestHealingFails(t *testing.T) {
	mem, want := sampleMeta(t)
	if err := mem.Remove(StoreFile); err != nil {
		t.Fatal(err)
	}
	m, found, err := Open(vfs.WithHook(mem, func(op vfs.Op) error {
		if op.Kind == vfs.OpRename {
			return syscall.EROFS
		}
		return nil
	}), false)
	if err != nil || len(found) != 1 || found[0].Healed || !strings.Contains(found[0].Problem, "could not be healed") {
		t.Fatalf("%v, %v", err, found)
	}
	requireSame(t, m, want)
	if _, _, err := m.ReserveSegments(1); !errors.Is(err, ErrPoisoned) || !errors.Is(err, syscall.EROFS) {
		t.Errorf("write: %v", err)
	}
	requireHealed(t, mem, want, StoreFile)
}

// A copy that cannot be read is no worse than a damaged one, and its error is
// not lost when both are.
func TestReadErrors(t *testing.T) {
	mem, want := sampleMeta(t)
	failing := func(names ...string) vfs.FS {
		return vfs.WithHook(mem, func(op vfs.Op) error {
			for _, name := range names {
				if op.Kind == vfs.OpRead && op.Name == name {
					return syscall.EIO
				}
			}
			return nil
		})
	}
	for _, files := range pairs {
		m, found, err := Open(failing(files[0]), false)
		if err != nil || len(found) != 1 || found[0].File != files[0] {
			t.Fatalf("%s: %v, %v", files[0], err, found)
		}
		requireSame(t, m, want)
		if _, _, err := Open(failing(files[:]...), false); !errors.Is(err, ErrDamaged) || !errors.Is(err, syscall.EIO) {
			t.Errorf("%v: %v", files, err)
		}
	}
}

// Create does not take an unreadable STORE for an absent one.
func TestCreateBesideUnreadable(t *testing.T) {
	mem := vfs.NewMem()
	if err := mem.Mkdir(StoreFile); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(mem, testParams()); !errors.Is(err, ErrExists) {
		t.Errorf("a directory named STORE: %v", err)
	}
	if _, _, err := Open(mem, true); !errors.Is(err, ErrDamaged) || errors.Is(err, fs.ErrExist) {
		t.Errorf("Open: %v", err)
	}
}
