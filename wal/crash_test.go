package wal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
)

// world drives a log and remembers what it owes. Records are unique.
type world struct {
	t       fataler
	mem     *vfs.Mem
	o       Options
	l       *Log
	groups  []modelGroup // appended, oldest first
	flying  *modelGroup  // being appended
	durable LSN          // as the last Sync said
	gone    LSN          // records below may have been removed
	serial  int
}

type modelGroup struct {
	records []string
	end     LSN // zero: the append did not say
}

// newWorld makes a world over a tree; hook (may be nil) sees its operations.
func newWorld(t fataler, mem *vfs.Mem, hook func(vfs.Op) error) *world {
	w := &world{t: t, mem: mem}
	w.o = testOptions(mem)
	if hook != nil {
		w.o.FS = vfs.WithHook(mem, hook)
	}
	return w
}

// open is what an owner does at start: recover, new log, the old ones go.
// Every record read is applied; so all of them may go.
func (w *world) open() error {
	r, err := Recover(w.o, 0, nil)
	if err != nil {
		return err
	}
	l, err := Create(w.o, r.End)
	if err != nil {
		return err
	}
	w.l, w.durable = l, l.End()
	w.gone = max(w.gone, l.own)
	return l.RemoveOthers()
}

func (w *world) close() error {
	err := w.l.Close()
	if err == nil {
		w.durable = w.l.End()
	}
	return err
}

func (w *world) append(sizes ...int) error {
	var g modelGroup
	var records [][]byte
	for _, n := range sizes {
		w.serial++
		r := fmt.Sprintf("%d:%s", w.serial, strings.Repeat("x", n))
		g.records, records = append(g.records, r), append(records, []byte(r))
	}
	w.flying = &g
	_, end, err := w.l.Append(records...)
	w.flying = nil
	if err == nil {
		g.end = end
	}
	w.groups = append(w.groups, g)
	return err
}

func (w *world) sync() error {
	end, err := w.l.Sync()
	if err == nil {
		w.durable = end
		w.l.SetMark(end)
	}
	return err
}

// step does one random operation.
func (w *world) step(rng *rand.Rand) error {
	switch p := rng.IntN(100); {
	case p < 55:
		sizes := make([]int, 1+rng.IntN(3))
		for i := range sizes {
			sizes[i] = rng.IntN(900)
		}
		return w.append(sizes...)
	case p < 80:
		return w.sync()
	case p < 87:
		return w.l.AppendMark()
	case p < 94:
		before := MinLSN + LSN(rng.Uint64N(uint64(w.durable-MinLSN)+1))
		w.gone = max(w.gone, before)
		return w.l.Trim(before)
	default:
		if err := w.close(); err != nil {
			return err
		}
		return w.open()
	}
}

// check recovers a tree found after a crash and holds it against what is owed:
// all that is durable (all that was written, if written) and not removed, in
// whole groups, in order, nothing else. It gives the number of groups found.
func (w *world) check(mem *vfs.Mem, written bool, what string) int {
	w.t.Helper()
	o := testOptions(mem)
	var got []string
	ends := map[string]LSN{}
	r, err := Recover(o, 0, func(r Record) error {
		got = append(got, string(r.Data))
		ends[string(r.Data)] = r.End
		return nil
	})
	if err != nil {
		w.t.Fatalf("%s: %v", what, err)
	}
	if r.Corrupt != nil {
		w.t.Fatalf("%s: a crash was taken for rot: %v", what, r.Corrupt)
	}
	if r.Synced > r.End && len(r.Files) > 0 || r.Mark > r.Synced {
		w.t.Fatalf("%s: recovered to %d, synced %d, mark %d", what, r.End, r.Synced, r.Mark)
	}
	all := w.groups
	if w.flying != nil {
		all = append(all[:len(all):len(all)], *w.flying)
	}
	found, first, last := 0, -1, -1
	for i, g := range all {
		if len(got) == 0 || got[0] != g.records[0] {
			owed := g.end != 0 && g.end > w.gone && (written || g.end <= w.durable)
			if owed {
				w.t.Fatalf("%s: group %d (end %d) is lost; durable to %d", what, i, g.end, w.durable)
			}
			continue
		}
		if first < 0 {
			first = i
		} else if last != i-1 {
			w.t.Fatalf("%s: group %d found, the one before not", what, i)
		}
		last = i
		if len(got) < len(g.records) {
			w.t.Fatalf("%s: %d of %d records of a group", what, len(got), len(g.records))
		}
		for k, want := range g.records {
			if got[k] != want || g.end != 0 && ends[want] != g.end {
				w.t.Fatalf("%s: record %d of group %d differs, or its end %d", what, k, i, ends[want])
			}
		}
		got = got[len(g.records):]
		found++
	}
	if len(got) != 0 {
		w.t.Fatalf("%s: %d records that nobody appended in this order", what, len(got))
	}
	return found
}

// crashes are the ways in which the power goes.
func crashes(seed uint64) []vfs.CrashOptions {
	return []vfs.CrashOptions{
		{Seed: seed},
		{Seed: seed, KeepBytes: 0.5, KeepNames: 0.5, TornSectorBytes: 512},
		{Seed: seed, KeepBytes: 0.9, KeepNames: 0.9, TornSectorBytes: 4096},
		{Seed: seed, KeepBytes: 0.2, KeepNames: 1},
		{Seed: seed, KeepAll: true},
	}
}

// TestCrashEveryOperation cuts the power before each operation that changes
// the disk, in several ways, over many histories.
func TestCrashEveryOperation(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 8
	}
	points, groups := 0, 0
	for seed := range seeds {
		mem := vfs.NewMem()
		var w *world
		w = newWorld(t, mem, func(op vfs.Op) error {
			if !op.Mutates() {
				return nil
			}
			for i, c := range crashes(seed<<32 + op.Index) {
				groups += w.check(mem.CrashClone(c), c.KeepAll, fmt.Sprintf("seed %d, before %v, way %d", seed, op, i))
				points++
			}
			return nil
		})
		rng := rand.New(rand.NewPCG(seed, 1))
		if err := w.open(); err != nil {
			t.Fatal(err)
		}
		for range 40 {
			if err := w.step(rng); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		w.check(mem.CrashClone(vfs.CrashOptions{Seed: seed}), false, fmt.Sprintf("seed %d, at the end", seed))
		if err := w.close(); err != nil {
			t.Fatal(err)
		}
	}
	if groups < points {
		t.Fatalf("%d crashes found only %d groups: the test tests nothing", points, groups)
	}
}

// TestCrashAgain lets each history go on after each crash.
func TestCrashAgain(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 2))
		mem := vfs.NewMem()
		errCut := errors.New("power cut")
		var old *world
		for life := range 12 {
			cut := 1 + rng.Uint64N(60)
			w := newWorld(t, mem, func(op vfs.Op) error {
				if op.Mutates() && op.Index >= cut {
					return errCut
				}
				return nil
			})
			if old != nil { // what survived is durable now; the rest never was
				w.serial, w.gone, w.groups = old.serial, old.gone, survivors(t, mem, old.groups)
				w.durable = 1 << 62
			}
			err := w.open()
			for err == nil {
				err = w.step(rng)
			}
			if !errors.Is(err, errCut) {
				t.Fatalf("seed %d, life %d: %v", seed, life, err)
			}
			c := crashes(rng.Uint64())[rng.IntN(5)]
			mem = mem.CrashClone(c)
			w.check(mem, false, fmt.Sprintf("seed %d, life %d", seed, life))
			old = w
		}
	}
}

// survivors are the groups that can still be read.
func survivors(t fataler, mem *vfs.Mem, groups []modelGroup) []modelGroup {
	_, got := mustRecover(t, testOptions(mem), 0)
	there := map[string]bool{}
	for _, r := range got {
		there[r] = true
	}
	var kept []modelGroup
	for _, g := range groups {
		if there[g.records[0]] {
			kept = append(kept, g)
		}
	}
	return kept
}

// TestFailEveryOperation fails each operation once, for good or for a while.
// The log says so from then on, and a new one can be started behind it.
func TestFailEveryOperation(t *testing.T) {
	for seed := range uint64(6) {
		for fail := uint64(1); ; fail++ {
			mem, failed := vfs.NewMem(), false
			w := newWorld(t, mem, func(op vfs.Op) error {
				if op.Mutates() && op.Index == fail {
					failed = true
					return syscall.EIO
				}
				return nil
			})
			err := w.open()
			rng := rand.New(rand.NewPCG(seed, 3))
			for range 30 {
				if err != nil {
					break
				}
				err = w.step(rng)
			}
			what := fmt.Sprintf("seed %d, operation %d", seed, fail)
			if failed != errors.Is(err, syscall.EIO) {
				t.Fatalf("%s: %v", what, err)
			}
			if !failed {
				break // past the last operation
			}
			if errors.Is(err, ErrPoisoned) {
				w.wantPoisoned(what)
			}
			w.check(mem.CrashClone(vfs.CrashOptions{Seed: fail, KeepBytes: 0.5, KeepNames: 0.5}), false, what)
			if err := w.open(); err != nil { // a new log on the same device
				t.Fatalf("%s: %v", what, err)
			}
			if err := errors.Join(w.append(10), w.sync()); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			w.check(mem.CrashClone(vfs.CrashOptions{}), false, what+", new log")
			if err := w.close(); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
	}
}

// wantPoisoned: every call says what failed first, and nothing moves.
func (w *world) wantPoisoned(what string) {
	w.t.Helper()
	before, closed := w.l.Stats(), w.l.closed // closed: it was Close that failed
	_, _, appendErr := w.l.Append([]byte("refused"))
	_, syncErr := w.l.Sync()
	for i, err := range []error{appendErr, syncErr, w.l.AppendMark(), w.l.Trim(1 << 50), w.l.RemoveOthers(), w.l.Close()} {
		if closed && errors.Is(err, ErrClosed) {
			continue
		}
		var p *PoisonedError
		if !errors.As(err, &p) || !errors.Is(err, syscall.EIO) {
			w.t.Fatalf("%s: call %d on a poisoned log: %v", what, i, err)
		}
	}
	if after := w.l.Stats(); after != before {
		w.t.Fatalf("%s: %+v became %+v", what, before, after)
	}
}
