package meta

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// kinds are the first and second copy of each kind, in the order of Salvage.
var kinds = [][2]string{{StoreFile, StoreCopyFile}, {NamespacesFile, NamespacesCopyFile}}

// TestSalvage: what two damaged copies still say together is had again, and
// nothing else.
func TestSalvage(t *testing.T) {
	flip := func(p []byte, off int, mask byte) []byte { p[off] ^= mask; return p }
	for _, files := range kinds {
		for name, c := range map[string]struct {
			damage  func(a, b []byte) ([]byte, []byte)
			salvage bool
		}{
			"a bit of each":             {func(a, b []byte) ([]byte, []byte) { return flip(a, 60, 1), flip(b, 99, 4) }, true},
			"the same bit of both":      {func(a, b []byte) ([]byte, []byte) { return flip(a, 60, 1), flip(b, 60, 1) }, true},
			"a byte of both":            {func(a, b []byte) ([]byte, []byte) { return flip(a, 60, 3), flip(b, 60, 3) }, false},
			"half of each":              {func(a, b []byte) ([]byte, []byte) { clear(a[:90]); clear(b[90:]); return a, b }, true},
			"more than half of each":    {func(a, b []byte) ([]byte, []byte) { clear(a[:90]); clear(b[70:]); return a, b }, false},
			"one missing, one bit":      {func(a, b []byte) ([]byte, []byte) { return nil, flip(b, 61, 1) }, true},
			"one missing, one zero":     {func(a, b []byte) ([]byte, []byte) { clear(b); return nil, b }, false},
			"both missing":              {func(a, b []byte) ([]byte, []byte) { return nil, nil }, false},
			"both empty":                {func(a, b []byte) ([]byte, []byte) { return []byte{}, []byte{} }, false},
			"scattered bytes of each":   {func(a, b []byte) ([]byte, []byte) { return flip(flip(a, 50, 9), 80, 9), flip(flip(b, 60, 9), 70, 9) }, true},
			"cut short, and a bit":      {func(a, b []byte) ([]byte, []byte) { return a[:70], flip(b, 70, 128) }, true},
			"longer by zeros, and half": {func(a, b []byte) ([]byte, []byte) { return append(a, 0, 0), b[:80] }, false},
		} {
			mem, m := sampleMeta(t)
			want := readAll(t, mem, files[0])
			a, b := c.damage(bytes.Clone(want), bytes.Clone(want))
			for i, p := range [][]byte{a, b} {
				if p == nil {
					if err := mem.Remove(files[i]); err != nil {
						t.Fatal(err)
					}
					continue
				}
				overwrite(t, mem, files[i], p)
			}
			got, err := Salvage(noWrites(t, mem))
			if !c.salvage {
				var d *DamagedError
				if !errors.As(err, &d) || d.Advice == "" {
					t.Errorf("%s, %s: %v, %v", files[0], name, got, err)
				}
				continue
			}
			if err != nil || len(got) != 1 || got[0].File != files[0] || got[0].How == "" || !bytes.Equal(got[0].data, want) {
				t.Errorf("%s, %s: %v, %v", files[0], name, got, err)
				continue
			}
			if err := got[0].Restore(mem); err != nil {
				t.Fatal(err)
			}
			requireSame(t, mustOpen(t, mem), m)
		}
	}
}

// TestSalvageWhole: of a sound store there is nothing to salvage, and a copy
// under the name of an unfinished change will do.
func TestSalvageWhole(t *testing.T) {
	mem, m := sampleMeta(t)
	if got, err := Salvage(noWrites(t, mem)); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
	for _, files := range kinds {
		overwrite(t, mem, files[1]+tmpSuffix, readAll(t, mem, files[0]))
		for _, name := range files {
			overwrite(t, mem, name, make([]byte, 512))
		}
	}
	got, err := Salvage(noWrites(t, mem))
	if err != nil || len(got) != 2 {
		t.Fatalf("%v, %v", got, err)
	}
	for _, s := range got {
		if err := s.Restore(mem); err != nil {
			t.Fatal(err)
		}
	}
	requireSame(t, mustOpen(t, mem), m)
}

// TestSalvageApart: damage anywhere in one copy and elsewhere in the other.
func TestSalvageApart(t *testing.T) {
	mem, _ := sampleMeta(t)
	contents := map[string][]byte{}
	for _, files := range kinds {
		contents[files[0]] = readAll(t, mem, files[0])
	}
	rapid.Check(t, func(t *rapid.T) {
		files := rapid.SampledFrom(kinds).Draw(t, "files")
		want := contents[files[0]]
		cut := rapid.IntRange(1, len(want)-1).Draw(t, "cut")
		a, b := bytes.Clone(want), bytes.Clone(want)
		for _, part := range [][]byte{a[:cut], b[cut:]} {
			for range rapid.IntRange(1, 40).Draw(t, "bytes") {
				part[rapid.IntRange(0, len(part)-1).Draw(t, "at")] ^= byte(rapid.IntRange(1, 255).Draw(t, "mask"))
			}
		}
		s := search{budget: salvageBudgetBytes, whole: func(p []byte) (uint64, bool) { return 0, bytes.Equal(p, want) }}
		s.run([]copyImage{{"a", a}, {"b", b}})
		if !bytes.Equal(s.found, want) {
			t.Fatalf("%s: not found", files[0])
		}
	})
}

// TestSalvageBudget: the search ends.
func TestSalvageBudget(t *testing.T) {
	tries := 0
	s := search{budget: 100 << 10, whole: func([]byte) (uint64, bool) { tries++; return 0, false }}
	s.run([]copyImage{{"a", make([]byte, 4096)}, {"b", bytes.Repeat([]byte{1}, 4096)}})
	if s.found != nil || tries > 25 {
		t.Errorf("%d tries of 4 KiB with a budget of 100 KiB", tries)
	}
}

// TestSalvageAmbiguous: two candidates are none.
func TestSalvageAmbiguous(t *testing.T) {
	s := search{budget: 1 << 20, whole: func([]byte) (uint64, bool) { return 0, true }}
	s.run([]copyImage{{"a", []byte{1, 2}}, {"b", []byte{3, 4}}})
	if s.found != nil || !s.ambiguous {
		t.Errorf("%v, ambiguous %v", s.found, s.ambiguous)
	}
}
