package meta

import (
	"errors"
	"fmt"
	"testing"

	"github.com/sealstone/sealstone/engine/layout"
	"github.com/sealstone/sealstone/internal/vfs"
)

// answered is what the caller of Meta was told is done. After a crash at any
// later moment all of it must be there.
type answered struct {
	created   bool
	floors    map[string]uint64 // by layout, of those added
	numbers   map[string]uint32
	segments  uint64 // bound
	sequences uint64
	format    uint32
}

func (a answered) clone() answered {
	floors, numbers := map[string]uint64{}, map[string]uint32{}
	for k, v := range a.floors {
		floors[k] = v
	}
	for k, v := range a.numbers {
		numbers[k] = v
	}
	a.floors, a.numbers = floors, numbers
	return a
}

// scenario does everything that writes and notes each answer.
func scenario(fsys vfs.FS, a *answered) error {
	a.floors, a.numbers = map[string]uint64{}, map[string]uint32{}
	m, err := Create(fsys, testParams())
	if err != nil {
		return err
	}
	a.created, a.format = true, m.Store().PebbleFormat
	for i, name := range []string{"x", "y"} {
		n, err := m.AddNamespace("", layout.Opaque(name), 0)
		if err != nil {
			return err
		}
		a.floors[name], a.numbers[name] = n.Floor, n.Number
		if _, a.segments, err = m.ReserveSegments(1); err != nil {
			return err
		}
		if _, a.sequences, err = m.ReserveSequences(1); err != nil {
			return err
		}
		if n, err = m.RaiseFloor(n.Number, uint64(100+i)); err != nil {
			return err
		}
		a.floors[name] = n.Floor
	}
	if err := m.RaisePebbleFormat(20); err != nil {
		return err
	}
	a.format = 20
	return nil
}

// requireAnswered opens what a crash left and holds it against the answers.
func requireAnswered(t *testing.T, fsys vfs.FS, a answered) {
	t.Helper()
	m, _, err := Open(fsys, false)
	if !a.created && errors.Is(err, ErrNoStore) {
		if _, err = Create(fsys, testParams()); err != nil {
			t.Fatalf("Create after a crash in Create: %v", err)
		}
		m, _, err = Open(fsys, false)
	}
	if err != nil || m.Err() != nil {
		t.Fatalf("Open: %v, %v", err, m)
	}
	for name, floor := range a.floors {
		n, ok := m.Lookup("", layout.Opaque(name).Fingerprint())
		if !ok || n.Number != a.numbers[name] || n.Floor < floor || n.Floor > 101 {
			t.Fatalf("namespace %s: %+v, answered were number %d, floor %d", name, n, a.numbers[name], floor)
		}
	}
	if got := m.Store().PebbleFormat; got < a.format {
		t.Fatalf("index format %d, answered was %d", got, a.format)
	}
	first, _, err := m.ReserveSegments(1)
	if err != nil || first < a.segments {
		t.Fatalf("segment %d again, answered was %d (%v)", first, a.segments, err)
	}
	if first, _, err = m.ReserveSequences(1); err != nil || first < a.sequences {
		t.Fatalf("sequence %d again, answered was %d (%v)", first, a.sequences, err)
	}
	_, found, err := Open(fsys, true)
	if err != nil || len(found) != 0 {
		t.Fatalf("second Open: %v, %v: the first did not heal", err, found)
	}
	if names, _ := fsys.List("."); len(names) != 4 {
		t.Fatalf("files left: %v", names)
	}
}

// A crash before every operation, each in several ways.
func TestCrashEverywhere(t *testing.T) {
	kinds := []vfs.CrashOptions{{KeepAll: true}, {}, {KeepNames: 1}, {KeepBytes: 1}}
	for seed := range uint64(8) {
		kinds = append(kinds, vfs.CrashOptions{Seed: seed, KeepBytes: 0.5, KeepNames: 0.5, TornSectorBytes: 512})
	}
	type crash struct {
		at    string
		mem   *vfs.Mem
		known answered
	}
	var crashes []crash
	var a answered
	mem := vfs.NewMem()
	take := func(at string) {
		for i, kind := range kinds {
			crashes = append(crashes, crash{fmt.Sprintf("%s, crash %d", at, i), mem.CrashClone(kind), a.clone()})
		}
	}
	hooked := vfs.WithHook(mem, func(op vfs.Op) error {
		if op.Mutates() {
			take(fmt.Sprintf("before operation %d on %s", op.Index, op.Name))
		}
		return nil
	})
	if err := scenario(hooked, &a); err != nil {
		t.Fatal(err)
	}
	take("at the end")
	for _, c := range crashes {
		t.Run(c.at, func(t *testing.T) {
			if c.known.created { // each copy alone holds all that was answered
				for _, files := range pairs {
					less := c.mem.CrashClone(vfs.CrashOptions{KeepAll: true})
					if err := less.Remove(files[0]); err != nil {
						t.Fatal(err)
					}
					requireAnswered(t, less, c.known)
				}
			}
			requireAnswered(t, c.mem, c.known)
		})
	}
}

// A crash while Open heals is as good as one before it.
func TestCrashWhileHealing(t *testing.T) {
	for _, files := range pairs {
		mem := vfs.NewMem()
		var a answered
		if err := scenario(mem, &a); err != nil {
			t.Fatal(err)
		}
		overwrite(t, mem, files[0], []byte("bad"))
		var clones []*vfs.Mem
		hooked := vfs.WithHook(mem, func(op vfs.Op) error {
			for seed := range uint64(4) {
				clones = append(clones, mem.CrashClone(vfs.CrashOptions{Seed: seed, KeepBytes: 0.5, KeepNames: 0.5, TornSectorBytes: 512}))
			}
			return nil
		})
		if _, _, err := Open(hooked, false); err != nil {
			t.Fatal(err)
		}
		for _, clone := range clones {
			requireAnswered(t, clone, a)
		}
	}
}

// An operation fails, the process goes on or crashes: what was answered stays.
func TestFailEverywhere(t *testing.T) {
	failure := errors.New("injected")
	for k := uint64(0); ; k++ {
		mem := vfs.NewMem()
		var a answered
		var seen uint64
		err := scenario(vfs.WithHook(mem, func(op vfs.Op) error {
			if !op.Mutates() {
				return nil
			}
			if seen++; seen == k+1 {
				return failure
			}
			return nil
		}), &a)
		if seen <= k {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		for seed := range uint64(3) {
			requireAnswered(t, mem.CrashClone(vfs.CrashOptions{Seed: seed, KeepBytes: 0.5, KeepNames: 0.5}), a)
		}
		requireAnswered(t, mem, a)
		if err != nil && !errors.Is(err, failure) {
			t.Errorf("operation %d: %v", k, err)
		}
	}
}
