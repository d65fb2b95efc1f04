package index

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

const testTenant = 1

func TestBindAndUnbind(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	d := mustCreate(t, vfs.NewMem())
	defer mustClose(t, d)
	live := map[uint64]int64{}
	a, b, c := keyOf(1), keyOf(2), keyOf(3)
	first := entryAt(1, 1, 50, 1)
	second := aliasTo(first, 2, 9, 2)
	other := entryAt(2, 4, 60, 3)
	bind := func(k Key, e Entry) func(*Batch) error {
		return func(u *Batch) error {
			if err := u.Bind(k, e); err != nil {
				return err
			}
			return u.SetContent(testTenant, e.Content, e.Address)
		}
	}
	mustUpdate(t, d, live, bind(a, first))
	mustUpdate(t, d, live, bind(b, second))
	mustUpdate(t, d, live, bind(c, other))
	wantLive(t, d, live, map[uint64]int64{1: first.Bytes(), 2: other.Bytes()}) // shared bytes count once
	if e, ok := lookup(t, d, b); !ok || e != second {
		t.Fatalf("b is %+v, %v", e, ok)
	}
	wantSegment(t, d, 1, a, b)
	wantSegment(t, d, 2, c, b) // b's own page is there
	mustUpdate(t, d, live, func(u *Batch) error {
		refs, err := u.Referrers(first.Address)
		if err != nil || len(refs) != 2 {
			t.Errorf("referrers of the first: %v, %v", refs, err)
		}
		if refs, err := u.Referrers(second.Own.Address); err != nil || len(refs) != 0 {
			t.Errorf("an alias's own page has referrers: %v, %v", refs, err)
		}
		return u.Unbind(a, first, testTenant)
	})
	if _, ok := lookup(t, d, a); ok {
		t.Error("a is still there")
	}
	wantLive(t, d, live, map[uint64]int64{1: first.Bytes(), 2: other.Bytes()}) // b holds the bytes
	if got, ok, err := d.Content(testContext(t), testTenant, first.Content); err != nil || !ok || got != first.Extent {
		t.Errorf("content of the first: %+v, %v, %v", got, ok, err)
	}
	mustUpdate(t, d, live, func(u *Batch) error { return u.Unbind(b, second, testTenant) })
	wantLive(t, d, live, map[uint64]int64{2: other.Bytes()})
	if _, ok, err := d.Content(testContext(t), testTenant, first.Content); err != nil || ok {
		t.Errorf("content of the first outlived its last key: %v", err)
	}
	wantSegment(t, d, 1)
	wantSegment(t, d, 2, c)
}

// TestContentOfAnotherPlace: forgetting content at one address leaves what is
// recorded at another.
func TestContentOfAnotherPlace(t *testing.T) {
	d := mustCreate(t, vfs.NewMem())
	defer mustClose(t, d)
	live := map[uint64]int64{}
	old, moved := entryAt(1, 1, 50, 1), entryAt(9, 1, 50, 1)
	mustUpdate(t, d, live, func(u *Batch) error {
		return errors.Join(u.Bind(keyOf(1), old), u.Bind(keyOf(2), moved), u.SetContent(testTenant, old.Content, moved.Address))
	})
	mustUpdate(t, d, live, func(u *Batch) error { return u.Unbind(keyOf(1), old, testTenant) })
	if got, ok, err := d.Content(testContext(t), testTenant, old.Content); err != nil || !ok || got != moved.Extent {
		t.Errorf("content: %+v, %v, %v", got, ok, err)
	}
	mustUpdate(t, d, live, func(u *Batch) error { return u.DropContent(testTenant+1, old.Content, moved.Address) })
	if _, ok, _ := d.Content(testContext(t), testTenant, old.Content); !ok {
		t.Error("another tenant's drop took it")
	}
}

// TestSharersAreBounded: content that SharersMax keys share is not offered to
// one more, and is again when one of them is gone.
func TestSharersAreBounded(t *testing.T) {
	d := mustCreate(t, vfs.NewMem())
	defer mustClose(t, d)
	live := map[uint64]int64{}
	e := entryAt(1, 1, 50, 1)
	mustUpdate(t, d, live, func(u *Batch) error { return u.SetContent(testTenant, e.Content, e.Address) })
	for i := range SharersMax {
		mustUpdate(t, d, live, func(u *Batch) error { return u.Bind(keyOf(i), e) })
		got, ok, err := d.Content(testContext(t), testTenant, e.Content)
		if want := i+1 < SharersMax; err != nil || ok != want || ok && got != e.Extent {
			t.Fatalf("of %d: %+v, %v, %v", i+1, got, ok, err)
		}
	}
	mustUpdate(t, d, live, func(u *Batch) error { return u.Unbind(keyOf(3), e, testTenant) })
	if _, ok, err := d.Content(testContext(t), testTenant, e.Content); err != nil || !ok {
		t.Errorf("one is gone, and the content is not offered: %v", err)
	}
}

// TestFailedUpdateChangesNothing: neither the index nor the caller's map.
func TestFailedUpdateChangesNothing(t *testing.T) {
	d := mustCreate(t, vfs.NewMem())
	defer mustClose(t, d)
	live := map[uint64]int64{5: 77}
	sentinel := errors.New("no")
	err := d.Update(testContext(t), live, func(u *Batch) error {
		if err := errors.Join(u.Bind(keyOf(1), entryAt(5, 1, 1, 1)), u.SetApplied(99)); err != nil {
			return err
		}
		if _, ok, err := u.Get(keyOf(1)); err != nil || !ok {
			t.Errorf("a batch does not read what it wrote: %v, %v", ok, err)
		}
		return sentinel
	})
	if !errors.Is(err, sentinel) {
		t.Fatalf("update: %v", err)
	}
	if _, ok := lookup(t, d, keyOf(1)); ok || live[5] != 77 {
		t.Errorf("the key is there: %v; live %v", ok, live)
	}
	if got, err := d.Applied(testContext(t)); err != nil || got != 0 {
		t.Errorf("applied %d, %v", got, err)
	}
	if err := d.Err(); err != nil {
		t.Errorf("the index failed: %v", err)
	}
}

func TestGetStopsAtTheFirstMiss(t *testing.T) {
	d := mustCreate(t, vfs.NewMem())
	defer mustClose(t, d)
	mustUpdate(t, d, map[uint64]int64{}, func(u *Batch) error {
		return errors.Join(u.Bind(keyOf(1), entryAt(1, 1, 1, 1)), u.Bind(keyOf(3), entryAt(1, 9, 3, 2)))
	})
	keys := []Key{keyOf(1), keyOf(2), keyOf(3)}
	for _, stop := range []bool{false, true} {
		found, err := d.Get(testContext(t), keys, stop)
		if err != nil || len(found) != 3 || !found[0].OK || found[1].OK || found[2].OK == stop {
			t.Errorf("stop %v: %+v, %v", stop, found, err)
		}
	}
}

// TestKeysInPortions: more keys than one portion, each once and in order.
func TestKeysInPortions(t *testing.T) {
	d := mustCreate(t, vfs.NewMem())
	defer mustClose(t, d)
	const count = 2500
	mustUpdate(t, d, map[uint64]int64{}, func(u *Batch) error {
		for i := range count {
			if err := u.Bind(keyOf(i), entryAt(1, uint32(1+3*i), i, uint64(i))); err != nil {
				return err
			}
		}
		return nil
	})
	seen := map[Key]bool{}
	last := ""
	err := d.Keys(testContext(t), func(k KeyEntry) error {
		enc := string(appendKey(nil, k.Key))
		if enc <= last {
			t.Fatalf("%x after %x", enc, last)
		}
		last = enc
		seen[k.Key] = true
		return nil
	})
	if err != nil || len(seen) != count {
		t.Fatalf("%d keys, %v", len(seen), err)
	}
	stop := errors.New("stop")
	calls := 0
	err = d.Keys(testContext(t), func(KeyEntry) error {
		calls++
		return stop
	})
	if !errors.Is(err, stop) || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
}

// model is what the index should hold.
type model struct {
	keys map[Key]Entry
}

func (m *model) live() map[uint64]int64 {
	out := map[uint64]int64{}
	for at, e := range m.extents() {
		out[at.Segment] += e.Bytes()
	}
	return out
}

func (m *model) extents() map[disk.Address]Extent {
	out := map[disk.Address]Extent{}
	for _, e := range m.keys {
		out[e.Address] = e.Extent
	}
	return out
}

func (m *model) inSegment(segment uint64) (keys []Key) {
	for k, e := range m.keys {
		if e.Address.Segment == segment {
			keys = append(keys, k)
		}
		if e.Own.Address.Segment == segment {
			keys = append(keys, k)
		}
	}
	return keys
}

// TestModel binds and unbinds at random, reopens now and then, and compares
// everything that can be asked.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		fs := vfs.NewMem()
		d := mustCreate(t, fs)
		defer func() { mustClose(t, d) }()
		m := model{keys: map[Key]Entry{}}
		live := map[uint64]int64{}
		page := uint32(1)
		for range rapid.IntRange(1, 6).Draw(rt, "batches") {
			mustUpdate(t, d, live, func(u *Batch) error {
				for range rapid.IntRange(1, 8).Draw(rt, "ops") {
					if err := m.step(rt, u, &page); err != nil {
						return err
					}
				}
				return nil
			})
			if rapid.IntRange(0, 3).Draw(rt, "reopen") == 0 {
				mustClose(t, d)
				d = mustOpen(t, fs)
			}
			m.compare(t, d, live)
		}
	})
}

func (m *model) step(rt *rapid.T, u *Batch, page *uint32) error {
	k := keyOf(rapid.IntRange(0, 9).Draw(rt, "key"))
	if e, ok := m.keys[k]; ok {
		delete(m.keys, k)
		return u.Unbind(k, e, testTenant)
	}
	segment := rapid.Uint64Range(1, 3).Draw(rt, "segment")
	*page += 3
	e := entryAt(segment, *page, int(*page), uint64(*page))
	if len(m.keys) > 0 && rapid.Bool().Draw(rt, "alias") {
		targets := slices.SortedFunc(maps.Values(m.keys), func(a, b Entry) int { return int(a.Seq) - int(b.Seq) })
		e = targets[rapid.IntRange(0, len(targets)-1).Draw(rt, "target")]
		e = aliasTo(e, segment, *page, uint64(*page))
	}
	m.keys[k] = e
	if err := u.Bind(k, e); err != nil {
		return err
	}
	return u.SetContent(testTenant, e.Content, e.Address)
}

func (m *model) compare(t *testing.T, d *DB, live map[uint64]int64) {
	t.Helper()
	for id := range 10 {
		got, ok := lookup(t, d, keyOf(id))
		if want, in := m.keys[keyOf(id)]; ok != in || got != want {
			t.Fatalf("key %d: %+v %v, want %+v %v", id, got, ok, want, in)
		}
	}
	wantLive(t, d, live, m.live())
	for segment := uint64(1); segment <= 3; segment++ {
		wantSegment(t, d, segment, m.inSegment(segment)...)
	}
	mustUpdate(t, d, live, func(u *Batch) error {
		for at := range m.extents() {
			want := 0
			for _, e := range m.keys {
				if e.Address == at {
					want++
				}
			}
			if refs, err := u.Referrers(at); err != nil || len(refs) != want {
				t.Fatalf("referrers of %v: %v, %v, want %d", at, refs, err, want)
			}
		}
		return nil
	})
	c, err := d.Check(testContext(t), func(uint32) uint32 { return testTenant })
	if err != nil || c.ProblemCount != 0 || c.Keys != int64(len(m.keys)) {
		t.Fatalf("check: %+v, %v", c, err)
	}
}

func wantLive(t *testing.T, d *DB, live, want map[uint64]int64) {
	t.Helper()
	stored, err := d.Live(testContext(t))
	if err != nil || !maps.Equal(stored, want) || !maps.Equal(live, want) {
		t.Fatalf("live bytes %v stored, %v with the caller, want %v (%v)", stored, live, want, err)
	}
}

// wantSegment compares the keys of a segment, in any order.
func wantSegment(t *testing.T, d *DB, segment uint64, want ...Key) {
	t.Helper()
	list, err := d.SegmentKeys(testContext(t), segment)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, k := range list {
		got = append(got, string(appendKey(nil, k.Key)))
	}
	var exp []string
	for _, k := range want {
		exp = append(exp, string(appendKey(nil, k)))
	}
	slices.Sort(got)
	slices.Sort(exp)
	if !slices.Equal(got, exp) {
		t.Fatalf("segment %d has %d keys %x, want %d %x", segment, len(got), got, len(exp), exp)
	}
	wantPortions(t, d, segment, list)
}

// wantPortions walks over a segment in portions of several sizes: each address
// comes up once, in order, with a key that refers to it.
func wantPortions(t *testing.T, d *DB, segment uint64, all []KeyEntry) {
	t.Helper()
	want := map[uint32]bool{}
	for _, k := range all {
		for _, e := range []Extent{k.Extent, k.Own} {
			if e.Address.Segment == segment {
				want[e.Address.Page] = true
			}
		}
	}
	for _, limit := range []int{1, 2, 7, 1000} {
		got, page := map[uint32]bool{}, uint32(0)
		for more := true; more; {
			var list []Referrer
			var err error
			list, more, err = d.ReferrersFrom(testContext(t), segment, page, limit)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range list {
				if r.At.Segment != segment || r.At.Page < page || r.At != r.Address && r.At != r.Own.Address {
					t.Fatalf("segment %d from page %d: %+v", segment, page, r)
				}
				got[r.At.Page], page = true, r.At.Page
			}
			page++
		}
		if !maps.Equal(got, want) {
			t.Fatalf("segment %d by %d: pages %v, want %v", segment, limit, got, want)
		}
	}
}
