package engine

import (
	"strings"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
)

// overwrite puts bytes into a file of a closed store.
func overwrite(t testing.TB, fs vfs.FS, name string, off int64, p []byte) {
	t.Helper()
	f, err := fs.Open(name, vfs.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(p, off); err != nil {
		t.Fatal(err)
	}
}

// diagnosisStore has blocks 20 and 21 beside those of verifyStore, each of a
// chunk of 20,000 bytes and, from page 5 of the payload on, one of 40,000.
func diagnosisStore(t testing.TB) *vfs.Mem {
	fs := verifyStore(t)
	s := mustOpen(t, testOptions(fs))
	n := mustSpace(t, s)
	mustPut(t, n, blockOf(20, 0, 60_000))
	mustPut(t, n, blockOf(21, 0, 60_000))
	mustFlush(t, s)
	mustClose(t, s)
	return fs
}

// TestVerifyDiagnosis damages one block in each way that can be told apart.
func TestVerifyDiagnosis(t *testing.T) {
	sound := diagnosisStore(t)
	l3, l4, l20, l21 := mustLocate(t, sound, 3), mustLocate(t, sound, 4), mustLocate(t, sound, 20), mustLocate(t, sound, 21)
	l7, l8 := mustLocate(t, sound, 7), mustLocate(t, sound, 8) // in one segment
	payload := func(l *Location, off int64, n int64) []byte {
		return []byte(readRange(t, sound, l.File, l.PayloadOffset+off, n))
	}
	for name, c := range map[string]struct {
		file string
		off  int64
		p    []byte
		want Diagnosis
		text string
	}{
		"zeros": {l20.File, l20.PayloadOffset, make([]byte, 20_000),
			Diagnosis{Kind: DiagnosisZeros, Offset: l20.PayloadOffset, From: l20.PayloadOffset, To: l20.PayloadOffset + 20_000}, "is all zeros"},
		"header": {l4.File, l4.HeaderOffset, make([]byte, 4096),
			Diagnosis{Kind: DiagnosisZeros, Chunk: -1, Offset: l4.HeaderOffset, From: l4.HeaderOffset, To: l4.HeaderOffset + 4096}, "the header is all zeros"},
		"header torn": {l4.File, l4.HeaderOffset + 100, make([]byte, 4096-100),
			Diagnosis{Kind: DiagnosisTorn, Chunk: -1, Offset: l4.HeaderOffset, To: l4.HeaderOffset + 4096}, "cut short"},
		"header misplaced": {l4.File, l4.HeaderOffset, []byte(readRange(t, sound, l3.File, l3.HeaderOffset, 4096)),
			Diagnosis{Kind: DiagnosisMisplaced, Chunk: -1, Offset: l4.HeaderOffset, Hash: l3.Hash, Segment: l3.Segment, Page: l3.Page}, "holds bytes of block"},
		"header in a chunk": {l20.File, l20.PayloadOffset + 4096, []byte(readRange(t, sound, l8.AliasFile, l8.AliasOffset, 4096)),
			Diagnosis{Kind: DiagnosisMisplaced, Offset: l20.PayloadOffset, Hash: l8.Hash, Segment: l7.Segment, Page: uint32(l8.AliasOffset / 4096)}, "holds bytes of block"},
		"chunk misplaced": {l20.File, l20.PayloadOffset, payload(l21, 0, 20_000),
			Diagnosis{Kind: DiagnosisMisplaced, Offset: l20.PayloadOffset, Hash: l21.Hash, Segment: l21.Segment, Page: l21.Page}, "holds the bytes of chunk 0 of block"},
		"garbage": {l20.File, l20.PayloadOffset + 700, []byte("something else altogether"),
			Diagnosis{Kind: DiagnosisUnknown, Offset: l20.PayloadOffset}, "no known pattern"},
		"sectors": {l20.File, l20.PayloadOffset + 1000, make([]byte, 2000),
			Diagnosis{Kind: DiagnosisZeroSectors, Offset: l20.PayloadOffset, From: l20.PayloadOffset + 1024, To: l20.PayloadOffset + 2560}, "has sectors of zeros"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fs := sound.CrashClone(vfs.CrashOptions{KeepAll: true})
			overwrite(t, fs, c.file, c.off, c.p)
			r := mustVerify(t, fs)
			if r.Damaged != 1 || len(r.Damage[0].Diagnoses) == 0 {
				t.Fatalf("%v", r.Damage)
			}
			g := r.Damage[0].Diagnoses[0]
			w := c.want
			if g.Kind != w.Kind || g.Chunk != w.Chunk || g.Offset != w.Offset || g.Hash != w.Hash || g.Segment != w.Segment || g.Page != w.Page ||
				w.From != 0 && g.From != w.From || w.To != 0 && g.To != w.To || !strings.Contains(g.String(), c.text) {
				t.Errorf("got %+v: %v\nwant %+v", g, g, w)
			}
		})
	}
}

// TestVerifyDiagnosisFlip: one flipped bit is found in a chunk and in a header.
func TestVerifyDiagnosisFlip(t *testing.T) {
	sound := verifyStore(t)
	l4, l8 := mustLocate(t, sound, 4), mustLocate(t, sound, 8)
	for name, c := range map[string]struct {
		file string
		off  int64
	}{
		"chunk":  {l4.File, l4.PayloadOffset + 30000},
		"header": {l4.File, l4.HeaderOffset + 200},
		"alias":  {l8.AliasFile, l8.AliasOffset + 90},
	} {
		t.Run(name, func(t *testing.T) {
			fs := sound.CrashClone(vfs.CrashOptions{KeepAll: true})
			flipAt(t, fs, c.file, c.off) // bit 6
			r := mustVerify(t, fs)
			if r.Damaged != 1 || len(r.Damage[0].Diagnoses) != 1 {
				t.Fatalf("%v", r.Damage)
			}
			if g := r.Damage[0].Diagnoses[0]; g.Kind != DiagnosisFlippedBit || g.Bit != 8*c.off+6 || !strings.Contains(g.String(), "one flipped bit: bit 6 of the byte at offset") {
				t.Errorf("%+v: %v", g, g)
			}
		})
	}
}

// TestVerifyDiagnosisTorn: a write that was cut short leaves zeros behind.
func TestVerifyDiagnosisTorn(t *testing.T) {
	fs := diagnosisStore(t)
	l := mustLocate(t, fs, 20)
	from := l.PayloadOffset + 8192
	overwrite(t, fs, l.File, from, make([]byte, l.PayloadBytes-8192))
	r := mustVerify(t, fs)
	if r.Damaged != 1 || len(r.Damage[0].Diagnoses) < 2 {
		t.Fatalf("%v", r.Damage)
	}
	g := r.Damage[0].Diagnoses
	if g[0].Kind != DiagnosisTorn || g[0].From != from || g[len(g)-1].Kind != DiagnosisZeros {
		t.Errorf("%v", g)
	}
}

// TestVerifyDiagnosisStale: a header that was in this place once, and bytes of
// a segment that is gone.
func TestVerifyDiagnosisStale(t *testing.T) {
	fs := verifyStore(t)
	l, gone := mustLocate(t, fs, 4), mustLocate(t, fs, 7)
	header := readRange(t, fs, gone.File, gone.HeaderOffset, gone.HeaderBytes)
	if err := fs.Remove(gone.File); err != nil {
		t.Fatal(err)
	}
	overwrite(t, fs, l.File, l.HeaderOffset, []byte(header))
	r := mustVerify(t, fs)
	for _, d := range r.Damage {
		if d.Hash != l.Hash {
			continue
		}
		if len(d.Diagnoses) != 1 || d.Diagnoses[0].Kind != DiagnosisStale || d.Diagnoses[0].Hash != gone.Hash || d.Diagnoses[0].Segment != gone.Segment {
			t.Errorf("%v", d.Diagnoses)
		}
		return
	}
	t.Errorf("nothing about the block: %v", r.Damage)
}

// TestVerifyDiagnosisBounds: where much is damaged, what is spent is bounded,
// and what was not tried is said.
func TestVerifyDiagnosisBounds(t *testing.T) {
	v := &verifier{}
	for range maxFlipSearches {
		if !v.more(&v.flips, maxFlipSearches) {
			t.Fatal("too few")
		}
	}
	if v.more(&v.flips, maxFlipSearches) {
		t.Error("too many")
	}
	d := Diagnosis{Kind: DiagnosisUnknown, NotTried: "a flipped bit"}
	if !strings.Contains(d.String(), "not tried: a flipped bit") {
		t.Error(d)
	}
}

func TestZeroSectors(t *testing.T) {
	const n = 10 * sectorBytes
	for name, c := range map[string]struct {
		offset   int64
		from, to int // zeroed
		kind     DiagnosisKind
		zf, zt   int64 // reported, in the chunk
	}{
		"none":             {0, 0, 0, DiagnosisUnknown, 0, 0},
		"less than one":    {0, 100, 600, DiagnosisUnknown, 0, 0},
		"one":              {0, 512, 1024, DiagnosisZeroSectors, 512, 1024},
		"from the middle":  {0, 600, 2100, DiagnosisZeroSectors, 1024, 2048},
		"to the end":       {0, 1500, n, DiagnosisTorn, 1536, n},
		"from the start":   {0, 0, 1024, DiagnosisZeroSectors, 0, 1024},
		"off the sectors":  {100, 0, 1024, DiagnosisZeroSectors, 412, 924},
		"only at its edge": {100, 0, 400, DiagnosisUnknown, 0, 0},
	} {
		p := make([]byte, n)
		for i := range p {
			if i < c.from || i >= c.to {
				p[i] = 1
			}
		}
		d := &Diagnosis{Kind: DiagnosisUnknown, Offset: c.offset}
		zeroSectors(d, p)
		if d.Kind != c.kind || d.Kind != DiagnosisUnknown && (d.From != c.offset+c.zf || d.To != c.offset+c.zt) {
			t.Errorf("%s: %+v", name, d)
		}
	}
}
