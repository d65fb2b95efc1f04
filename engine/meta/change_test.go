package meta

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/engine/layout"
	"github.com/sealstone/sealstone/internal/vfs"
)

func TestRaiseFloor(t *testing.T) {
	m := mustCreate(t, vfs.NewMem())
	n := mustAdd(t, m, "", layout.Opaque("a"))
	for _, c := range []struct{ floor, want, epoch uint64 }{
		{100, 100, 2}, {50, 100, 3}, {100, 100, 4}, {3 << 20, 3 << 20, 5},
	} {
		if got, err := m.RaiseFloor(n.Number, c.floor); err != nil || got.Floor != c.want || got.Epoch != c.epoch {
			t.Errorf("RaiseFloor(%d) = floor %d epoch %d, %v", c.floor, got.Floor, got.Epoch, err)
		}
	}
	first, _, err := m.ReserveSequences(1)
	if err != nil || first < 3<<20 {
		t.Errorf("sequence %d was handed out under the floor %d (%v)", first, 3<<20, err)
	}
	if _, err := m.RaiseFloor(9, 1); !errors.Is(err, ErrNoNamespace) {
		t.Errorf("unknown namespace: %v", err)
	}
	if _, err := m.RaiseFloor(n.Number, 1<<63); !errors.Is(err, ErrInvalid) {
		t.Errorf("floor 2^63: %v", err)
	}
	if err := m.Err(); err != nil {
		t.Errorf("a refused argument poisons: %v", err)
	}
}

func TestReservations(t *testing.T) {
	fsys := vfs.NewMem()
	m := mustCreate(t, fsys)
	next := map[string]uint64{}
	for _, n := range []uint64{1, 64, 65, 1, 1 << 21} {
		for name, reserve := range map[string]func(uint64) (uint64, uint64, error){
			"segments": m.ReserveSegments, "sequences": m.ReserveSequences,
		} {
			first, bound, err := reserve(n)
			if err != nil || first < max(next[name], 1) || bound < first+n {
				t.Fatalf("%s: reserve %d = %d, %d, %v; before it %d", name, n, first, bound, err, next[name])
			}
			if step := map[string]uint64{"segments": SegmentStep, "sequences": SequenceStep}[name]; bound%step != 0 {
				t.Errorf("%s: bound %d is no multiple of %d", name, bound, step)
			}
			next[name] = bound
		}
		m = mustOpen(t, fsys)
	}
	if _, _, err := m.ReserveSegments(0); !errors.Is(err, ErrInvalid) {
		t.Errorf("reserve nothing: %v", err)
	}
	for _, n := range []uint64{^uint64(0), 1 << 63, 1 << 62} {
		if first, bound, err := m.ReserveSequences(n); !errors.Is(err, ErrFull) {
			t.Errorf("reserve %d: %d, %d, %v", n, first, bound, err)
		}
	}
}

func TestArguments(t *testing.T) {
	for name, edit := range map[string]func(p *CreateParams){
		"no segment size":    func(p *CreateParams) { p.SegmentBytes = 0 },
		"odd segment size":   func(p *CreateParams) { p.SegmentBytes++ },
		"huge segment":       func(p *CreateParams) { p.SegmentBytes = 2 * maxSegmentBytes },
		"small alignment":    func(p *CreateParams) { p.AlignmentBytes = 512 },
		"odd alignment":      func(p *CreateParams) { p.AlignmentBytes = 12288 },
		"member beyond":      func(p *CreateParams) { p.SetUUID[0], p.Member, p.Members = 1, 2, 2 },
		"members, no set":    func(p *CreateParams) { p.Members = 2 },
		"negative segment":   func(p *CreateParams) { p.SegmentBytes = -4096 },
		"alignment too wide": func(p *CreateParams) { p.AlignmentBytes = 2 << 20 },
	} {
		p := testParams()
		edit(&p)
		fsys := vfs.NewMem()
		if _, err := Create(fsys, p); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
		if names, _ := fsys.List("."); len(names) != 0 {
			t.Errorf("%s: left %v", name, names)
		}
	}
	m := mustCreate(t, vfs.NewMem())
	for _, tenant := range []string{strings.Repeat("x", MaxTenantBytes+1), "\xff", "a\n"} {
		if _, err := m.AddNamespace(tenant, layout.Opaque("a"), 0); !errors.Is(err, ErrInvalid) {
			t.Errorf("tenant %.10q: %v", tenant, err)
		}
	}
	if _, err := m.AddNamespace("", layout.Layout{}, 0); !errors.Is(err, layout.ErrMissingField) {
		t.Errorf("empty layout: %v", err)
	}
	if err := m.RaisePebbleFormat(18); !errors.Is(err, ErrInvalid) {
		t.Errorf("lower index format: %v", err)
	}
}

func TestFull(t *testing.T) {
	m := mustCreate(t, vfs.NewMem())
	full := *m.names.Load()
	for i := range MaxNamespaces {
		full.nextNumber++
		full.list = append(full.list, Namespace{Number: uint32(i + 1), Epoch: 1})
	}
	m.names.Store(&full)
	if _, err := m.AddNamespace("", layout.Opaque("a"), 0); !errors.Is(err, ErrFull) {
		t.Errorf("one namespace too many: %v", err)
	}
	// Large layouts reach the limit of the file first.
	m = mustCreate(t, vfs.NewMem())
	large := layout.Opaque("a")
	large.Extra = map[string]string{}
	for i := range layout.MaxExtra {
		large.Extra[fmt.Sprint(i)] = strings.Repeat("x", layout.MaxStringBytes)
	}
	crowded := *m.names.Load()
	for i := range MaxNamespacesBytes/(layout.MaxExtra*layout.MaxStringBytes) + 1 {
		crowded.nextNumber++
		crowded.list = append(crowded.list, Namespace{Number: uint32(i + 1), Epoch: 1, Layout: large})
	}
	m.names.Store(&crowded)
	if _, err := m.AddNamespace("", layout.Opaque("b"), 0); !errors.Is(err, ErrFull) {
		t.Errorf("file too large: %v", err)
	}
	if m.Err() != nil {
		t.Error("a full store is poisoned")
	}
}
