package disk

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const sectorBytes = 512

// A torn append may leave any of its sectors out. What is there of it counts,
// and so does all that was durable before; nothing is taken for damage.
func TestTornAppendEverySubset(t *testing.T) {
	for before := range 5 {
		for n := 1; n <= 20; n++ {
			durable := deadAt(pagesFrom(1, before)...)
			last := deadAt(pagesFrom(100, n)...)
			whole := encodedTombstones(t, durable, last)
			begin := int(TombstoneOffset(FirstTombstoneSlot + before))
			sectors := (len(whole)-1)/sectorBytes - begin/sectorBytes + 1
			for keep := range 1 << sectors {
				p := bytes.Clone(whole)
				want := append([]Tombstone(nil), durable...)
				for i := range last {
					at := begin + i*TombstoneSlotBytes
					if keep>>(at/sectorBytes-begin/sectorBytes)&1 == 1 {
						want = append(want, last[i])
					} else {
						clear(p[at:][:TombstoneSlotBytes])
					}
				}
				got, next, err := decodeTombstones(p)
				if used := (len(fuzzSeed(p))-1)/TombstoneSlotBytes + 1; err != nil || next != max(used, FirstTombstoneSlot) {
					t.Fatalf("%d, then %d of which sectors %b: next %d of %d, %v", before, n, keep, next, used, err)
				}
				if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
					t.Fatalf("%d, then %d of which sectors %b (-want +got):\n%s", before, n, keep, diff)
				}
			}
		}
	}
}

func pagesFrom(first uint32, n int) []uint32 {
	pages := make([]uint32, n)
	for i := range pages {
		pages[i] = first + uint32(i)
	}
	return pages
}

// Only the last append may have holes, and only from where it began. Files are
// drawn slot by slot: a digit is the number of an append, a dot an empty slot,
// a cross a damaged one.
func TestHoles(t *testing.T) {
	for file, want := range map[string]string{
		"":         "ok",
		"...":      "ok",
		"111":      "ok",
		"1.1":      "ok",
		"11..":     "ok",
		"112..2":   "ok",
		"11.2":     "ok", // of 2 the first slot is missing
		"11....2":  "ok",
		"1.1.1":    "ok",
		"1.12":     "slot 5",
		"1.12.2":   "slot 5",
		"1..2..2":  "ok", // 2 began at slot 5
		"112.23":   "slot 7",
		"1.1x":     "slot 5", // of which append is the last one?
		"1x1.1":    "slot 5",
		"x.1":      "slot 4",
		"1.x1":     "slot 6",
		"112.2x..": "slot 7",
	} {
		p, ts := drawnFile(t, file)
		got, next, err := decodeTombstones(p)
		text := "ok"
		if err != nil {
			text = fmt.Sprintf("slot %d", err.(*CorruptError).Offset/TombstoneSlotBytes)
		}
		if text != want {
			t.Errorf("%q: %s (%v), want %s", file, text, err, want)
		}
		used := len(bytes.TrimRight([]byte(file), "."))
		if diff := cmp.Diff(ts, got, cmpopts.EquateEmpty()); diff != "" || next != FirstTombstoneSlot+used {
			t.Errorf("%q: next %d, (-want +got):\n%s", file, next, diff)
		}
	}
}

// drawnFile makes the file, and returns the sound tombstones in it. An append
// begins behind the last used slot of the one before.
func drawnFile(t *testing.T, file string) (p []byte, ts []Tombstone) {
	t.Helper()
	p = append(encodedTombstones(t), make([]byte, len(file)*TombstoneSlotBytes)...)
	batch, last, end := FirstTombstoneSlot, rune('1'), FirstTombstoneSlot
	for i, c := range file {
		slot := FirstTombstoneSlot + i
		dst := p[TombstoneOffset(slot):TombstoneOffset(slot+1)]
		switch c {
		case '.':
			continue
		case 'x':
			dst[0] = 1
		default:
			if c != last {
				batch, last = end, c
			}
			x := deadAt(uint32(slot))[0]
			if err := EncodeTombstone(dst, x, tombSegment, slot, batch, testKey); err != nil {
				t.Fatal(err)
			}
			ts = append(ts, x)
		}
		end = slot + 1
	}
	return p, ts
}

// Batches that overlap are the work of no writer.
func TestBatchesOverlap(t *testing.T) {
	p := encodedTombstones(t, deadAt(1, 2), deadAt(3))
	dst := p[TombstoneOffset(6):]
	if err := EncodeTombstone(dst, deadAt(3)[0], tombSegment, 6, 5, testKey); err != nil {
		t.Fatal(err)
	}
	ts, next, err := decodeTombstones(p)
	c, ok := err.(*CorruptError)
	if !ok || c.Reason != ReasonField || c.Offset != TombstoneOffset(6)+tombBatchOffset || len(ts) != 3 || next != 7 {
		t.Errorf("%d tombstones, next slot %d, %v", len(ts), next, err)
	}
}

// Every byte flipped is reported where an append was torn, too.
func TestTornAppendFlips(t *testing.T) {
	p, _ := drawnFile(t, "11.22..2")
	for i := range p {
		slot := i / TombstoneSlotBytes
		q := bytes.Clone(p)
		q[i] ^= 1 << (i % 8)
		if err := decodeTombstonesErr(q); err == nil {
			t.Errorf("byte %d, in slot %d: not reported", i, slot)
		}
	}
}

func FuzzDecodeTombstones(f *testing.F) {
	f.Add(encodedTombstones(f))
	f.Add(encodedTombstones(f, testTombstones()))
	f.Add(twoAppends(f))
	torn := encodedTombstones(f, deadAt(1), deadAt(2, 3, 4, 5, 6))
	clear(torn[TombstoneOffset(5):TombstoneOffset(8)])
	f.Add(torn)
	f.Fuzz(func(t *testing.T, seed []byte) {
		decodeTombstones(seed)
		p := fuzzBytes(seed, TombstoneSlotBytes)
		if len(p) < TombstoneHeaderBytes {
			return
		}
		// Make every sum right, so that the fields behind are reached.
		if err := EncodeTombstoneHeader(p[:TombstoneHeaderBytes], tombSegment, testUUID, testKey); err != nil {
			t.Fatal(err)
		}
		used := FirstTombstoneSlot
		for slot := FirstTombstoneSlot; slot*TombstoneSlotBytes < len(p); slot++ {
			if b := p[slot*TombstoneSlotBytes:][:TombstoneSlotBytes]; !allZero(b) {
				resealTombstone(b, slot)
				used = slot + 1
			}
		}
		s := scanTombstones(p, tombSegment, testUUID, testKey)
		if s.next != used {
			t.Fatalf("next slot %d, %d are in use", s.next, used)
		}
		if s.err == nil {
			checkSoundScan(t, p, s)
		}
	})
}

// checkSoundScan encodes again what a file without damage holds.
func checkSoundScan(t *testing.T, p []byte, s tombScan) {
	t.Helper()
	found := 0
	for slot := FirstTombstoneSlot; slot < s.next; slot++ {
		b := p[slot*TombstoneSlotBytes:][:TombstoneSlotBytes]
		if allZero(b) {
			if slot < s.batch {
				t.Fatalf("slot %d is empty, the last append began at %d", slot, s.batch)
			}
			continue
		}
		x, batch, err := getTombstone(b, tombSegment, slot, testKey)
		if err != nil || !cmp.Equal(x, s.found[found]) {
			t.Fatalf("slot %d: %+v, %v, decoded was %+v", slot, x, err, s.found[found])
		}
		again := make([]byte, TombstoneSlotBytes)
		if err := EncodeTombstone(again, x, tombSegment, slot, batch, testKey); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("slot %d: encoded otherwise, %v", slot, err)
		}
		found++
	}
	if found != len(s.found) {
		t.Fatalf("%d tombstones in %d used slots", len(s.found), found)
	}
}
