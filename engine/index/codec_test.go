package index

import (
	"bytes"
	"encoding/hex"
	"sort"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sealstone/sealstone/internal/sums"
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
	copy(e.ContentID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "content"))
	if rapid.Bool().Draw(t, "alias") {
		e.Own = drawExtent(t, "own")
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

func TestContentRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Content{drawExtent(t, "extent")}
		p := appendContent(nil, c)
		if got, err := decodeContent(p); err != nil || got != c {
			t.Fatalf("decoded %+v, %v", got, err)
		}
		cut := rapid.IntRange(0, len(p)-1).Draw(t, "cut")
		if got, err := decodeContent(p[:cut]); err == nil {
			t.Fatalf("%d of %d bytes decoded to %+v", cut, len(p), got)
		}
		if _, err := decodeContent(append(p, 1)); err == nil {
			t.Fatal("with a byte more it decodes")
		}
	})
}

func TestKeyRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := drawKey(t, "key")
		if got, err := decodeKey(appendKey(nil, k)); err != nil || got != k {
			t.Fatalf("key decoded to %+v, %v", got, err)
		}
		at := drawExtent(t, "at").Address
		gotAt, got, err := decodeRef(appendRef(nil, at, k))
		if err != nil || got != k || gotAt != at {
			t.Fatalf("reference decoded to %v %+v, %v", gotAt, got, err)
		}
	})
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
			keys = append(keys, string(appendRef(nil, r.at, r.k)))
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
			k := string(appendRef(nil, r.at, r.k))
			lower, upper := string(segmentPrefix(kindRef, r.at.Segment)), string(segmentPrefix(kindRef, r.at.Segment+1))
			if k < lower || k >= upper {
				t.Fatalf("reference at %v lies outside its segment's bounds", r.at)
			}
		}
	})
}

// TestEncodingIsFixed: what is on disk must not change by accident.
func TestEncodingIsFixed(t *testing.T) {
	id := sums.ContentID{1, 2, 3, 4}
	full := Entry{Extent: Extent{disk.Address{Segment: 300, Page: 2}, 1, 5, 0x1122334455667788}, ContentID: id, Seq: 9, Depth: 1, RawBytes: 16000}
	alias := full
	alias.Own = Extent{disk.Address{Segment: 301, Page: 7}, 1, 1, 0x99}
	k := Key{Namespace: 2, Hash: "0123456789abcdef"}
	const contentHex = "01020304" + "000000000000000000000000"
	for name, c := range map[string]struct {
		got  []byte
		want string
	}{
		"entry":   {appendEntry(nil, full), "01" + contentHex + "8877665544332211" + "ac02" + "02" + "01" + "05" + "09" + "01" + "807d" + "00"},
		"alias":   {appendEntry(nil, alias), "01" + contentHex + "8877665544332211" + "ac02" + "02" + "01" + "05" + "09" + "01" + "807d" + "ad02" + "07" + "01" + "9900000000000000"},
		"content": {appendContent(nil, Content{full.Extent}), "01" + "8877665544332211" + "ac02" + "02" + "01" + "05"},
		"key":     {appendKey(nil, k), "6b" + "00000002" + hex.EncodeToString([]byte(k.Hash))},
		"ref":     {appendRef(nil, full.Address, k), "72" + "000000000000012c" + "00000002" + "00000002" + hex.EncodeToString([]byte(k.Hash))},
		"tenant":  {contentKey(3, id), "63" + "00000003" + contentHex},
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
		if again, err := decodeEntry(appendEntry(nil, got)); err != nil || again != got {
			t.Fatalf("%+v encodes to something else: %+v, %v", got, again, err)
		}
		if got.RawBytes < 0 || got.Bytes() < 0 {
			t.Fatalf("negative sizes in %+v", got)
		}
	})
}

func FuzzDecodeContent(f *testing.F) {
	f.Add(appendContent(nil, Content{extentAt(3, 4, 5)}))
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, p []byte) {
		got, err := decodeContent(p)
		if err != nil {
			return
		}
		if again, err := decodeContent(appendContent(nil, got)); err != nil || again != got {
			t.Fatalf("%+v encodes to something else: %+v, %v", got, again, err)
		}
	})
}

func FuzzDecodeKeys(f *testing.F) {
	f.Add(appendKey(nil, keyOf(1)))
	f.Add(appendRef(nil, disk.Address{Segment: 1, Page: 2}, keyOf(2)))
	f.Add([]byte("k"))
	f.Add([]byte("r"))
	f.Fuzz(func(t *testing.T, p []byte) {
		if k, err := decodeKey(p); err == nil && !bytes.Equal(appendKey(nil, k), p) {
			t.Fatalf("key %+v does not encode to what it came from", k)
		}
		if a, k, err := decodeRef(p); err == nil && !bytes.Equal(appendRef(nil, a, k), p) {
			t.Fatalf("reference %v %+v does not encode to what it came from", a, k)
		}
	})
}
