package index

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"pgregory.net/rapid"

	"github.com/sealstone/sealstone/internal/vfs"
)

// drawRecordKey draws from few keys of each kind, some of one group.
func drawRecordKey(t *rapid.T) []byte {
	k := appendKey(nil, sameTag(1, rapid.IntRange(0, 2).Draw(t, "id")))
	at := extentAt(rapid.Uint64Range(1, 2).Draw(t, "segment"), rapid.Uint32Range(1, 2).Draw(t, "page"), 1).Address
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		return k
	case 1:
		return appendRef(nil, at, tagOf(k))
	case 2:
		return appendRef(nil, at, tagOf(appendKey(nil, keyOf(rapid.IntRange(1, 2).Draw(t, "other")))))
	}
	return contentKey(1, contentOf(rapid.IntRange(1, 2).Draw(t, "content")))
}

// TestViewIsTheChangesOverPebble: whatever was there and whatever a batch has
// written over it, single keys and lists are those of a plain map.
func TestViewIsTheChangesOverPebble(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := mustCreate(t, vfs.NewMem())
		defer mustClose(t, d)
		want := map[string]string{}
		for range rapid.IntRange(0, 8).Draw(rt, "before") {
			key, value := drawRecordKey(rt), rapid.SliceOfN(rapid.Byte(), 0, 2).Draw(rt, "value")
			want[string(key)] = string(value)
			if err := d.db.Set(key, value, pebble.NoSync); err != nil {
				rt.Fatal(err)
			}
		}
		v := &view{r: d.db, changes: newChanges()}
		for range rapid.IntRange(0, 8).Draw(rt, "changes") {
			key := drawRecordKey(rt)
			if rapid.Bool().Draw(rt, "delete") {
				v.changes.note(key, nil, true)
				delete(want, string(key))
			} else {
				value := rapid.SliceOfN(rapid.Byte(), 0, 2).Draw(rt, "new value")
				v.changes.note(key, value, false)
				want[string(key)] = string(value)
			}
		}
		for range 4 {
			key := drawRecordKey(rt)
			value, ok, err := v.get(key)
			if w, in := want[string(key)]; err != nil || ok != in || string(value) != w {
				rt.Fatalf("key %x is %x, %v, %v, want %x, %v", key, value, ok, err, w, in)
			}
			compareScan(rt, v, want, key[:rapid.IntRange(1, len(key)).Draw(rt, "prefix")])
			compareScan(rt, v, want, groupOf(key))
		}
		if err := v.close(); err != nil {
			rt.Fatal(err)
		}
	})
}

func compareScan(t *rapid.T, v *view, all map[string]string, prefix []byte) {
	got := map[string]string{}
	err := v.scan(prefix, func(key, value []byte) error {
		if _, twice := got[string(key)]; twice {
			t.Fatalf("key %x comes twice", key)
		}
		got[string(key)] = string(value)
		return nil
	})
	want := maps.Clone(all)
	maps.DeleteFunc(want, func(k, _ string) bool { return !bytes.HasPrefix([]byte(k), prefix) })
	if err != nil || !maps.Equal(got, want) {
		t.Fatalf("under %x: %x, %v, want %x", prefix, got, err, want)
	}
}

func TestPrefixEnd(t *testing.T) {
	for _, c := range [][2]string{{"a", "b"}, {"a\xff", "b"}, {"a\x00", "a\x01"}, {"a\xff\xff", "b"}} {
		if got := prefixEnd([]byte(c[0])); string(got) != c[1] {
			t.Errorf("behind %x: %x, want %x", c[0], got, c[1])
		}
	}
}

// TestFilterLeavesReferencesOut: the filter says yes to the keys that it was
// given, references count for nothing.
func TestFilterLeavesReferencesOut(t *testing.T) {
	p := newFilterPolicy()
	if p.Name() != bloom.FilterPolicy(bloomBitsPerKey).Name() {
		t.Fatal("it is another filter on disk")
	}
	finish := func(keys [][]byte) []byte {
		w := p.NewWriter(pebble.TableFilter)
		for _, k := range keys {
			w.AddKey(k)
		}
		return w.Finish(nil)
	}
	var keys, references [][]byte
	for i := range 100 {
		k := appendKey(nil, keyOf(i))
		keys = append(keys, k, contentKey(1, contentOf(i)), slices.Clone(metaComplete))
		references = append(references, appendRef(nil, extentAt(1, uint32(i), 1).Address, tagOf(k)))
	}
	f := finish(append(slices.Clone(keys), references...))
	for _, k := range keys {
		if !p.MayContain(pebble.TableFilter, f, k) {
			t.Fatalf("the filter denies %x", k)
		}
	}
	if want := finish(keys); len(f) != len(want) {
		t.Errorf("with references it takes %d bytes, without %d", len(f), len(want))
	}
}
