package index

import (
	"encoding/binary"
	"maps"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// sameTag makes keys that differ and have one tag: hashes chosen so that the
// mixed first bytes come out alike.
func sameTag(namespace uint32, id int) Key {
	rest := binary.BigEndian.AppendUint64(nil, uint64(id))
	mixed := uint64(0x1122334455660000) + uint64(id)
	hash := binary.BigEndian.AppendUint64(nil, mixed^xxhash.Sum64(rest))
	return Key{Namespace: namespace, Hash: string(hash) + string(rest)}
}

func TestSameTag(t *testing.T) {
	a, b := appendKey(nil, sameTag(1, 1)), appendKey(nil, sameTag(1, 2))
	if tagOf(a) != tagOf(b) || string(a) == string(b) {
		t.Fatalf("%x and %x should be two keys of one tag", a, b)
	}
}

// TestModelOfOneTag is TestModel with keys that the references can not tell
// apart: in few namespaces, at few addresses, as owners and as aliases.
func TestModelOfOneTag(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	rapid.Check(t, func(rt *rapid.T) {
		fs := vfs.NewMem()
		d := mustCreate(t, fs)
		defer func() { mustClose(t, d) }()
		m := tagModel{model: model{keys: map[Key]Entry{}}, live: map[uint64]int64{}}
		for range rapid.IntRange(1, 5).Draw(rt, "batches") {
			mustUpdate(t, d, m.live, func(u *Batch) error {
				for range rapid.IntRange(1, 8).Draw(rt, "ops") {
					if err := m.step(rt, u); err != nil {
						return err
					}
				}
				return nil
			})
			if rapid.IntRange(0, 3).Draw(rt, "reopen") == 0 {
				mustClose(t, d)
				d = mustOpen(t, fs)
			}
			m.compare(rt, t, d)
		}
	})
}

type tagModel struct {
	model
	live map[uint64]int64
	page uint32
}

func (m *tagModel) step(rt *rapid.T, u *Batch) error {
	k := sameTag(rapid.Uint32Range(1, 2).Draw(rt, "namespace"), rapid.IntRange(0, 4).Draw(rt, "key"))
	if e, ok := m.keys[k]; ok {
		delete(m.keys, k)
		return u.Unbind(k, e, testTenant)
	}
	m.page += 3
	segment := rapid.Uint64Range(1, 2).Draw(rt, "segment")
	e := entryAt(segment, m.page, int(m.page), uint64(m.page))
	if len(m.keys) > 0 && rapid.Bool().Draw(rt, "alias") {
		targets := slices.SortedFunc(maps.Values(m.keys), func(a, b Entry) int { return int(a.Seq) - int(b.Seq) })
		e = aliasTo(targets[rapid.IntRange(0, len(targets)-1).Draw(rt, "target")], segment, m.page, uint64(m.page))
	}
	m.keys[k] = e
	if err := u.Bind(k, e); err != nil {
		return err
	}
	return u.SetContent(testTenant, e.Content, e.Address)
}

// compare asks for the keys at each address and in each segment.
func (m *tagModel) compare(rt *rapid.T, t *testing.T, d *DB) {
	t.Helper()
	wantLive(t, d, m.live, m.model.live())
	for segment := uint64(1); segment <= 2; segment++ {
		wantSegment(t, d, segment, m.inSegment(segment)...)
	}
	mustUpdate(t, d, m.live, func(u *Batch) error {
		for at := range m.extents() {
			list, err := u.Referrers(at)
			if err != nil {
				rt.Fatalf("referrers of %v: %v", at, err)
			}
			m.wantAt(rt, at, list)
		}
		return nil
	})
	for _, e := range m.keys {
		if got, ok, err := d.Content(testContext(t), testTenant, e.Content); err != nil || !ok || got != e.Extent {
			rt.Fatalf("content of %+v: %+v, %v, %v", e, got, ok, err)
		}
	}
	c, err := d.Check(testContext(t), func(uint32) uint32 { return testTenant })
	if err != nil || c.ProblemCount != 0 || c.Keys != int64(len(m.keys)) {
		rt.Fatalf("check: %+v, %v", c, err)
	}
}

func (m *tagModel) wantAt(rt *rapid.T, at disk.Address, list []KeyEntry) {
	want := map[Key]Entry{}
	for k, e := range m.keys {
		if e.Address == at {
			want[k] = e
		}
	}
	got := map[Key]Entry{}
	for _, k := range list {
		got[k.Key] = k.Entry
	}
	if len(list) != len(got) || !maps.Equal(got, want) {
		rt.Fatalf("at %v lie %+v, want %+v", at, list, want)
	}
}

// TestCheckFindsMiscounts: a reference that counts too many or too few.
func TestCheckFindsMiscounts(t *testing.T) {
	at := disk.Address{Segment: 1, Page: 1}
	tag := func(k Key) keyTag { return tagOf(appendKey(nil, k)) }
	add := func(at disk.Address, k Key) func(*Batch) error {
		return func(u *Batch) error {
			_, _, err := u.addRef(at, tag(k))
			return err
		}
	}
	for name, change := range map[string]func(u *Batch) error{
		"one too many":       add(at, sameTag(1, 1)),
		"of no key":          add(at, keyOf(9)),
		"of a key elsewhere": add(disk.Address{Segment: 1, Page: 70}, sameTag(1, 1)),
		"one too few": func(u *Batch) error {
			_, _, err := u.removeRef(at, tag(sameTag(1, 1)))
			return err
		},
	} {
		d := mustCreate(t, vfs.NewMem())
		first := entryAt(1, 1, 1, 1)
		live := map[uint64]int64{}
		mustUpdate(t, d, live, func(u *Batch) error {
			if err := u.Bind(sameTag(1, 1), first); err != nil {
				return err
			}
			return u.Bind(sameTag(1, 2), aliasTo(first, 2, 1, 2))
		})
		mustUpdate(t, d, live, change)
		c, err := d.Check(testContext(t), func(uint32) uint32 { return testTenant })
		if err != nil || c.ProblemCount == 0 {
			t.Errorf("%s: check found nothing: %+v, %v", name, c, err)
		}
		mustClose(t, d)
	}
}
