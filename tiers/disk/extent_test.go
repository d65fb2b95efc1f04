package disk

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sealstone/sealstone/internal/sums"
)

// testExtent returns an extent of three planes: one of several chunks, an
// empty one and one of a single byte.
func testExtent() *Extent {
	e := &Extent{
		Kind:      KindFull,
		StoreUUID: testUUID,
		Address:   Address{0x1234, 77},
		Seq:       0x0102030405060708,
		Namespace: 5,
		Depth:     3,
		Hash:      seq(0x10, 32),
		Parent:    seq(0x40, 16),
		PlainKey:  []byte("user:42/prompt"),
		Planes:    []Plane{{Name: "k", RawBytes: 2*sums.ChunkBytes + 5}, {Name: "v_scale"}, {Name: "v", RawBytes: 1}},
	}
	e.Layout()
	fillSums(e)
	return e
}

// fillSums gives the chunk table sums that count up, and the content id that
// follows from them.
func fillSums(e *Extent) {
	var raw []uint64
	for i := range e.Chunks {
		e.Chunks[i].RawSum = 0xc0de000000000000 + uint64(i)
		raw = append(raw, e.Chunks[i].RawSum)
	}
	var lens []int64
	for _, p := range e.Planes {
		lens = append(lens, p.RawBytes)
	}
	e.ContentID = sums.Content(lens, raw)
}

// testAlias returns an alias of testExtent under another key.
func testAlias() *Extent {
	e := testExtent()
	e.Kind = KindAlias
	e.Target = e.Address
	e.Address = Address{0x1240, 9}
	e.Hash, e.Parent, e.PlainKey = seq(0x80, 16), nil, nil
	e.Layout()
	return e
}

// testCompressed returns an extent whose chunks are stored compressed, but
// for one.
func testCompressed() *Extent {
	e := testExtent()
	e.PlainKey = nil
	e.Codec = CodecZstd
	for i, stored := range []uint32{4000, sums.ChunkBytes, 5, 1} {
		e.Chunks[i].StoredBytes = stored
		e.Chunks[i].StoredSum = 0xabcd0000 + uint64(i)
	}
	e.Planes[0].StoredBytes = 4000 + sums.ChunkBytes + 5
	e.Planes[1].OffsetBytes, e.Planes[2].OffsetBytes = 17*PageBytes, 17*PageBytes
	e.HeaderPages = uint16(HeaderPages(e))
	e.PayloadPages = 18
	return e
}

// testS2 is testCompressed with the other codec.
func testS2() *Extent {
	e := testCompressed()
	e.LayoutStored(CodecS2)
	return e
}

// testLarge returns the extent with the largest header that the format has.
func testLarge() *Extent {
	e := &Extent{Kind: KindFull, StoreUUID: testUUID, Address: Address{1, 1}, Codec: CodecZstd,
		Hash: seq(1, MaxHashBytes), Parent: seq(2, MaxHashBytes), PlainKey: seq(3, MaxPlainKeyBytes)}
	const share = MaxBlockBytes / MaxPlanes
	for i := range MaxPlanes {
		p := Plane{Name: fmt.Sprintf("%*d", MaxPlaneName, i), RawBytes: share + 1}
		if i == MaxPlanes-1 {
			p.RawBytes = MaxBlockBytes - (MaxPlanes-1)*(share+1)
		}
		p.StoredBytes = p.RawBytes
		e.Planes = append(e.Planes, p)
	}
	e.Layout()
	e.Codec = CodecZstd
	for i := range e.Chunks {
		_, _, raw := e.ChunkSpan(i)
		e.Chunks[i] = Chunk{uint64(i), uint32(raw), uint64(i)}
	}
	e.HeaderPages = uint16(HeaderPages(e))
	return e
}

func encodeExtent(t testing.TB, e *Extent) ([]byte, uint64) {
	t.Helper()
	p := make([]byte, HeaderPages(e)*PageBytes)
	sum, err := EncodeExtent(p, e, testKey)
	if err != nil {
		t.Fatal(err)
	}
	return p, sum
}

func decodeExtentErr(p []byte) error {
	_, _, err := DecodeExtent(p, testKey)
	return err
}

var testExtents = map[string]func() *Extent{
	"extent": testExtent, "extent_alias": testAlias, "extent_compressed": testCompressed, "extent_s2": testS2,
}

func TestExtentGolden(t *testing.T) {
	for name, f := range testExtents {
		t.Run(name, func(t *testing.T) {
			p, sum := encodeExtent(t, f())
			checkGolden(t, name, p)
			got, gotSum, err := DecodeExtent(readGolden(t, name), testKey)
			if err != nil || gotSum != sum {
				t.Fatalf("sum %016x, %v, want %016x", gotSum, err, sum)
			}
			if diff := cmp.Diff(f(), got); diff != "" {
				t.Errorf("decoded otherwise (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExtentLimits(t *testing.T) {
	e := testLarge()
	if e.RawBytes() != MaxBlockBytes {
		t.Fatalf("the large extent has %d bytes", e.RawBytes())
	}
	p, sum := encodeExtent(t, e)
	if e.HeaderPages > MaxHeaderPages || e.PayloadPages > MaxPayloadPages {
		t.Errorf("%d header pages, %d payload pages", e.HeaderPages, e.PayloadPages)
	}
	got, err := DecodeExtentExpect(p, testKey, sum, e.Address, testUUID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(e, got); diff != "" {
		t.Errorf("decoded otherwise (-want +got):\n%s", diff)
	}
	checkCuts(t, p, PageBytes, decodeExtentErr)
	if e.HeaderPages != 13 { // as docs/format/extent.md says
		t.Errorf("the largest header takes %d pages", e.HeaderPages)
	}
}

// genExtent draws any extent that the format can hold.
func genExtent(t *rapid.T) *Extent {
	bytesOf := func(lo, hi int, name string) []byte {
		if b := rapid.SliceOfN(rapid.Byte(), lo, hi).Draw(t, name); len(b) > 0 {
			return b
		}
		return nil
	}
	e := &Extent{
		Kind:      rapid.SampledFrom([]Kind{KindFull, KindAlias}).Draw(t, "kind"),
		StoreUUID: [16]byte(bytesOf(16, 16, "uuid")),
		Address:   Address{rapid.Uint64().Draw(t, "segment"), rapid.Uint32Min(1).Draw(t, "page")},
		Seq:       rapid.Uint64().Draw(t, "seq"),
		Namespace: rapid.Uint32().Draw(t, "namespace"),
		Depth:     rapid.Uint32().Draw(t, "depth"),
		Hash:      bytesOf(MinHashBytes, MaxHashBytes, "hash"),
		PlainKey:  bytesOf(0, MaxPlainKeyBytes, "key"),
		ContentID: sums.ContentID(bytesOf(16, 16, "content")),
	}
	if rapid.Bool().Draw(t, "has parent") {
		e.Parent = bytesOf(MinHashBytes, MaxHashBytes, "parent")
	}
	if e.Kind == KindAlias {
		e.Target = Address{rapid.Uint64().Draw(t, "target"), rapid.Uint32().Draw(t, "target page")}
	}
	for i := range rapid.IntRange(1, 40).Draw(t, "planes") {
		name := string(bytesOf(1, MaxPlaneName, "name"))
		raw := rapid.OneOf(rapid.Int64Range(0, 1), rapid.Int64Range(0, 3*sums.ChunkBytes)).Draw(t, "raw")
		if i == 0 {
			raw++
		}
		e.Planes = append(e.Planes, Plane{Name: name, RawBytes: raw})
	}
	e.Layout()
	for i := range e.Chunks {
		e.Chunks[i].RawSum = rapid.Uint64().Draw(t, "sum")
	}
	if rapid.Bool().Draw(t, "compressed") {
		compressSome(t, e)
	}
	return e
}

// compressSome turns e into a compressed extent with drawn stored lengths.
func compressSome(t *rapid.T, e *Extent) {
	e.Codec = CodecZstd
	next, offset := 0, int64(0)
	for i := range e.Planes {
		p := &e.Planes[i]
		p.OffsetBytes, p.StoredBytes = offset, 0
		for left := p.RawBytes; left > 0; left -= sums.ChunkBytes {
			c := &e.Chunks[next]
			c.StoredBytes = uint32(rapid.Int64Range(1, min(left, sums.ChunkBytes)).Draw(t, "stored"))
			c.StoredSum = rapid.Uint64().Draw(t, "stored sum")
			p.StoredBytes += int64(c.StoredBytes)
			next++
		}
		offset += pages(p.StoredBytes) * PageBytes
	}
	e.HeaderPages = uint16(HeaderPages(e))
	if e.Kind == KindFull {
		e.PayloadPages = uint32(offset / PageBytes)
	}
}

func TestExtentRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := genExtent(t)
		p := seq(0, int(e.HeaderPages)*PageBytes) // not zero: encoding must clear it
		sum, err := EncodeExtent(p, e, testKey)
		if err != nil {
			t.Fatal(err)
		}
		p = append(p, seq(9, rapid.IntRange(0, 100).Draw(t, "behind"))...)
		if n, err := PeekExtent(p); err != nil || n != int(e.HeaderPages) {
			t.Fatalf("peek: %d, %v", n, err)
		}
		got, gotSum, err := DecodeExtent(p, testKey)
		if err != nil || gotSum != sum {
			t.Fatalf("sum %016x, %v, want %016x", gotSum, err, sum)
		}
		if diff := cmp.Diff(e, got); diff != "" {
			t.Fatalf("decoded otherwise (-want +got):\n%s", diff)
		}
		if _, err := DecodeExtentExpect(p, testKey, sum, e.Address, e.StoreUUID); err != nil {
			t.Fatal(err)
		}
	})
}

func TestExtentFlips(t *testing.T) {
	for name, f := range testExtents {
		t.Run(name, func(t *testing.T) {
			e := f()
			p, sum := encodeExtent(t, e)
			if e.Pages()*PageBytes != len(p)+int(e.PayloadPages)*PageBytes {
				t.Errorf("%v extent of %d pages", e.Kind, e.Pages())
			}
			checkFlips(t, p, decodeExtentErr)
			checkFlips(t, p, func(p []byte) error {
				_, err := DecodeExtentExpect(p, testKey, sum, e.Address, testUUID)
				return err
			})
		})
	}
}

func TestDecodeExtentDoesNotShareMemory(t *testing.T) {
	p, _ := encodeExtent(t, testExtent())
	got, _, err := DecodeExtent(p, testKey)
	if err != nil {
		t.Fatal(err)
	}
	clear(p)
	if diff := cmp.Diff(testExtent(), got); diff != "" {
		t.Errorf("changed with the buffer (-want +got):\n%s", diff)
	}
}

// Sound headers that are not the one the index names.
func TestDecodeExtentExpect(t *testing.T) {
	e := testExtent()
	p, sum := encodeExtent(t, e)
	newer := testExtent()
	newer.Seq++
	rewritten, newerSum := encodeExtent(t, newer)
	moved := testExtent()
	moved.Address.Page++
	misdirected, movedSum := encodeExtent(t, moved)
	foreign := testExtent()
	foreign.StoreUUID[0]++
	foreigner, foreignSum := encodeExtent(t, foreign)
	rotten := bytes.Clone(p)
	rotten[sumOffset]++
	future := bytes.Clone(p)
	future[versionOffset]++
	futureSum := extentHeader.seal(future, testKey)
	if _, err := DecodeExtentExpect(future, testKey, futureSum, e.Address, testUUID); !errors.Is(err, ErrUnsupported) {
		t.Errorf("a newer version: error %v", err)
	}
	malformed := bytes.Clone(p)
	malformed[extKindOffset] = 9
	malformedSum := extentHeader.seal(malformed, testKey)

	for _, tc := range []struct {
		name   string
		p      []byte
		key    sums.Key
		want   uint64
		reason string
	}{
		{"the one", p, testKey, sum, ""},
		{"an older write", p, testKey, newerSum, ReasonStale},
		{"a consistent rewrite", rewritten, testKey, sum, ReasonStale},
		{"a misdirected write", misdirected, testKey, sum, ReasonStale},
		{"an index that names another page", misdirected, testKey, movedSum, ReasonPlace},
		{"another store under the same key", foreigner, testKey, foreignSum, ReasonPlace},
		{"another key", p, otherKey, sum, ReasonSum},
		{"only the sum field", rotten, testKey, sum, ReasonSum},
		{"badly made", malformed, testKey, malformedSum, ReasonField},
		{"zeros", make([]byte, PageBytes), testKey, sum, ReasonMagic},
		{"short", p[:100], testKey, sum, ReasonShort},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := DecodeExtentExpect(tc.p, tc.key, tc.want, e.Address, testUUID)
			if tc.reason == "" {
				if err != nil || got.Seq != e.Seq {
					t.Fatalf("%+v, %v", got, err)
				}
				return
			}
			var c *CorruptError
			if !errors.As(err, &c) || got != nil || c.Reason != tc.reason {
				t.Fatalf("%v, %v, want reason %q", got, err, tc.reason)
			}
			if c.Segment != 0x1234 || c.Offset != 77*PageBytes {
				t.Errorf("%v does not say where", c)
			}
		})
	}
}

func TestExtentPatches(t *testing.T) {
	p, _ := encodeExtent(t, testExtent())
	reseal := func(p []byte) { extentHeader.seal(p, testKey) }
	planes := extFixedBytes + 32 + 16 + 14
	chunks := align8(planes + 3*planeFixedBytes + len("k") + len("v_scale") + len("v"))
	end := chunks + 4*8
	checkPatches(t, p, reseal, decodeExtentErr, append(preamblePatches(),
		patch{"nothing", func([]byte) {}, nil, ""},
		patch{"kind 0", set(extKindOffset, 0), ErrCorrupt, "kind 0"},
		patch{"kind 3", set(extKindOffset, 3), ErrCorrupt, "kind 3"},
		patch{"codec", set(extCodecOffset, 3), ErrUnsupported, "codec 3"},
		patch{"page 0", set(extPageOffset, 0, 0, 0, 0), ErrCorrupt, "page 0"},
		patch{"full with a target", set(extTargetOffset, 1), ErrCorrupt, "target"},
		patch{"alias with a payload", set(extKindOffset, byte(KindAlias)), ErrCorrupt, "payload pages"},
		patch{"short hash", set(extHashLenOffset, 15), ErrCorrupt, ""},
		patch{"long hash", set(extHashLenOffset, 65), ErrCorrupt, "65"},
		patch{"short parent", set(extParentLenOffset, 1), ErrCorrupt, ""},
		patch{"long parent", set(extParentLenOffset, 255), ErrCorrupt, "255"},
		patch{"long key", set(extKeyLenOffset, 1, 2), ErrCorrupt, "513"},
		patch{"no planes", set(extPlanesOffset, 0, 0), ErrCorrupt, ""},
		patch{"most planes", set(extPlanesOffset, 255, 255), ErrCorrupt, "65535 planes"},
		patch{"more planes", set(extPlanesOffset, 4, 0), ErrCorrupt, ""},
		patch{"planes beyond the header", func(p []byte) {
			p[extPlanesOffset] = 20
			copy(p[planes:], bytes.Repeat([]byte{255}, PageBytes))
		}, ErrCorrupt, "beyond the header"},
		patch{"no name", set(planes, 0), ErrCorrupt, ""},
		patch{"long name", set(planes, 255), ErrCorrupt, ""},
		patch{"plane size", set(planes+2, 6), ErrCorrupt, ""},
		patch{"huge plane", set(planes+5, 255), ErrCorrupt, ""},
		patch{"stored size", set(planes+6, 6), ErrCorrupt, "stored"},
		patch{"plane offset", set(planes+10, 1), ErrCorrupt, "offset"},
		patch{"most chunks", set(extChunksOffset, 255, 255, 255, 255), ErrCorrupt, "4294967295 chunks"},
		patch{"fewer chunks", set(extChunksOffset, 3), ErrCorrupt, "chunks"},
		patch{"more chunks", set(extChunksOffset, 5), ErrCorrupt, "chunks"},
		patch{"payload pages", set(extPayloadPagesOffset, 1), ErrCorrupt, "payload pages"},
		patch{"no header pages", set(ownOffset, 0), ErrCorrupt, "0 header pages"},
		patch{"most header pages", set(ownOffset, 255, 255), ErrCorrupt, "65535 header pages"},
		patch{"padding in the fixed part", set(extReservedOffset, 1), ErrCorrupt, "reserved"},
		patch{"padding before the chunks", set(chunks-1, 1), ErrCorrupt, "reserved"},
		patch{"padding behind the chunks", set(end, 1), ErrCorrupt, "reserved"},
		patch{"padding at the end", set(PageBytes-1, 1), ErrCorrupt, "reserved"},
		patch{"padding of a compatible feature", func(p []byte) { p[featureOffset+8], p[end] = 1, 1 }, nil, ""},
	))
	q, _ := encodeExtent(t, testCompressed())
	chunks = chunkTableOffset(testCompressed())
	checkPatches(t, q, reseal, decodeExtentErr, []patch{
		{"stored length 0", set(chunks+16, 0, 0), ErrCorrupt, "0 stored bytes"},
		{"stored length", set(chunks+24+16, 1, 0, 1), ErrCorrupt, "65537 stored bytes"},
		{"stored lengths against the plane", set(chunks+16, 1), ErrCorrupt, "its chunks have"},
		{"padding of a chunk", set(chunks+20, 1), ErrCorrupt, "reserved"},
		{"no codec", set(extCodecOffset, CodecRaw), ErrCorrupt, ""},
	})
}

// More header pages than the fields take: the sum must then be over them too.
func TestDecodeExtentExtraPage(t *testing.T) {
	p, _ := encodeExtent(t, testExtent())
	p = append(p, make([]byte, PageBytes)...)
	p[ownOffset] = 2
	extentHeader.seal(p, testKey)
	if err := decodeExtentErr(p); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "header pages") {
		t.Errorf("error %v", err)
	}
}

func TestEncodeExtentInvalid(t *testing.T) {
	for name, change := range map[string]func(*Extent){
		"kind":               func(e *Extent) { e.Kind = 0 },
		"codec":              func(e *Extent) { e.Codec = 9 },
		"page 0":             func(e *Extent) { e.Address.Page = 0 },
		"no hash":            func(e *Extent) { e.Hash = nil },
		"long hash":          func(e *Extent) { e.Hash = seq(0, 65) },
		"short parent":       func(e *Extent) { e.Parent = seq(0, 15) },
		"long key":           func(e *Extent) { e.PlainKey = seq(0, 513) },
		"target":             func(e *Extent) { e.Target.Page = 1 },
		"no planes":          func(e *Extent) { e.Planes = nil; e.Layout() },
		"empty block":        func(e *Extent) { e.Planes = []Plane{{Name: "k"}}; e.Layout() },
		"257 planes":         func(e *Extent) { e.Planes = append(e.Planes, make([]Plane, 254)...); e.Layout() },
		"plane without name": func(e *Extent) { e.Planes[0].Name = ""; e.Layout() },
		"long plane name":    func(e *Extent) { e.Planes[0].Name = strings.Repeat("x", 65); e.Layout() },
		"negative plane":     func(e *Extent) { e.Planes[0].RawBytes = -1; e.Layout() },
		"huge plane":         func(e *Extent) { e.Planes[0].RawBytes = 1 << 62; e.Layout() },
		"large block":        func(e *Extent) { e.Planes[0].RawBytes = MaxBlockBytes; e.Layout() },
		"no layout":          func(e *Extent) { e.Planes[0].RawBytes += PageBytes },
		"stored sum":         func(e *Extent) { e.Chunks[0].StoredSum = 1 },
		"features":           func(e *Extent) { e.Features.Compat = 1 },
	} {
		e := testExtent()
		change(e)
		p := make([]byte, int(e.HeaderPages)*PageBytes)
		if _, err := EncodeExtent(p, e, testKey); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if _, err := EncodeExtent(make([]byte, 2*PageBytes), testExtent(), testKey); !errors.Is(err, ErrInvalid) {
		t.Errorf("wrong room: error %v", err)
	}
}

func TestDecodeExtentAllocations(t *testing.T) {
	p, sum := encodeExtent(t, testExtent())
	e := testExtent()
	n := testing.AllocsPerRun(100, func() {
		if _, err := DecodeExtentExpect(p, testKey, sum, e.Address, testUUID); err != nil {
			t.Fatal(err)
		}
	})
	if n > 5 { // the extent, its keys, names, planes and chunks
		t.Errorf("decoding allocates %v times, want at most 5", n)
	}
}

func BenchmarkDecodeExtentExpect(b *testing.B) {
	p, sum := encodeExtent(b, testExtent())
	e := testExtent()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeExtentExpect(p, testKey, sum, e.Address, testUUID); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeExtent(b *testing.B) {
	e := testExtent()
	p := make([]byte, PageBytes)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := EncodeExtent(p, e, testKey); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzDecodeExtent(f *testing.F) {
	for _, make := range testExtents {
		p, _ := encodeExtent(f, make())
		f.Add(fuzzSeed(p))
	}
	f.Fuzz(func(t *testing.T, seed []byte) {
		DecodeExtent(seed, testKey)
		p := fuzzBytes(seed, PageBytes)
		n, err := PeekExtent(p)
		if err != nil || len(p) < n*PageBytes {
			return
		}
		p = p[:n*PageBytes]
		sum := extentHeader.seal(p, testKey)
		e, _, err := DecodeExtent(p, testKey)
		if err != nil || e.Features.extended() {
			return
		}
		again := make([]byte, len(p))
		if s, err := EncodeExtent(again, e, testKey); err != nil || s != sum || string(again) != string(p) {
			t.Fatalf("decoded %+v, encoded otherwise (%v)", e, err)
		}
	})
}
