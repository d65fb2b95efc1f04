package disk

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const tombSegment = 0x77

func testTombstones() []Tombstone {
	return []Tombstone{
		{Kind: TombstoneDrop, Namespace: 5, Seq: 99, Page: 17, Hash: seq(0x20, 32)},
		{Kind: TombstoneQuarantine, Namespace: 5, Seq: 100, Page: 34, Hash: seq(0x20, 64)},
		{Kind: TombstoneDead, Page: 51},
	}
}

// encodedTombstones is a file of several appends.
func encodedTombstones(t testing.TB, appends ...[]Tombstone) []byte {
	t.Helper()
	p := make([]byte, TombstoneHeaderBytes)
	if err := EncodeTombstoneHeader(p, tombSegment, testUUID, testKey); err != nil {
		t.Fatal(err)
	}
	for _, ts := range appends {
		batch := len(p) / TombstoneSlotBytes
		for i, x := range ts {
			dst := make([]byte, TombstoneSlotBytes)
			if err := EncodeTombstone(dst, x, tombSegment, batch+i, batch, testKey); err != nil {
				t.Fatal(err)
			}
			p = append(p, dst...)
		}
	}
	return p
}

// twoAppends holds testTombstones: the first two, and then the third.
func twoAppends(t testing.TB) []byte {
	ts := testTombstones()
	return encodedTombstones(t, ts[:2], ts[2:])
}

func decodeTombstones(p []byte) ([]Tombstone, int, error) {
	return DecodeTombstones(p, tombSegment, testUUID, testKey)
}

func decodeTombstonesErr(p []byte) error {
	_, _, err := decodeTombstones(p)
	return err
}

func TestTombstonesGolden(t *testing.T) {
	checkGolden(t, "tombstones", twoAppends(t))
	got, next, err := decodeTombstones(readGolden(t, "tombstones"))
	if err != nil || next != FirstTombstoneSlot+3 {
		t.Fatalf("next slot %d, %v", next, err)
	}
	if diff := cmp.Diff(testTombstones(), got); diff != "" {
		t.Errorf("decoded otherwise (-want +got):\n%s", diff)
	}
}

// A slot lies within one sector, whatever its number.
func TestTombstoneSlotsStayInASector(t *testing.T) {
	for slot := range 100 {
		first, last := TombstoneOffset(slot), TombstoneOffset(slot+1)-1
		if first/512 != last/512 {
			t.Errorf("slot %d covers bytes %d to %d", slot, first, last)
		}
	}
}

func genTombstone(t *rapid.T) Tombstone {
	ts := Tombstone{
		Kind:      rapid.SampledFrom([]TombstoneKind{TombstoneDrop, TombstoneQuarantine, TombstoneDead}).Draw(t, "kind"),
		Namespace: rapid.Uint32().Draw(t, "namespace"),
		Seq:       rapid.Uint64().Draw(t, "seq"),
		Page:      rapid.Uint32Min(1).Draw(t, "page"),
	}
	if ts.Kind == TombstoneDrop || rapid.Bool().Draw(t, "has hash") {
		ts.Hash = rapid.SliceOfN(rapid.Byte(), MinHashBytes, MaxHashBytes).Draw(t, "hash")
	}
	if ts.Kind == TombstoneDrop && rapid.Bool().Draw(t, "no page") {
		ts.Page = 0
	}
	return ts
}

// Whatever the file's end: a slot cut short and zeros behind the last one
// change nothing.
func TestTombstonesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Custom(genTombstone), 0, 20).Draw(t, "tombstones")
		p := make([]byte, TombstoneHeaderBytes)
		if err := EncodeTombstoneHeader(p, tombSegment, testUUID, testKey); err != nil {
			t.Fatal(err)
		}
		batch := 0
		for i, ts := range want {
			slot := seq(1, TombstoneSlotBytes)
			if i == 0 || rapid.Bool().Draw(t, "another append") {
				batch = FirstTombstoneSlot + i
			}
			if err := EncodeTombstone(slot, ts, tombSegment, FirstTombstoneSlot+i, batch, testKey); err != nil {
				t.Fatal(err)
			}
			p = append(p, slot...)
		}
		if rapid.Bool().Draw(t, "zeros behind") {
			p = append(p, make([]byte, rapid.IntRange(0, 1000).Draw(t, "zeros"))...)
		} else {
			p = append(p, seq(1, rapid.IntRange(0, TombstoneSlotBytes-1).Draw(t, "part of a slot"))...)
		}
		got, next, err := decodeTombstones(p)
		if err != nil || next != FirstTombstoneSlot+len(want) {
			t.Fatalf("next slot %d, %v", next, err)
		}
		clear(p) // the tombstones must not be in there
		if diff := cmp.Diff(append([]Tombstone(nil), want...), got); diff != "" {
			t.Fatalf("decoded otherwise (-want +got):\n%s", diff)
		}
	})
}

// A damaged slot is reported and costs that tombstone alone.
func TestTombstonesFlips(t *testing.T) {
	p := twoAppends(t)
	checkFlips(t, p, decodeTombstonesErr)
	for i := range p {
		q := bytes.Clone(p)
		q[i] ^= 0x40
		got, next, _ := decodeTombstones(q)
		want := testTombstones()
		if slot := i/TombstoneSlotBytes - FirstTombstoneSlot; slot >= 0 {
			want = append(want[:slot:slot], want[slot+1:]...)
		}
		if diff := cmp.Diff(want, got); diff != "" || next != FirstTombstoneSlot+3 {
			t.Errorf("byte %d: next slot %d, (-want +got):\n%s", i, next, diff)
		}
	}
}

func TestTombstonesDamage(t *testing.T) {
	all := testTombstones()
	slot := func(i int) int { return int(TombstoneOffset(FirstTombstoneSlot + i)) }
	for _, tc := range []struct {
		name   string
		change func(p []byte) []byte
		want   []Tombstone
		next   int
		reason string
		offset int
	}{
		{"empty file", func(p []byte) []byte { return nil }, nil, 4, ReasonShort, 0},
		{"part of a header", func(p []byte) []byte { return p[:511] }, nil, 4, ReasonShort, 0},
		{"zero header", func(p []byte) []byte { clear(p[:512]); return p }, all, 7, ReasonMagic, 0},
		{"zero slot in an earlier append", func(p []byte) []byte { clear(p[slot(1):slot(2)]); return p },
			[]Tombstone{all[0], all[2]}, 7, ReasonField, slot(1)},
		{"an earlier append is zero", func(p []byte) []byte { clear(p[slot(0):slot(2)]); return p },
			[]Tombstone{all[2]}, 7, ReasonField, slot(0)},
		{"zero slot before a damaged one", func(p []byte) []byte { clear(p[slot(1):slot(2)]); p[slot(2)+1] ^= 1; return p },
			all[:1], 7, ReasonField, slot(1)},
		{"slots swapped", func(p []byte) []byte {
			a := bytes.Clone(p[slot(0):slot(1)])
			copy(p[slot(0):], p[slot(1):slot(2)])
			copy(p[slot(1):], a)
			return p
		}, []Tombstone{all[2]}, 7, ReasonSum, slot(0)},
		{"garbage behind", func(p []byte) []byte { return append(p, seq(1, TombstoneSlotBytes)...) },
			all, 8, ReasonSum, slot(3)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, next, err := decodeTombstones(tc.change(twoAppends(t)))
			var c *CorruptError
			if !errors.As(err, &c) || c.Reason != tc.reason || c.Offset != int64(tc.offset) || c.Segment != tombSegment {
				t.Errorf("error %v, want %q at %d", err, tc.reason, tc.offset)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || next != tc.next {
				t.Errorf("next slot %d, want %d (-want +got):\n%s", next, tc.next, diff)
			}
		})
	}
}

// Tombstones of another segment, store or key are none of ours.
func TestTombstonesPlace(t *testing.T) {
	p := encodedTombstones(t, testTombstones())
	ts, _, err := DecodeTombstones(p, tombSegment+1, testUUID, testKey)
	if !errors.Is(err, ErrCorrupt) || len(ts) != 0 {
		t.Errorf("another segment: %v, %v", ts, err)
	}
	ts, _, err = DecodeTombstones(p, tombSegment, testUUID, otherKey)
	if !errors.Is(err, ErrCorrupt) || len(ts) != 0 {
		t.Errorf("another key: %v, %v", ts, err)
	}
	if _, _, err = DecodeTombstones(p, tombSegment, [16]byte{}, testKey); !errors.Is(err, ErrCorrupt) {
		t.Errorf("another store: %v", err)
	}
}

func TestTombstoneHeaderPatches(t *testing.T) {
	reseal := func(p []byte) { tombstoneFile.seal(p[:TombstoneHeaderBytes], testKey) }
	checkPatches(t, encodedTombstones(t, testTombstones()), reseal, decodeTombstonesErr, append(preamblePatches(),
		patch{"padding in the preamble", set(ownOffset, 1), ErrCorrupt, "reserved"},
		patch{"padding", set(511, 1), ErrCorrupt, "reserved"},
		patch{"padding of a compatible feature", func(p []byte) { p[featureOffset+8], p[511] = 1, 1 }, nil, ""},
	))
}

func TestTombstonePatches(t *testing.T) {
	const slot = FirstTombstoneSlot
	at := int(TombstoneOffset(slot))
	reseal := func(p []byte) { resealTombstone(p[at:at+TombstoneSlotBytes], slot) }
	checkPatches(t, encodedTombstones(t, testTombstones()), reseal, decodeTombstonesErr, []patch{
		{"nothing", func([]byte) {}, nil, ""},
		{"kind 0", set(at, 0), ErrUnsupported, "kind 0"},
		{"kind 4", set(at, 4), ErrUnsupported, "kind 4"},
		{"drop without hash", set(at+1, 0), ErrCorrupt, ""},
		{"short hash", set(at+1, 15), ErrCorrupt, ""},
		{"long hash", set(at+1, 65), ErrCorrupt, "65 bytes"},
		{"padding behind the hash", set(at+tombHashOffset+32, 1), ErrCorrupt, "reserved"},
		{"padding at 2", set(at+3, 1), ErrCorrupt, "reserved"},
		{"batch 0", set(at+tombBatchOffset, 0), ErrCorrupt, "batch from 0"},
		{"batch behind its slot", set(at+tombBatchOffset, slot+1), ErrCorrupt, "batch from 5"},
		{"batch far behind its slot", set(at+tombBatchOffset+3, 0xff), ErrCorrupt, "batch from 4278190084"},
		{"padding at the end", set(at+127, 1), ErrCorrupt, "reserved"},
		{"address without page", func(p []byte) { p[at], p[at+16] = byte(TombstoneDead), 0 }, ErrCorrupt, "no page"},
	})
}

// resealTombstone computes the sum of a slot anew.
func resealTombstone(p []byte, slot int) {
	sum := tombstoneSum(p, tombSegment, slot, testKey)
	for i := range 8 {
		p[sumOffset+i] = byte(sum >> (8 * i))
	}
}

func TestEncodeTombstoneInvalid(t *testing.T) {
	for name, ts := range map[string]Tombstone{
		"kind 0":       {Page: 1},
		"kind 4":       {Kind: 4, Page: 1},
		"drop no hash": {Kind: TombstoneDrop, Page: 1},
		"short hash":   {Kind: TombstoneDead, Page: 1, Hash: seq(0, 15)},
		"long hash":    {Kind: TombstoneDrop, Hash: seq(0, 65)},
		"no page":      {Kind: TombstoneQuarantine, Hash: seq(0, 16)},
	} {
		if err := EncodeTombstone(make([]byte, TombstoneSlotBytes), ts, 1, FirstTombstoneSlot, FirstTombstoneSlot, testKey); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	good := testTombstones()[0]
	for _, place := range [][2]int{{3, 3}, {4, 3}, {4, 5}, {math.MaxUint32 + 1, 4}} {
		err := EncodeTombstone(make([]byte, TombstoneSlotBytes), good, 1, place[0], place[1], testKey)
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("slot %d of a batch from %d: error %v", place[0], place[1], err)
		}
	}
	if err := EncodeTombstone(make([]byte, 64), good, 1, FirstTombstoneSlot, FirstTombstoneSlot, testKey); !errors.Is(err, ErrInvalid) {
		t.Errorf("short room: error %v", err)
	}
	if err := EncodeTombstoneHeader(make([]byte, 128), 1, testUUID, testKey); !errors.Is(err, ErrInvalid) {
		t.Errorf("short room for the header: error %v", err)
	}
}
