package meta

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sealstone/sealstone/engine/layout"
	"github.com/sealstone/sealstone/internal/vfs"
)

func testParams() CreateParams {
	p := CreateParams{
		SegmentBytes: 8 << 20, AlignmentBytes: 4096, PebbleFormat: 19, CreatedUnix: 1_700_000_000,
	}
	for i := range p.UUID {
		p.UUID[i] = byte(0x10 + i)
	}
	for i := range p.Secret {
		p.Secret[i] = byte(0xc0 + i)
	}
	return p
}

func mustCreate(t testing.TB, fsys vfs.FS) *Meta {
	t.Helper()
	m, err := Create(fsys, testParams())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// mustOpen opens for writing and expects no findings.
func mustOpen(t testing.TB, fsys vfs.FS) *Meta {
	t.Helper()
	m, found, err := Open(fsys, false)
	if err != nil || len(found) != 0 {
		t.Fatalf("Open: %v, findings %v", err, found)
	}
	return m
}

func mustAdd(t testing.TB, m *Meta, tenant string, l layout.Layout) Namespace {
	t.Helper()
	n, err := m.AddNamespace(tenant, l, 1_700_000_001)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func requireSame(t *testing.T, got, want *Meta) {
	t.Helper()
	if diff := cmp.Diff(want.Store(), got.Store()); diff != "" {
		t.Errorf("Store (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want.Namespaces(), got.Namespaces()); diff != "" {
		t.Errorf("Namespaces (-want +got):\n%s", diff)
	}
	gotSegments, gotSequences := got.Bounds()
	if segments, sequences := want.Bounds(); gotSegments != segments || gotSequences != sequences {
		t.Errorf("Bounds = %d, %d, want %d, %d", gotSegments, gotSequences, segments, sequences)
	}
	if got.Key() != want.Key() {
		t.Error("another key")
	}
}

func TestLifeCycle(t *testing.T) {
	for name, open := range map[string]func() vfs.FS{
		"mem": func() vfs.FS { return vfs.NewMem() },
		"os": func() vfs.FS {
			fsys, err := vfs.OpenOS(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { fsys.Close() })
			return fsys
		},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := open()
			if _, _, err := Open(fsys, false); !errors.Is(err, ErrNoStore) {
				t.Fatalf("Open of an empty directory: %v", err)
			}
			m := mustCreate(t, fsys)
			if _, err := Create(fsys, testParams()); !errors.Is(err, ErrExists) {
				t.Fatalf("Create twice: %v", err)
			}
			a := mustAdd(t, m, "", layout.Opaque("a"))
			b := mustAdd(t, m, "tenant", layout.Opaque("a"))
			if again := mustAdd(t, m, "", layout.Opaque("a")); !cmp.Equal(a, again) {
				t.Errorf("the same namespace again: %v, want %v", again, a)
			}
			if a.Number != 1 || b.Number != 2 || a.Epoch != 1 || a.Floor != 0 {
				t.Errorf("namespaces %+v and %+v", a, b)
			}
			raised, err := m.RaiseFloor(a.Number, 7)
			if err != nil || raised.Epoch != 2 || raised.Floor != 7 {
				t.Errorf("RaiseFloor: %+v, %v", raised, err)
			}
			if err := m.RaisePebbleFormat(20); err != nil {
				t.Error(err)
			}
			requireSame(t, mustOpen(t, fsys), m)
			names, err := fsys.List(".")
			want := []string{NamespacesFile, NamespacesCopyFile, StoreFile, StoreCopyFile}
			if err != nil || !slices.Equal(names, want) {
				t.Errorf("files %v, %v", names, err)
			}
		})
	}
}

func TestLookupAndNear(t *testing.T) {
	m := mustCreate(t, vfs.NewMem())
	l := layout.Opaque("model")
	other := l.Clone()
	other.DType = "float16"
	n := mustAdd(t, m, "x", l)
	mustAdd(t, m, "y", other)
	if got, ok := m.Lookup("x", l.Fingerprint()); !ok || !cmp.Equal(got, n) {
		t.Errorf("Lookup = %v, %v", got, ok)
	}
	if got, ok := m.Lookup("x", other.Fingerprint()); ok {
		t.Errorf("Lookup finds the namespace of another tenant: %v", got)
	}
	if near := m.Near("x", other); len(near) != 1 || near[0].Number != n.Number {
		t.Errorf("Near = %v", near)
	}
	if near := m.Near("x", l); len(near) != 0 {
		t.Errorf("an equal layout is near: %v", near)
	}
	// What callers get is theirs.
	got := m.Namespaces()
	got[0].Layout.Planes[0].Name = "changed"
	if again := m.Namespaces(); again[0].Layout.Planes[0].Name != "value" {
		t.Error("Namespaces shares memory with the store")
	}
}

func TestRandomIdentity(t *testing.T) {
	p := testParams()
	p.UUID, p.Secret = [16]byte{}, [32]byte{}
	a, err := Create(vfs.NewMem(), p)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Create(vfs.NewMem(), p)
	if err != nil {
		t.Fatal(err)
	}
	if a.Store().UUID == b.Store().UUID || a.Key() == b.Key() {
		t.Error("two stores share uuid or secret")
	}
}

func TestReadOnly(t *testing.T) {
	fsys := vfs.NewMem()
	n := mustAdd(t, mustCreate(t, fsys), "", layout.Opaque("a"))
	if err := fsys.Remove(StoreCopyFile); err != nil {
		t.Fatal(err)
	}
	m, found, err := Open(noWrites(t, fsys), true)
	if err != nil || len(found) != 1 || found[0].File != StoreCopyFile || found[0].Healed {
		t.Fatalf("Open: %v, %v", found, err)
	}
	if same, err := m.AddNamespace("", layout.Opaque("a"), 0); err != nil || !cmp.Equal(same, n) {
		t.Errorf("a namespace that is there: %v, %v", same, err)
	}
	_, addErr := m.AddNamespace("", layout.Opaque("b"), 0)
	_, floorErr := m.RaiseFloor(n.Number, 1)
	_, _, segErr := m.ReserveSegments(1)
	_, _, seqErr := m.ReserveSequences(1)
	for _, err := range []error{addErr, floorErr, segErr, seqErr, m.RaisePebbleFormat(99)} {
		if !errors.Is(err, ErrReadOnly) {
			t.Errorf("%v, want ErrReadOnly", err)
		}
	}
}

// noWrites fails the test when anything is changed.
func noWrites(t *testing.T, fsys vfs.FS) vfs.FS {
	return vfs.WithHook(fsys, func(op vfs.Op) error {
		if op.Mutates() {
			t.Errorf("a read-only store changes %s (%v)", op.Name, op.Kind)
		}
		return nil
	})
}

// A failed write, wherever it happens, changes nothing that is visible, and is
// no obstacle to the next: whichever copies the failure left, after a power cut
// too, what was written later is what counts.
func TestFailedChange(t *testing.T) {
	for k := 0; ; k++ {
		mem := vfs.NewMem()
		mustAdd(t, mustCreate(t, mem), "", layout.Opaque("a"))
		before := mustOpen(t, mem)
		ops, armed := 0, false
		m := mustOpen(t, vfs.WithHook(mem, func(op vfs.Op) error {
			if !armed || !op.Mutates() {
				return nil
			}
			if ops++; ops == k+1 {
				return syscall.ENOSPC
			}
			return nil
		}))
		armed = true
		_, err := m.AddNamespace("", layout.Opaque("b"), 0)
		armed = false
		if err == nil {
			if ops > k {
				t.Errorf("operation %d failed and the answer is OK", k)
			}
			if k < 10 {
				t.Errorf("only %d operations for two durable copies", k)
			}
			return
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("operation %d: %v", k, err)
		}
		requireSame(t, m, before)
		for _, cut := range []vfs.CrashOptions{{}, {KeepAll: true}, {KeepNames: 1}} {
			again, _, err := Open(mem.CrashClone(cut), false)
			if err != nil || again.Err() != nil || len(again.Namespaces()) < 1 || len(again.Namespaces()) > 2 {
				t.Errorf("operation %d: open what a failure leaves: %v", k, err)
			}
		}
		c := mustAdd(t, m, "", layout.Opaque("c"))
		for _, cut := range []vfs.CrashOptions{{}, {KeepAll: true}, {KeepNames: 1}} {
			again := mustOpen(t, mem.CrashClone(cut))
			if got, ok := again.Lookup("", c.Fingerprint); !ok || got.Number != c.Number || len(again.Namespaces()) != 2 {
				t.Errorf("operation %d: after the next change: %+v", k, again.Namespaces())
			}
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	fsys := vfs.NewMem()
	m := mustCreate(t, fsys)
	const workers, rounds = 4, 8
	var wg sync.WaitGroup
	var mu sync.Mutex
	taken := map[uint64]bool{}
	for w := range workers {
		wg.Go(func() {
			for i := range rounds {
				n, err := m.AddNamespace(fmt.Sprint("tenant", w%2), layout.Opaque(fmt.Sprint(i)), 0)
				if err != nil {
					t.Error(err)
				}
				if got, ok := m.Lookup(n.Tenant, n.Fingerprint); !ok || got.Number != n.Number {
					t.Errorf("Lookup after AddNamespace: %v %v", got, ok)
				}
				if _, err := m.RaiseFloor(n.Number, uint64(i)); err != nil {
					t.Error(err)
				}
				first, _, err := m.ReserveSegments(1)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				if taken[first] {
					t.Errorf("segment %d twice", first)
				}
				taken[first] = true
				mu.Unlock()
				m.Namespaces()
			}
		})
	}
	wg.Wait()
	if n := len(m.Namespaces()); n != 2*rounds {
		t.Errorf("%d namespaces, want %d", n, 2*rounds)
	}
	requireSame(t, mustOpen(t, fsys), m)
}
