package disk

import (
	"encoding/binary"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

func testSegmentHeader() SegmentHeader {
	return SegmentHeader{UUID: testUUID, Segment: 0x1234, SizeBytes: 64 << 20, Class: ClassMoved}
}

func encodedSegmentHeader(t testing.TB) []byte {
	p := make([]byte, PageBytes)
	if err := EncodeSegmentHeader(p, testSegmentHeader(), testKey); err != nil {
		t.Fatal(err)
	}
	return p
}

func decodeSegmentErr(p []byte) error {
	_, err := DecodeSegmentHeader(p, testKey)
	return err
}

func TestSegmentHeaderGolden(t *testing.T) {
	checkGolden(t, "segment_header", encodedSegmentHeader(t))
	h, err := DecodeSegmentHeader(readGolden(t, "segment_header"), testKey)
	if err != nil || h != testSegmentHeader() {
		t.Errorf("decoded %+v, %v", h, err)
	}
}

func TestSegmentHeaderRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := SegmentHeader{
			UUID:      [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "uuid")),
			Segment:   rapid.Uint64().Draw(t, "segment"),
			SizeBytes: rapid.Int64Range(2, MaxSegmentBytes/PageBytes).Draw(t, "pages") * PageBytes,
			Class:     rapid.SampledFrom([]uint8{ClassFresh, ClassMoved}).Draw(t, "class"),
		}
		p := rapid.SliceOfN(rapid.Byte(), PageBytes, PageBytes).Draw(t, "old bytes")
		if err := EncodeSegmentHeader(p, h, testKey); err != nil {
			t.Fatal(err)
		}
		got, err := DecodeSegmentHeader(p, testKey)
		if err != nil || got != h {
			t.Fatalf("decoded %+v, %v, want %+v", got, err, h)
		}
	})
}

func TestSegmentHeaderFlips(t *testing.T) {
	p := encodedSegmentHeader(t)
	checkFlips(t, p, decodeSegmentErr)
	checkCuts(t, p, 64, decodeSegmentErr)
	if _, err := DecodeSegmentHeader(p, otherKey); !errors.Is(err, ErrCorrupt) {
		t.Errorf("another store's key: %v", err)
	}
}

func TestSegmentHeaderPatches(t *testing.T) {
	reseal := func(p []byte) { segmentHeader.seal(p, testKey) }
	checkPatches(t, encodedSegmentHeader(t), reseal, decodeSegmentErr, append(preamblePatches(),
		patch{"class", set(segClassOffset, 2), ErrCorrupt, "class 2"},
		patch{"size 0", set(segSizeOffset, 0, 0, 0, 0, 0, 0, 0, 0), ErrCorrupt, "size"},
		patch{"size negative", set(segSizeOffset+7, 0x80), ErrCorrupt, "size"},
		patch{"size uneven", set(segSizeOffset, 1), ErrCorrupt, "size"},
		patch{"padding in the preamble", set(ownOffset, 1), ErrCorrupt, "reserved"},
		patch{"padding", set(PageBytes-1, 1), ErrCorrupt, "reserved"},
		patch{"padding of a compatible feature", func(p []byte) { p[featureOffset+8], p[100] = 1, 1 }, nil, ""},
	))
}

func TestSegmentHeaderFeatures(t *testing.T) {
	p := encodedSegmentHeader(t)
	binary.LittleEndian.PutUint32(p[featureOffset+4:], 1<<31)
	binary.LittleEndian.PutUint32(p[featureOffset+8:], 1<<30)
	segmentHeader.seal(p, testKey)
	h, err := DecodeSegmentHeader(p, testKey)
	if err != nil || h.Features != (Features{ROCompat: 1 << 31, Compat: 1 << 30}) {
		t.Fatalf("decoded %+v, %v", h, err)
	}
	if h.Features.MayWrite() || !(Features{Compat: 1}).MayWrite() || (Features{Incompat: 1}).MayWrite() {
		t.Error("MayWrite is wrong")
	}
	if err := EncodeSegmentHeader(p, h, testKey); !errors.Is(err, ErrInvalid) {
		t.Errorf("unknown features are written again: %v", err)
	}
}

func TestEncodeSegmentHeaderInvalid(t *testing.T) {
	for name, change := range map[string]func(*SegmentHeader){
		"no size":     func(h *SegmentHeader) { h.SizeBytes = 0 },
		"uneven size": func(h *SegmentHeader) { h.SizeBytes++ },
		"too large":   func(h *SegmentHeader) { h.SizeBytes = MaxSegmentBytes + PageBytes },
		"class":       func(h *SegmentHeader) { h.Class = 2 },
	} {
		h := testSegmentHeader()
		change(&h)
		if err := EncodeSegmentHeader(make([]byte, PageBytes), h, testKey); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := EncodeSegmentHeader(make([]byte, 512), testSegmentHeader(), testKey); !errors.Is(err, ErrInvalid) {
		t.Errorf("short room: %v", err)
	}
}

func FuzzDecodeSegmentHeader(f *testing.F) {
	f.Add(fuzzSeed(encodedSegmentHeader(f)))
	f.Fuzz(func(t *testing.T, seed []byte) {
		DecodeSegmentHeader(seed, testKey)
		p := fuzzBytes(seed, PageBytes)
		if len(p) != PageBytes {
			return
		}
		segmentHeader.seal(p, testKey)
		h, err := DecodeSegmentHeader(p, testKey)
		if err != nil || h.Features.extended() {
			return
		}
		again := make([]byte, PageBytes)
		if err := EncodeSegmentHeader(again, h, testKey); err != nil || string(again) != string(p) {
			t.Fatalf("decoded %+v, encoded otherwise (%v)", h, err)
		}
	})
}
