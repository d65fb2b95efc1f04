package engine

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/sums"
	"github.com/sealstone/sealstone/tiers/disk"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// sampleRecords are one of each kind, a put of each form.
func sampleRecords() []*record {
	key := index.Key{Namespace: 7, Hash: "0123456789abcdef"}
	ext := index.Extent{Address: disk.Address{Segment: 0x0102030405060708, Page: 0x11121314}, HeaderPages: 0x2122, Pages: 0x31323334, HeaderSum: 0x4142434445464748}
	own := index.Extent{Address: disk.Address{Segment: 9, Page: 10}, HeaderPages: 1, Pages: 1, HeaderSum: 11}
	id := sums.ContentID{1, 2, 3, 15: 16}
	entry := index.Entry{Extent: ext, Content: index.TagOf(id), Seq: 0x51, Depth: 0x61, RawBytes: 0x71}
	alias := entry
	alias.Own = own
	return []*record{
		{Kind: recordPut, Key: key, Entry: entry, ContentID: id},
		{Kind: recordPut, Key: key, Entry: alias, ContentID: id},
		{Kind: recordDrop, Key: key, Entry: index.Entry{Seq: 0x51}, From: disk.Address{Segment: 9, Page: 10}},
		{Kind: recordQuarantine, Key: key, Entry: index.Entry{Seq: 0x51, Extent: index.Extent{Address: disk.Address{Segment: 9, Page: 10}}}},
		{Kind: recordMove, Key: key, Entry: index.Entry{Seq: 0x51, Extent: ext}, From: disk.Address{Segment: 9, Page: 10}},
		{Kind: recordEvict, Segment: 0x99},
	}
}

// TestRecordGolden: a change of this file is a change of the format on disk.
func TestRecordGolden(t *testing.T) {
	var b strings.Builder
	for _, r := range sampleRecords() {
		fmt.Fprintf(&b, "%v %s\n", r.Kind, hex.EncodeToString(r.encode()))
	}
	path := filepath.Join("testdata", "records.golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("%s differs; got:\n%s", path, b.String())
	}
}

func genRecord(t *rapid.T) *record {
	address := func(name string) disk.Address {
		return disk.Address{Segment: rapid.Uint64Min(1).Draw(t, name), Page: rapid.Uint32().Draw(t, name+" page")}
	}
	extent := func(name string) index.Extent {
		header := rapid.Uint16Min(1).Draw(t, name+" header pages")
		return index.Extent{Address: address(name), HeaderPages: header, Pages: rapid.Uint32Min(uint32(header)).Draw(t, name+" pages"), HeaderSum: rapid.Uint64().Draw(t, name+" sum")}
	}
	r := &record{Kind: recordKind(rapid.IntRange(int(recordPut), int(recordEvict)).Draw(t, "kind"))}
	if r.Kind == recordEvict {
		r.Segment = rapid.Uint64Min(1).Draw(t, "segment")
		return r
	}
	r.Key = index.Key{Namespace: rapid.Uint32().Draw(t, "namespace"), Hash: string(rapid.SliceOfN(rapid.Byte(), MinHashBytes, MaxHashBytes).Draw(t, "hash"))}
	r.Entry.Seq = rapid.Uint64Min(1).Draw(t, "seq")
	switch r.Kind {
	case recordPut:
		r.Entry.Extent, r.Entry.Depth = extent("extent"), rapid.Uint32().Draw(t, "depth")
		r.Entry.RawBytes = rapid.Int64Min(0).Draw(t, "raw")
		copy(r.ContentID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "content"))
		r.Entry.Content = index.TagOf(r.ContentID)
		if rapid.Bool().Draw(t, "alias") {
			r.Entry.Own = extent("own")
		}
	case recordDrop:
		r.From = address("from")
	case recordQuarantine:
		r.Entry.Address = address("address")
	case recordMove:
		r.From, r.Entry.Extent = address("from"), extent("extent")
	}
	return r
}

func TestRecordRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := genRecord(t)
		p := want.encode()
		got, err := decodeRecord(p)
		if err != nil || *got != *want {
			t.Fatalf("%+v\nbecame %+v, %v", want, got, err)
		}
		cut := rapid.IntRange(0, len(p)-1).Draw(t, "cut")
		if r, err := decodeRecord(p[:cut]); err == nil {
			t.Fatalf("cut to %d bytes of %d: %+v", cut, len(p), r)
		}
		if r, err := decodeRecord(append(p, 0)); err == nil {
			t.Fatalf("a byte more: %+v", r)
		}
	})
}

func TestRecordRefused(t *testing.T) {
	put := sampleRecords()[0]
	for name, change := range map[string]func(r *record){
		"sequence 0":     func(r *record) { r.Entry.Seq = 0 },
		"hash of 15":     func(r *record) { r.Key.Hash = r.Key.Hash[1:] },
		"hash of 65":     func(r *record) { r.Key.Hash = strings.Repeat("x", 65) },
		"without pages":  func(r *record) { r.Entry.HeaderPages = 0 },
		"fewer pages":    func(r *record) { r.Entry.Pages = 3 },
		"extent nowhere": func(r *record) { r.Entry.Address = disk.Address{} },
		"unknown kind":   func(r *record) { r.Kind = 6 },
		"evict of 0":     func(r *record) { *r = record{Kind: recordEvict} },
		"evict of a key": func(r *record) { *r = record{Kind: recordEvict, Segment: 1, Key: r.Key} },
	} {
		r := *put
		change(&r)
		got, err := decodeRecord(r.encode())
		var bad errBadRecord
		if !errors.As(err, &bad) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	p := put.encode()
	p[0] = 2
	if _, err := decodeRecord(p); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("version 2: %v", err)
	}
}

func FuzzRecord(f *testing.F) {
	for _, r := range sampleRecords() {
		f.Add(r.encode())
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		r, err := decodeRecord(p)
		if err != nil {
			return
		}
		if !bytes.Equal(r.encode(), p) {
			t.Errorf("%x decodes to %+v, which encodes to %x", p, r, r.encode())
		}
	})
}
