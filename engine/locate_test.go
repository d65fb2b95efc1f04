package engine

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
)

// readRange reads part of a file of a store that is not open.
func readRange(t testing.TB, fs vfs.FS, name string, off, n int64) []byte {
	t.Helper()
	f, err := fs.Open(name, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := make([]byte, n)
	if _, err := f.ReadAt(p, off); err != nil {
		t.Fatalf("read %s at %d: %v", name, off, err)
	}
	return p
}

func testLocate(fs vfs.FS, id int) (*Location, error) {
	return locate("mem", testOptions(fs).private, 1, hashOf(id))
}

func TestLocate(t *testing.T) {
	fs := vfs.NewMem()
	s := mustOpen(t, testOptions(fs))
	n := mustSpace(t, s)
	const size = 9000
	mustPut(t, n, blockOf(1, 0, size))
	mustPut(t, n, blockOf(3, 0, size))
	mustFlush(t, s)
	alias := blockOf(1, 0, size)
	alias.Hash = hashOf(2)
	if r := mustPut(t, n, alias); !r.Shared {
		t.Fatalf("not shared: %+v", r)
	}
	if _, err := testLocate(fs, 1); !errors.Is(err, ErrLocked) {
		t.Errorf("of an open store: %v", err)
	}
	if r := n.Drop(context.Background(), [][]byte{hashOf(3)})[0]; r.Status != StatusOK {
		t.Fatal(r)
	}
	crashed := fs.CrashClone(vfs.CrashOptions{}) // nothing is applied: it is in the log alone
	mustClose(t, s)
	for name, fs := range map[string]vfs.FS{"closed": fs, "crashed": crashed} {
		checkLocations(t, name, fs, size)
	}
}

func checkLocations(t *testing.T, name string, fs vfs.FS, size int) {
	t.Helper()
	a, err := testLocate(fs, 1)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	want := contentOf(1, 0, size)
	got := readRange(t, fs, a.File, a.PayloadOffset, a.PayloadBytes)
	cut := size / 3
	if !bytes.HasPrefix(got, want[:cut]) || !bytes.HasPrefix(got[4096:], want[cut:]) {
		t.Errorf("%s: the bytes are not at %+v", name, a)
	}
	if magic := readRange(t, fs, a.File, a.HeaderOffset, 8); string(magic) != "SLSTEXTN" {
		t.Errorf("%s: no header at %+v", name, a)
	}
	b, err := testLocate(fs, 2)
	if err != nil || !b.Alias || b.PayloadOffset != a.PayloadOffset || b.ContentID != a.ContentID {
		t.Errorf("%s: alias: %+v, %v", name, b, err)
	} else if magic := readRange(t, fs, b.AliasFile, b.AliasOffset, 8); string(magic) != "SLSTEXTN" {
		t.Errorf("%s: no header of the alias at %+v", name, b)
	}
	for _, id := range []int{3, 4} {
		if l, err := testLocate(fs, id); !errors.Is(err, ErrMiss) {
			t.Errorf("%s: block %d: %+v, %v", name, id, l, err)
		}
	}
}

func TestLocateErrors(t *testing.T) {
	empty := vfs.NewMem()
	if _, err := testLocate(empty, 1); !errors.Is(err, ErrNoStore) {
		t.Errorf("of an empty directory: %v", err)
	}
	if names, err := empty.List("."); err != nil || len(names) != 0 {
		t.Errorf("a look left %v, %v", names, err)
	}
	fs := vfs.NewMem()
	mustClose(t, mustOpen(t, testOptions(fs)))
	if err := fs.RemoveAll(indexDir); err != nil {
		t.Fatal(err)
	}
	if _, err := testLocate(fs, 1); !errors.Is(err, ErrDamaged) {
		t.Errorf("without an index: %v", err)
	}
	if _, err := Locate(t.TempDir(), 1, hashOf(1)); !errors.Is(err, ErrNoStore) {
		t.Errorf("of an empty directory: %v", err)
	}
}
