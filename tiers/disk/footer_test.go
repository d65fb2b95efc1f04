package disk

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sealstone/sealstone/internal/sums"
)

const (
	footSegment = 0x1234
	footStart   = 200
)

func testEntries() []FooterEntry {
	full, alias := testExtent(), testAlias()
	alias.Address = Address{footSegment, 150}
	return []FooterEntry{EntryOf(full, 0x1111), EntryOf(alias, 0x2222)}
}

func encodedFooter(t testing.TB, entries []FooterEntry) []byte {
	t.Helper()
	p, err := EncodeFooter(entries, footSegment, footStart, testUUID, testKey)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func decodeFooterErr(p []byte) error {
	_, err := DecodeFooter(p, footSegment, footStart, testUUID, testKey)
	return err
}

func TestFooterGolden(t *testing.T) {
	p := encodedFooter(t, testEntries())
	checkGolden(t, "footer", p)
	got, err := DecodeFooter(readGolden(t, "footer"), footSegment, footStart, testUUID, testKey)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(testEntries(), got); diff != "" {
		t.Errorf("decoded otherwise (-want +got):\n%s", diff)
	}
}

// manyEntries returns n entries, one page behind the other from page 1.
func manyEntries(n int) []FooterEntry {
	entries := make([]FooterEntry, n)
	for i := range entries {
		entries[i] = FooterEntry{Page: uint32(1 + i), HeaderPages: 1, Kind: KindAlias, RawBytes: 1, Hash: seq(byte(i), 32)}
	}
	return entries
}

func TestFooterSizes(t *testing.T) {
	for n := range 200 {
		entries := manyEntries(n)
		p, err := EncodeFooter(entries, 1, 201, testUUID, testKey)
		if err != nil {
			t.Fatal(err)
		}
		want := FooterBytes(int64(n * FooterEntryBytes(32, 0)))
		if int64(len(p)) != want || len(p)%PageBytes != 0 {
			t.Fatalf("%d entries: %d bytes, FooterBytes says %d", n, len(p), want)
		}
		start, size, err := DecodeTrailer(p[len(p)-PageBytes:], testKey, testUUID, 1)
		if err != nil || start != 201 || size != want {
			t.Fatalf("%d entries: trailer says page %d, %d bytes, %v", n, start, size, err)
		}
		got, err := DecodeFooter(p, 1, start, testUUID, testKey)
		if err != nil || len(got) != n {
			t.Fatalf("%d entries: decoded %d, %v", n, len(got), err)
		}
	}
}

func genEntries(t *rapid.T) (entries []FooterEntry, startPage uint32) {
	page := uint32(1)
	for range rapid.IntRange(0, 60).Draw(t, "entries") {
		e := FooterEntry{
			Page:        page + rapid.Uint32Range(0, 1000).Draw(t, "gap"),
			HeaderPages: rapid.Uint16Range(1, MaxHeaderPages).Draw(t, "header"),
			Kind:        rapid.SampledFrom([]Kind{KindFull, KindAlias}).Draw(t, "kind"),
			Namespace:   rapid.Uint32().Draw(t, "namespace"),
			Depth:       rapid.Uint32().Draw(t, "depth"),
			Seq:         rapid.Uint64().Draw(t, "seq"),
			HeaderSum:   rapid.Uint64().Draw(t, "sum"),
			ContentID:   sums.ContentID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "content")),
			RawBytes:    rapid.Int64Range(1, MaxBlockBytes).Draw(t, "raw"),
			Hash:        rapid.SliceOfN(rapid.Byte(), MinHashBytes, MaxHashBytes).Draw(t, "hash"),
		}
		if e.Kind == KindFull {
			e.PayloadPages = rapid.Uint32Range(1, MaxPayloadPages).Draw(t, "payload")
		}
		if rapid.Bool().Draw(t, "has parent") {
			e.Parent = rapid.SliceOfN(rapid.Byte(), MinHashBytes, MaxHashBytes).Draw(t, "parent")
		}
		entries = append(entries, e)
		page = e.EndPage()
	}
	return entries, page + rapid.Uint32Range(0, 9).Draw(t, "before the footer")
}

func TestFooterRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries, start := genEntries(t)
		segment := rapid.Uint64().Draw(t, "segment")
		p, err := EncodeFooter(entries, segment, start, testUUID, testKey)
		if err != nil {
			t.Fatal(err)
		}
		if !IsFooterPage(p) {
			t.Fatal("not a footer page")
		}
		p = append(p, 1, 2, 3)
		got, err := DecodeFooter(p, segment, start, testUUID, testKey)
		if err != nil {
			t.Fatal(err)
		}
		clear(p) // the entries must not be in there
		if diff := cmp.Diff(append([]FooterEntry{}, entries...), got); diff != "" {
			t.Fatalf("decoded otherwise (-want +got):\n%s", diff)
		}
	})
}

func TestFooterFlips(t *testing.T) {
	p := encodedFooter(t, testEntries())
	checkFlips(t, p, decodeFooterErr)
	checkCuts(t, p, 512, decodeFooterErr)
	long := encodedFooter(t, manyEntries(60))
	if len(long) < 2*PageBytes {
		t.Fatal("this footer should have several pages")
	}
	checkFlips(t, long, decodeFooterErr)
	checkCuts(t, long, 512, decodeFooterErr)
}

// A sound footer in the wrong place is no footer, and the error says so.
func TestFooterPlace(t *testing.T) {
	p := encodedFooter(t, testEntries())
	otherUUID := testUUID
	otherUUID[15]++
	for name, tc := range map[string]struct {
		segment uint64
		page    uint32
		uuid    [16]byte
		key     sums.Key
		reason  string
	}{
		"segment": {footSegment + 1, footStart, testUUID, testKey, ReasonPlace},
		"page":    {footSegment, footStart + 1, testUUID, testKey, ReasonPlace},
		"store":   {footSegment, footStart, otherUUID, testKey, ReasonPlace},
		"key":     {footSegment, footStart, testUUID, otherKey, ReasonSum},
	} {
		_, err := DecodeFooter(p, tc.segment, tc.page, tc.uuid, tc.key)
		var c *CorruptError
		if !errors.As(err, &c) || c.Reason != tc.reason || c.Segment != tc.segment || c.Offset < int64(tc.page)*PageBytes {
			t.Errorf("%s: error %v, want reason %q", name, err, tc.reason)
		}
	}
}

func TestFooterPatches(t *testing.T) {
	reseal := func(p []byte) { footerArtifact.seal(p, testKey) }
	first := footEntriesOffset
	second := first + FooterEntryBytes(32, 16)
	end := second + FooterEntryBytes(16, 0)
	checkPatches(t, encodedFooter(t, testEntries()), reseal, decodeFooterErr, append(preamblePatches(),
		patch{"nothing", func([]byte) {}, nil, ""},
		patch{"most entries", set(footCountOffset, 255, 255, 255, 255), ErrCorrupt, "4294967295 entries"},
		patch{"fewer entries", set(footCountOffset, 1), ErrCorrupt, "behind the last entry"},
		patch{"more entries", set(footCountOffset, 3), ErrCorrupt, "cut short"},
		patch{"entry bytes", set(footBytesOffset, 0, 255), ErrCorrupt, "bytes of entries"},
		patch{"no pages", set(footPagesOffset, 0), ErrCorrupt, "0 pages"},
		patch{"most pages", set(footPagesOffset, 255, 255, 255, 255), ErrCorrupt, "4294967295 pages"},
		patch{"more pages", set(footPagesOffset, 2), ErrCorrupt, ReasonShort},
		patch{"page 0", set(first, 0, 0), ErrCorrupt, "page 0"},
		patch{"overlap", set(second, 80), ErrCorrupt, "is not between"},
		patch{"beyond the footer", set(second, 250), ErrCorrupt, "is not between"},
		patch{"page overflow", set(second, 255, 255, 255, 255), ErrCorrupt, "is not between"},
		patch{"huge payload", set(first+4, 255, 255, 255, 255), ErrCorrupt, "payload"},
		patch{"full without payload", set(first+4, 0), ErrCorrupt, "payload"},
		patch{"alias with payload", set(second+4, 1), ErrCorrupt, "payload"},
		patch{"no bytes", set(first+40, 0, 0, 0, 0), ErrCorrupt, "0 bytes"},
		patch{"too many bytes", set(first+43, 255), ErrCorrupt, "block of"},
		patch{"no header", set(first+52, 0), ErrCorrupt, "0 header"},
		patch{"long header", set(first+52, 17), ErrCorrupt, "17 header"},
		patch{"kind", set(first+54, 3), ErrCorrupt, "kind 3"},
		patch{"short hash", set(second+55, 15), ErrCorrupt, ""},
		patch{"long hash", set(second+55, 255), ErrCorrupt, ""},
		patch{"short parent", set(first+56, 15), ErrCorrupt, ""},
		patch{"long parent", set(second+56, 255), ErrCorrupt, "go beyond"},
		patch{"padding of an entry", set(first+57, 1), ErrCorrupt, "reserved"},
		patch{"padding of the head", set(footReserved, 1), ErrCorrupt, "reserved"},
		patch{"padding of the preamble", set(ownOffset, 1), ErrCorrupt, "reserved"},
		patch{"padding behind the entries", set(end, 1), ErrCorrupt, "reserved"},
		patch{"trailer", set(PageBytes-4, 2), ErrCorrupt, "trailer"},
		patch{"padding of a compatible feature", func(p []byte) { p[featureOffset+8], p[end] = 1, 1 }, nil, ""},
	))
}

func TestEncodeFooterInvalid(t *testing.T) {
	for name, change := range map[string]func(e []FooterEntry){
		"order":           func(e []FooterEntry) { e[0], e[1] = e[1], e[0] },
		"overlap":         func(e []FooterEntry) { e[1].Page = e[0].EndPage() - 1 },
		"into the footer": func(e []FooterEntry) { e[1].Page = footStart },
		"page 0":          func(e []FooterEntry) { e[0].Page = 0 },
		"kind":            func(e []FooterEntry) { e[0].Kind = 0 },
		"no hash":         func(e []FooterEntry) { e[0].Hash = nil },
		"long parent":     func(e []FooterEntry) { e[0].Parent = seq(0, 65) },
		"no bytes":        func(e []FooterEntry) { e[0].RawBytes = 0 },
	} {
		entries := testEntries()
		change(entries)
		if _, err := EncodeFooter(entries, footSegment, footStart, testUUID, testKey); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	for _, start := range []uint32{0, MaxSegmentBytes / PageBytes, 1<<32 - 1} {
		if _, err := EncodeFooter(nil, footSegment, start, testUUID, testKey); !errors.Is(err, ErrInvalid) {
			t.Errorf("start page %d: error %v", start, err)
		}
	}
}

func TestTrailer(t *testing.T) {
	p := encodedFooter(t, testEntries())
	decode := func(page []byte) error {
		_, _, err := DecodeTrailer(page, testKey, testUUID, footSegment)
		return err
	}
	last := p[len(p)-PageBytes:]
	tail := last[PageBytes-trailerBytes:]
	decodeTail := func(tail []byte) error {
		return decode(append(make([]byte, PageBytes-trailerBytes), tail...))
	}
	checkFlips(t, tail, decodeTail)
	reseal := func(p []byte) { trailerArtifact.seal(p, testKey) }
	checkPatches(t, tail, reseal, decodeTail, append(preamblePatches(),
		patch{"store", set(32, 0), ErrCorrupt, ReasonPlace},
		patch{"segment", set(48, 0), ErrCorrupt, ReasonPlace},
		patch{"page 0", set(56, 0, 0, 0, 0), ErrCorrupt, "page 0"},
		patch{"page", set(59, 1), ErrCorrupt, "page"},
		patch{"no pages", set(60, 0), ErrCorrupt, "0 pages"},
		patch{"pages", set(63, 1), ErrCorrupt, "pages"},
		patch{"padding", set(ownOffset, 1), ErrCorrupt, "reserved"},
	))
	var c *CorruptError
	if err := decode(make([]byte, PageBytes)); !errors.As(err, &c) || c.Reason != ReasonMagic {
		t.Errorf("an unsealed segment: error %v", err)
	}
	if err := decode(tail); !errors.Is(err, ErrInvalid) {
		t.Errorf("not a page: error %v", err)
	}
}

func TestIsFooterPage(t *testing.T) {
	header, _ := encodeExtent(t, testExtent())
	for name, p := range map[string][]byte{"nothing": nil, "zeros": make([]byte, PageBytes), "extent": header, "short": []byte("SLSTFOO")} {
		if IsFooterPage(p) {
			t.Errorf("%s is taken for a footer", name)
		}
	}
}

func BenchmarkDecodeFooter10000(b *testing.B) {
	p, err := EncodeFooter(manyEntries(10000), 1, 10001, testUUID, testKey)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeFooter(p, 1, 10001, testUUID, testKey); err != nil {
			b.Fatal(err)
		}
	}
}

// withoutTrailer returns the part of a footer that a fuzzer should change.
func withoutTrailer(p []byte) []byte { return fuzzSeed(p[:len(p)-trailerBytes]) }

func FuzzDecodeFooter(f *testing.F) {
	for _, n := range []int{0, 1, 3} {
		f.Add(withoutTrailer(encodedFooter(f, manyEntries(n))))
	}
	f.Add(withoutTrailer(encodedFooter(f, testEntries())))
	f.Fuzz(func(t *testing.T, seed []byte) {
		DecodeFooter(seed, footSegment, footStart, testUUID, testKey)
		p := fuzzBytes(seed, PageBytes)
		n, err := FooterPages(p)
		if err != nil || len(p) < n*PageBytes {
			return
		}
		p = p[:n*PageBytes]
		tail := p[len(p)-trailerBytes:]
		clear(tail)
		putTrailer(tail, trailer{testUUID, footSegment, footStart, uint32(n)}, testKey)
		footerArtifact.seal(p, testKey)
		entries, err := DecodeFooter(p, footSegment, footStart, testUUID, testKey)
		if f, _ := footerArtifact.features(p); err != nil || f.extended() {
			return
		}
		again, err := EncodeFooter(entries, footSegment, footStart, testUUID, testKey)
		if err != nil || string(again) != string(p) {
			t.Fatalf("decoded %+v, encoded otherwise (%v)", entries, err)
		}
	})
}

func FuzzDecodeTrailer(f *testing.F) {
	p := encodedFooter(f, nil)
	f.Add(p[len(p)-trailerBytes:])
	f.Fuzz(func(t *testing.T, seed []byte) {
		page := append(make([]byte, PageBytes), seed...)
		page = page[len(page)-PageBytes:]
		DecodeTrailer(page, testKey, testUUID, footSegment)
		tail := page[PageBytes-trailerBytes:]
		trailerArtifact.seal(tail, testKey)
		start, size, err := DecodeTrailer(page, testKey, testUUID, footSegment)
		if f, _ := trailerArtifact.features(tail); err != nil || f.extended() {
			return
		}
		again := make([]byte, trailerBytes)
		putTrailer(again, trailer{testUUID, footSegment, start, uint32(size / PageBytes)}, testKey)
		if string(again) != string(tail) {
			t.Fatalf("page %d, %d bytes, encoded otherwise", start, size)
		}
	})
}
