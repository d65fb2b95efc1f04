package index

import (
	"maps"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"pgregory.net/rapid"

	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// mustAgree holds what is kept of the uses against what all records come to,
// and against what is written.
func mustAgree(t interface {
	Fatalf(string, ...any)
	Helper()
}, d *DB) {
	t.Helper()
	counted, err := d.countUses()
	if err != nil {
		t.Fatalf("count: %v", err)
	}
	written, err := d.readUses()
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	if kept := uses(d.Uses()); !maps.Equal(kept, counted) || !maps.Equal(kept, written) {
		t.Fatalf("kept %v, written %v, the records come to %v", kept, written, counted)
	}
}

// TestUsesProperty: whatever is bound and unbound, in whatever batches, the
// uses are those of a count by hand, over a reopen too, and an index without
// them gets the same.
func TestUsesProperty(tt *testing.T) {
	rapid.Check(tt, func(t *rapid.T) {
		fs := vfs.NewMem()
		d := mustCreate(tt, fs)
		live := map[uint64]int64{}
		bound := map[Key]Entry{}
		page := uint32(0)
		full := map[disk.Address]Extent{} // that some key refers to
		step := func(b *Batch) error {
			k := Key{rapid.Uint32Range(1, 300).Draw(t, "namespace"), keyOf(rapid.IntRange(0, 12).Draw(t, "id")).Hash}
			if e, ok := bound[k]; ok {
				delete(bound, k)
				return b.Unbind(k, e, 1)
			}
			page += 20
			pages := uint32(rapid.IntRange(2, 9).Draw(t, "pages"))
			e := Entry{Extent: Extent{Address: disk.Address{Segment: 1, Page: page}, HeaderPages: 1, Pages: pages}, Seq: uint64(page), RawBytes: 5}
			if len(full) > 0 && rapid.Bool().Draw(t, "alias") {
				for _, target := range full {
					e.Extent, e.Own = target, Extent{Address: disk.Address{Segment: 2, Page: page}, HeaderPages: 1, Pages: 1}
					break
				}
			} else {
				full[e.Address] = e.Extent
			}
			bound[k] = e
			return b.Bind(k, e)
		}
		t.Repeat(map[string]func(*rapid.T){
			"update": func(*rapid.T) {
				err := d.Update(testContext(tt), live, func(b *Batch) error {
					for range rapid.IntRange(1, 6).Draw(t, "changes") {
						if err := step(b); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			},
			"reopen": func(*rapid.T) {
				mustClose(tt, d)
				d = mustOpen(tt, fs)
			},
			"lose": func(*rapid.T) { // as an index of the version before
				for namespace := range d.Uses() {
					if err := d.db.Delete(useKey(namespace), pebble.NoSync); err != nil {
						t.Fatal(err)
					}
				}
				if err := d.db.Set(metaComplete, append(testUUID[:], countlessVersion), pebble.NoSync); err != nil {
					t.Fatal(err)
				}
				mustClose(tt, d)
				d = mustOpen(tt, fs)
			},
			"": func(*rapid.T) {
				mustAgree(t, d)
				want := byHand(bound)
				if got := uses(d.Uses()); !maps.Equal(got, want) {
					t.Fatalf("uses %v, by hand %v", got, want)
				}
			},
		})
		mustClose(tt, d)
	})
}

// byHand counts uses from the keys alone.
func byHand(bound map[Key]Entry) uses {
	out := uses{}
	payer, bytes := map[disk.Address]uint32{}, map[disk.Address]int64{}
	for k, e := range bound {
		out.add(k.Namespace, 1, 0)
		if e.IsAlias() {
			out.add(k.Namespace, 0, e.Own.Bytes())
		}
		if p, ok := payer[e.Address]; !ok || k.Namespace < p {
			payer[e.Address] = k.Namespace
		}
		bytes[e.Address] = e.Bytes()
	}
	for at, namespace := range payer {
		out.add(namespace, 0, bytes[at])
	}
	return out
}

// TestCheckFindsWrongUses: a use that is not what the keys come to is a
// problem, as is one too many and one too few.
func TestCheckFindsWrongUses(t *testing.T) {
	d := mustCreate(t, vfs.NewMem())
	defer mustClose(t, d)
	k := Key{3, keyOf(1).Hash}
	err := d.Update(testContext(t), map[uint64]int64{}, func(b *Batch) error {
		return b.Bind(k, Entry{Extent: Extent{Address: disk.Address{Segment: 1, Page: 7}, HeaderPages: 1, Pages: 4}, Seq: 1, RawBytes: 5})
	})
	if err != nil {
		t.Fatal(err)
	}
	problems := func() int64 {
		c, err := d.Check(testContext(t), func(uint32) uint32 { return 1 })
		if err != nil {
			t.Fatal(err)
		}
		return c.ProblemCount
	}
	if n := problems(); n != 0 {
		t.Fatalf("%d problems in a sound index", n)
	}
	right := Use{1, 4 * disk.PageBytes}
	for _, c := range []struct {
		name      string
		namespace uint32
		use       Use
	}{{"bytes", 3, Use{1, 5 * disk.PageBytes}}, {"blocks", 3, Use{2, 4 * disk.PageBytes}}, {"nobody's", 9, right}} {
		if err := d.db.Set(useKey(c.namespace), appendUse(nil, c.use), pebble.NoSync); err != nil {
			t.Fatal(err)
		}
		if n := problems(); n != 1 {
			t.Errorf("%s: %d problems", c.name, n)
		}
		if err := d.db.Delete(useKey(c.namespace), pebble.NoSync); err != nil {
			t.Fatal(err)
		}
		if n := problems(); c.namespace == 3 && n != 1 {
			t.Errorf("%s, none: %d problems", c.name, n)
		}
		if err := d.db.Set(useKey(3), appendUse(nil, right), pebble.NoSync); err != nil {
			t.Fatal(err)
		}
	}
}

// FuzzUse: what decodes is what encodes to it.
func FuzzUse(f *testing.F) {
	f.Add(useKey(7), appendUse(nil, Use{1, 4096}))
	f.Add([]byte{}, []byte{1})
	f.Fuzz(func(t *testing.T, k, v []byte) {
		namespace, u, err := decodeUse(k, v)
		if err != nil {
			return
		}
		if k[0] == kindUse && (string(useKey(namespace)) != string(k) || string(appendUse(nil, u)) != string(v)) {
			t.Errorf("%x %x decodes to %d %v", k, v, namespace, u)
		}
	})
}
