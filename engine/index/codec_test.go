package index

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"sort"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sealstone/sealstone/tiers/disk"
)

func drawExtent(t *rapid.T, name string) Extent {
	return Extent{
		Address:     disk.Address{Segment: rapid.Uint64Min(1).Draw(t, name+" segment"), Page: rapid.Uint32().Draw(t, name+" page")},
		HeaderPages: rapid.Uint16().Draw(t, name+" header pages"),
		Pages:       rapid.Uint32().Draw(t, name+" pages"),
		HeaderSum:   rapid.Uint64().Draw(t, name+" sum"),
	}
}

func drawEntry(t *rapid.T) Entry {
	e := Entry{
		Extent: drawExtent(t, "extent"),
		Seq:    rapid.Uint64().Draw(t, "seq"), Depth: rapid.Uint32().Draw(t, "depth"),
		RawBytes: rapid.Int64Range(0, 1<<40).Draw(t, "raw"),
	}
	copy(e.Content[:], rapid.SliceOfN(rapid.Byte(), 8, 8).Draw(t, "content"))
	if rapid.Bool().Draw(t, "usual") { // what the flags leave out
		e.RawBytes = rapid.Int64Range(0, 1<<30).Draw(t, "usual raw")
		e.HeaderPages, e.Pages = 1, uint32(usualPages(e.RawBytes))
	}
	if rapid.Bool().Draw(t, "alias") {
		e.Own = drawExtent(t, "own")
		if rapid.Bool().Draw(t, "usual own") {
			e.Own.HeaderPages = 1
		}
		e.Own.Pages = uint32(e.Own.HeaderPages) // an alias is a header only
	}
	return e
}

func drawKey(t *rapid.T, name string) Key {
	return Key{
		Namespace: rapid.Uint32().Draw(t, name+" namespace"),
		Hash:      string(rapid.SliceOfN(rapid.Byte(), 16, 64).Draw(t, name+" hash")),
	}
}

func TestEntryRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEntry(t)
		p := appendEntry(nil, e)
		got, err := decodeEntry(p)
		if err != nil || got != e {
			t.Fatalf("decoded %+v, %v", got, err)
		}
		cut := rapid.IntRange(0, len(p)-1).Draw(t, "cut")
		if got, err := decodeEntry(p[:cut]); err == nil {
			t.Fatalf("%d of %d bytes decoded to %+v", cut, len(p), got)
		}
		if got, err := decodeEntry(append(p, 0)); err == nil {
			t.Fatalf("with a byte more decoded to %+v", got)
		}
		p[0]++
		if _, err := decodeEntry(p); err == nil {
			t.Fatal("an entry of another version decoded")
		}
	})
}

func TestAddressRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawExtent(t, "extent").Address
		p := appendAddress(nil, a)
		if got, err := decodeAddress(p); err != nil || got != a {
			t.Fatalf("decoded %+v, %v", got, err)
		}
		cut := rapid.IntRange(0, len(p)-1).Draw(t, "cut")
		if got, err := decodeAddress(p[:cut]); err == nil {
			t.Fatalf("%d of %d bytes decoded to %+v", cut, len(p), got)
		}
		if _, err := decodeAddress(append(p, 1)); err == nil {
			t.Fatal("with a byte more it decodes")
		}
	})
}

func TestKeyRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := drawKey(t, "key")
		p := appendKey(nil, k)
		if got, err := decodeKey(p); err != nil || got != k {
			t.Fatalf("key decoded to %+v, %v", got, err)
		}
		tag := tagOf(p)
		if !bytes.HasPrefix(p, tag.appendPrefix(nil)) {
			t.Fatalf("key %x does not begin with the prefix of its tag, %x", p, tag.appendPrefix(nil))
		}
		at := drawExtent(t, "at").Address
		gotAt, got, err := decodeRef(appendRef(nil, at, tag))
		if err != nil || got != tag || gotAt != at {
			t.Fatalf("reference decoded to %v %+v, %v", gotAt, got, err)
		}
		n := rapid.Uint64Min(1).Draw(t, "count")
		if got, err := decodeRefCount(appendRefCount(nil, n)); err != nil || got != n {
			t.Fatalf("count %d decoded to %d, %v", n, got, err)
		}
	})
}

// TestTagsDiffer: whatever hashes have in common, the tags of their keys have
// not, or each reference would stand for a crowd of keys.
func TestTagsDiffer(t *testing.T) {
	const count = 20_000
	forms := map[string]func(i int) string{
		"numbered":         func(i int) string { return fmt.Sprintf("%016d", i) },
		"begin alike":      func(i int) string { return fmt.Sprintf("%-32s%08d", "a-name-that-all-of-them-have", i) },
		"big endian":       func(i int) string { return string(binary.BigEndian.AppendUint64(make([]byte, 24), uint64(i))) },
		"differ in front":  func(i int) string { return fmt.Sprintf("%06d%058d", i, 0) },
		"random, as usual": func(i int) string { return keyOf(i).Hash },
	}
	for name, hash := range forms {
		seen := map[keyTag]bool{}
		for i := range count {
			seen[tagOf(appendKey(nil, Key{1, hash(i)}))] = true
		}
		if len(seen) < count-1 {
			t.Errorf("%s: %d keys have %d tags", name, count, len(seen))
		}
	}
}

// TestReferencesSortByAddress: an eviction reads a segment front to back, and
// nothing of its neighbours.
func TestReferencesSortByAddress(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type ref struct {
			at disk.Address
			k  Key
		}
		var refs []ref
		var keys []string
		for range rapid.IntRange(2, 8).Draw(t, "refs") {
			r := ref{disk.Address{Segment: rapid.Uint64Range(1, 3).Draw(t, "segment"), Page: rapid.Uint32Range(0, 3).Draw(t, "page")}, drawKey(t, "key")}
			refs = append(refs, r)
			keys = append(keys, string(appendRef(nil, r.at, tagOf(appendKey(nil, r.k)))))
		}
		sort.Strings(keys)
		for i := 1; i < len(keys); i++ {
			a, _, _ := decodeRef([]byte(keys[i-1]))
			b, _, _ := decodeRef([]byte(keys[i]))
			if b.Less(a) {
				t.Fatalf("%v sorts before %v", a, b)
			}
		}
		for _, r := range refs {
			k := string(appendRef(nil, r.at, tagOf(appendKey(nil, r.k))))
			lower, upper := string(segmentPrefix(kindRef, r.at.Segment)), string(segmentPrefix(kindRef, r.at.Segment+1))
			if k < lower || k >= upper {
				t.Fatalf("reference at %v lies outside its segment's bounds", r.at)
			}
		}
	})
}

// TestEncodingIsFixed: what is on disk must not change by accident.
func TestEncodingIsFixed(t *testing.T) {
	tag := ContentTag{1, 2, 3, 4}
	usual := Entry{Extent: Extent{disk.Address{Segment: 300, Page: 2}, 1, 5, 0x1122334455667788}, Content: tag, Seq: 9, Depth: 1, RawBytes: 16000}
	alias := usual
	alias.Own = Extent{disk.Address{Segment: 301, Page: 7}, 1, 1, 0x99}
	large := usual
	large.HeaderPages, large.Pages = 2, 6
	large.Own = Extent{disk.Address{Segment: 301, Page: 7}, 3, 3, 0x99}
	k := Key{Namespace: 2, Hash: "0123456789abcdef"}
	const common = "0102030400000000" + "8877665544332211" + "ac02" + "02" + "09" + "01" + "807d"
	for name, c := range map[string]struct {
		got  []byte
		want string
	}{
		"entry":     {appendEntry(nil, usual), "20" + common},
		"alias":     {appendEntry(nil, alias), "21" + common + "ad02" + "07" + "9900000000000000"},
		"large":     {appendEntry(nil, large), "27" + common + "02" + "06" + "ad02" + "07" + "03" + "9900000000000000"},
		"address":   {appendAddress(nil, usual.Address), "ac02" + "02"},
		"key":       {appendKey(nil, k), "6b" + "00000002" + "bd3f2f89e1d484e0" + hex.EncodeToString([]byte(k.Hash[8:]))},
		"ref":       {appendRef(nil, usual.Address, tagOf(appendKey(nil, k))), "72" + "000000000000012c" + "00000002" + "02" + "bd3f2f89e1d4"},
		"count 1":   {appendRefCount(nil, 1), ""},
		"count 300": {appendRefCount(nil, 300), "ac02"},
		"content":   {contentKey(3, tag), "63" + "00000003" + "0102030400000000"},
	} {
		if got := hex.EncodeToString(c.got); got != strings.ToLower(c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func FuzzDecodeEntry(f *testing.F) {
	e := entryAt(3, 4, 5, 6)
	f.Add(appendEntry(nil, e))
	f.Add(appendEntry(nil, aliasTo(e, 9, 8, 7)))
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xff}, 64))
	f.Fuzz(func(t *testing.T, p []byte) {
		got, err := decodeEntry(p)
		if err != nil {
			return
		}
		if again := appendEntry(nil, got); !bytes.Equal(again, p) {
			t.Fatalf("%+v encodes to %x", got, again)
		}
		if got.RawBytes < 0 || got.Bytes() < 0 {
			t.Fatalf("negative sizes in %+v", got)
		}
	})
}

func FuzzDecodeAddress(f *testing.F) {
	f.Add(appendAddress(nil, disk.Address{Segment: 3, Page: 4}))
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, p []byte) {
		got, err := decodeAddress(p)
		if err == nil && !bytes.Equal(appendAddress(nil, got), p) {
			t.Fatalf("%+v does not encode to what it came from", got)
		}
	})
}

func FuzzDecodeKeys(f *testing.F) {
	f.Add(appendKey(nil, keyOf(1)))
	f.Add(appendRef(nil, disk.Address{Segment: 1, Page: 2}, tagOf(appendKey(nil, keyOf(2)))))
	f.Add([]byte("k"))
	f.Add([]byte("r"))
	f.Fuzz(func(t *testing.T, p []byte) {
		if k, err := decodeKey(p); err == nil && !bytes.Equal(appendKey(nil, k), p) {
			t.Fatalf("key %+v does not encode to what it came from", k)
		}
		if a, tag, err := decodeRef(p); err == nil && !bytes.Equal(appendRef(nil, a, tag), p) {
			t.Fatalf("reference %v %+v does not encode to what it came from", a, tag)
		}
		if n, err := decodeRefCount(p); err == nil && !bytes.Equal(appendRefCount(nil, n), p) {
			t.Fatalf("count %d does not encode to what it came from", n)
		}
	})
}
