package engine

import (
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sealstone/sealstone/internal/sums"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

var (
	scrubTestUUID = [16]byte{1, 2, 3}
	scrubTestKey  = sums.NewKey([32]byte{4, 5, 6})
)

func sampleScrub() scrubPosition {
	at := time.Unix(1_700_000_000, 5)
	return scrubPosition{
		written: at.Add(time.Hour), at: disk.Address{Segment: 7, Page: 9}, end: 12,
		cycle: ScrubCycle{Number: 3, Start: at, ScrubTotals: ScrubTotals{1, 2, 3, 4, 5, 6, 7, 8, 9}},
		last: ScrubCycle{Number: 2, Start: at.Add(-time.Hour), End: at,
			ScrubTotals: ScrubTotals{10, 20, 30, 40, 50, 60, 70, 80, 90}},
	}
}

// TestScrubGolden holds the format to docs/format/scrub.md.
func TestScrubGolden(t *testing.T) {
	got := hex.Dump(encodeScrub(sampleScrub(), scrubTestUUID, scrubTestKey))
	golden := filepath.Join("testdata", "scrub.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the format changed (-want +got):\n%s", diff)
	}
}

func drawCycle(t *rapid.T, what string) (c ScrubCycle) {
	c.Number = rapid.Uint64Min(1).Draw(t, what)
	instant := func(name string) time.Time { return fromUnixNanos(rapid.Uint64().Draw(t, name)) }
	c.Start, c.End = instant("start"), instant("end")
	for _, n := range c.scrubWords() {
		*n = rapid.Int64Min(0).Draw(t, "count")
	}
	return c
}

func TestScrubRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pos := scrubPosition{
			written: fromUnixNanos(rapid.Uint64().Draw(t, "written")),
			at:      disk.Address{Segment: rapid.Uint64().Draw(t, "segment"), Page: rapid.Uint32().Draw(t, "page")},
			end:     rapid.Uint64().Draw(t, "end"),
			cycle:   drawCycle(t, "cycle"), last: drawCycle(t, "last"),
		}
		got, err := decodeScrub(encodeScrub(pos, scrubTestUUID, scrubTestKey), scrubTestUUID, scrubTestKey)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(pos, got, cmp.AllowUnexported(scrubPosition{})); diff != "" {
			t.Fatal(diff)
		}
	})
}

// TestScrubRefuses: every bit counts, and what is of another version or store
// is no position.
func TestScrubRefuses(t *testing.T) {
	good := encodeScrub(sampleScrub(), scrubTestUUID, scrubTestKey)
	for i := range good {
		bad := append([]byte(nil), good...)
		bad[i] ^= 1 << (i % 8)
		if _, err := decodeScrub(bad, scrubTestUUID, scrubTestKey); !errors.Is(err, errScrubFile) {
			t.Fatalf("byte %d: %v", i, err)
		}
	}
	for name, edit := range map[string]func(p []byte){
		"version":              func(p []byte) { p[8] = 2 },
		"incompatible feature": func(p []byte) { p[12] = 1 },
		"read-only compatible": func(p []byte) { p[16] = 1 },
		"another store":        func(p []byte) { p[32] = 9 },
		"no cycle":             func(p []byte) { clear(p[scrubCycleAt:][:8]) },
		"a count below 0":      func(p []byte) { p[scrubLastAt+31] = 0x80 },
	} {
		p := append([]byte(nil), good...)
		edit(p)
		reseal(p, scrubTestKey)
		if _, err := decodeScrub(p, scrubTestUUID, scrubTestKey); !errors.Is(err, errScrubFile) {
			t.Errorf("%s: %v", name, err)
		}
	}
	p := append([]byte(nil), good...)
	p[20] = 1 // a compatible feature
	reseal(p, scrubTestKey)
	if _, err := decodeScrub(p, scrubTestUUID, scrubTestKey); err != nil {
		t.Errorf("a compatible feature: %v", err)
	}
}

// reseal gives an edited position a right sum.
func reseal(p []byte, k sums.Key) {
	sum := scrubSum(p, k)
	for i := range 8 {
		p[24+i] = byte(sum >> (8 * i))
	}
}

// FuzzDecodeScrub: no bytes of a file make it panic, and what decodes is
// encoded to the same.
func FuzzDecodeScrub(f *testing.F) {
	good := encodeScrub(sampleScrub(), scrubTestUUID, scrubTestKey)
	f.Add(good)
	f.Add(good[:100])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, p []byte) {
		if len(p) == scrubFileBytes {
			p = append([]byte(nil), p...)
			reseal(p, scrubTestKey) // or nothing would get past the sum
		}
		pos, err := decodeScrub(p, scrubTestUUID, scrubTestKey)
		if err != nil {
			return
		}
		got, err := decodeScrub(encodeScrub(pos, scrubTestUUID, scrubTestKey), scrubTestUUID, scrubTestKey)
		if diff := cmp.Diff(pos, got, cmp.AllowUnexported(scrubPosition{})); err != nil || diff != "" {
			t.Fatal(err, diff)
		}
	})
}

// TestFaultScrubFile: whatever stands in SCRUB, a cycle begins anew and the
// store opens.
func TestFaultScrubFile(t *testing.T) {
	c := newScrubClock()
	mem := vfs.NewMem()
	s, _ := scrubbedStore(t, mem, c, nil)
	runScrub(t, s, c, func() bool { return s.scrubStats().Cycle.Blocks > 3 })
	mustClose(t, s)
	whole := readWhole(t, mem, scrubFile)
	for name, damage := range map[string]func(p []byte) []byte{
		"empty":   func([]byte) []byte { return nil },
		"short":   func(p []byte) []byte { return p[:len(p)-1] },
		"long":    func(p []byte) []byte { return append(p, 0) },
		"zeros":   func(p []byte) []byte { return make([]byte, len(p)) },
		"flipped": func(p []byte) []byte { p[60] ^= 4; return p },
	} {
		fs := mem.CrashClone(vfs.CrashOptions{KeepAll: true})
		writeWhole(t, fs, scrubFile, damage(append([]byte(nil), whole...)))
		s := mustOpen(t, scrubOptionsFor(fs, c))
		if got := runCycle(t, s, c); got.Number != 1 || got.Blocks != scrubbedBlocks {
			t.Errorf("%s: %+v", name, got)
		}
		if !hasLine(scrubLines(s), "SCRUB is passed over") {
			t.Errorf("%s: nothing is said", name)
		}
		mustClose(t, s)
	}
}
