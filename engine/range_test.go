package engine

import (
	"bytes"
	"context"
	"math"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
	"pgregory.net/rapid"
)

// bigOptions allows blocks of several chunks.
func bigOptions() Options {
	o := testOptions(vfs.NewMem())
	o.MaxBlockBytes, o.SegmentBytes, o.CapacityBytes, o.MaxInflightBytes = 1*mib, 2*mib, 32*mib, 32*mib
	return o
}

// split cuts p into spans at drawn places, empty ones among them.
func split(t *rapid.T, label string, p []byte) (spans [][]byte) {
	for range rapid.IntRange(0, 5).Draw(t, label+" cuts") {
		n := rapid.IntRange(0, len(p)).Draw(t, label+" span")
		spans, p = append(spans, p[:n:n]), p[n:]
	}
	return append(spans, p)
}

// drawSize prefers sizes beside the borders of chunks and pages.
func drawSize(t *rapid.T, label string) int {
	near := rapid.SampledFrom([]int{1, 4096, ChunkBytes, 2 * ChunkBytes, 3 * ChunkBytes}).Draw(t, label+" near")
	return max(1, near+rapid.IntRange(-3, 3).Draw(t, label+" off"))
}

// TestRanges compares random parts of random blocks, spans split anywhere,
// with the plain bytes; guard bytes around the spans must stay.
func TestRanges(t *testing.T) {
	s := mustOpen(t, bigOptions())
	defer mustClose(t, s)
	n := mustSpace(t, s)
	next := 0
	rapid.Check(t, func(t *rapid.T) {
		id := next
		next++
		planes := map[string][]byte{}
		var put []PlaneData
		for i, name := range []string{"k", "v"} {
			planes[name] = contentOf(id, i, drawSize(t, name+" size"))
			put = append(put, PlaneData{Name: name, Spans: split(t, "put "+name, planes[name])})
		}
		if r := putOne(n, PutBlock{Hash: hashOf(id), Planes: put}); r.Status != StatusOK {
			t.Fatalf("put: %v %v", r.Status, r.Err)
		}
		if rapid.Bool().Draw(t, "flush") {
			if err := s.Flush(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		var b GetBlock
		var want [][]byte
		var got [][]byte // with a guard byte at both ends
		b.Hash = hashOf(id)
		for i := range rapid.IntRange(1, 4).Draw(t, "parts") {
			name := rapid.SampledFrom([]string{"k", "v"}).Draw(t, "plane")
			size := len(planes[name])
			off := rapid.IntRange(0, size-1).Draw(t, "offset")
			length := rapid.IntRange(1, size-off).Draw(t, "length")
			p := bytes.Repeat([]byte{0xa5}, length+2)
			part := Part{Plane: name, OffsetBytes: int64(off), LengthBytes: int64(length), Spans: split(t, "get", p[1:length+1])}
			if off+length == size && i%2 == 0 {
				part.LengthBytes = 0 // to the end
			}
			b.Parts = append(b.Parts, part)
			want, got = append(want, planes[name][off:off+length]), append(got, p)
		}
		r := n.Get(context.Background(), []GetBlock{b}, GetOptions{WantSeal: true})[0]
		if r.Status != StatusOK {
			t.Fatalf("get: %v %v", r.Status, r.Err)
		}
		sum := 0
		for i, p := range got {
			if p[0] != 0xa5 || p[len(p)-1] != 0xa5 {
				t.Fatalf("part %d: a byte outside of the spans was written", i)
			}
			if !bytes.Equal(p[1:len(p)-1], want[i]) {
				t.Fatalf("part %d: WRONG BYTES with status OK", i)
			}
			sum += len(want[i])
		}
		if r.Bytes != int64(sum) || r.VerifiedBytes <= 0 {
			t.Fatalf("%d bytes served, %d verified, want %d served", r.Bytes, r.VerifiedBytes, sum)
		}
		if want := SealOf(planes["k"], planes["v"]); !sealsEqual(*r.Seal, want) {
			t.Fatalf("seal %+v, want %+v", *r.Seal, want)
		}
	})
	wantNoBuffers(t, s)
}

func sealsEqual(a, b Seal) bool {
	if a.ContentID != b.ContentID || len(a.PlaneBytes) != len(b.PlaneBytes) || len(a.ChunkSums) != len(b.ChunkSums) {
		return false
	}
	for i := range a.PlaneBytes {
		if a.PlaneBytes[i] != b.PlaneBytes[i] {
			return false
		}
	}
	for i := range a.ChunkSums {
		if a.ChunkSums[i] != b.ChunkSums[i] {
			return false
		}
	}
	return true
}

// TestRangeReadsOnlyItsChunks: a small part of a large block costs its chunks.
func TestRangeReadsOnlyItsChunks(t *testing.T) {
	s := mustOpen(t, bigOptions())
	defer mustClose(t, s)
	n := mustSpace(t, s)
	const size = 900_000
	mustPut(t, n, blockOf(0, 0, size))
	p := make([]byte, 2)
	r := n.Get(context.Background(), []GetBlock{{Hash: hashOf(0), Parts: []Part{
		{Plane: "v", OffsetBytes: ChunkBytes - 1, LengthBytes: 2, Spans: [][]byte{p}},
	}}}, GetOptions{})[0]
	if r.Status != StatusOK || r.VerifiedBytes != 2*ChunkBytes || r.Bytes != 2 {
		t.Fatalf("%v %v: %d verified, %d served", r.Status, r.Err, r.VerifiedBytes, r.Bytes)
	}
	if want := contentOf(0, 0, size)[size/3+ChunkBytes-1:][:2]; !bytes.Equal(p, want) {
		t.Fatal("WRONG BYTES with status OK")
	}
}

// TestWrongParts: what does not fit the block has a status and writes nothing.
func TestWrongParts(t *testing.T) {
	s := mustOpen(t, bigOptions())
	defer mustClose(t, s)
	n := mustSpace(t, s)
	const size = 300_000 // k has 100,000 bytes
	mustPut(t, n, blockOf(0, 0, size))
	mem := bytes.Repeat([]byte{0xa5}, size)
	part := func(plane string, off, length int64, spans ...[]byte) []Part {
		return []Part{{Plane: plane, OffsetBytes: off, LengthBytes: length, Spans: spans}}
	}
	for _, c := range []struct {
		name  string
		parts []Part
		want  Status
	}{
		{"no parts", nil, StatusInvalid},
		{"unknown plane", part("q", 0, 10, mem[:10]), StatusInvalid},
		{"plane not named", part("", 0, 10, mem[:10]), StatusInvalid},
		{"negative offset", part("k", -1, 10, mem[:10]), StatusInvalid},
		{"negative length", part("k", 0, -10, mem[:10]), StatusInvalid},
		{"least offset", part("k", math.MinInt64, 10, mem[:10]), StatusInvalid},
		{"spans overlap", part("k", 0, 20, mem[:10], mem[9:19]), StatusInvalid},
		{"spans equal", part("k", 0, 20, mem[:10], mem[:10]), StatusInvalid},
		{"parts overlap", append(part("k", 0, 10, mem[:10]), part("v", 0, 10, mem[5:15])...), StatusInvalid},
		{"spans too short", part("k", 0, 20, mem[:19]), StatusLengthMismatch},
		{"spans too long", part("k", 0, 20, mem[:21]), StatusLengthMismatch},
		{"no spans", part("k", 0, 0), StatusLengthMismatch},
		{"plane too short for the spans", part("k", 0, 0, mem[:100_001]), StatusLengthMismatch},
		{"spans too short for the plane", part("k", 0, 0, mem[:99_999]), StatusLengthMismatch},
		{"range past the end", part("k", 99_995, 10, mem[:10]), StatusLengthMismatch},
		{"range behind the end", part("k", 100_000, 1, mem[:1]), StatusLengthMismatch},
		{"offset behind the end", part("k", 100_000, 0), StatusLengthMismatch},
		{"greatest offset", part("k", math.MaxInt64, 1, mem[:1]), StatusLengthMismatch},
		{"greatest offset to the end", part("k", math.MaxInt64, 0, mem[:1]), StatusLengthMismatch},
		{"second part wrong", append(part("k", 0, 10, mem[:10]), part("v", 1<<40, 10, mem[10:20])...), StatusLengthMismatch},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := n.Get(context.Background(), []GetBlock{{Hash: hashOf(0), Parts: c.parts}}, GetOptions{})[0]
			if r.Status != c.want || r.Err == nil || r.Bytes != 0 {
				t.Errorf("%v (%v), want %v", r.Status, r.Err, c.want)
			}
			if !untouched(mem) {
				t.Fatal("the destination was written")
			}
		})
	}
	wantBlock(t, n, 0, 0, size)
	wantNoBuffers(t, s)
}

// TestSealChecked: a source seal that does not match stores nothing.
func TestSealChecked(t *testing.T) {
	s := mustOpen(t, bigOptions())
	defer mustClose(t, s)
	n := mustSpace(t, s)
	const size = 300_000
	for id, c := range []struct {
		name   string
		change func(*Seal)
		want   Status
	}{
		{"right", func(*Seal) {}, StatusOK},
		{"first chunk", func(s *Seal) { s.ChunkSums[0]++ }, StatusCorrupt},
		{"last chunk", func(s *Seal) { s.ChunkSums[len(s.ChunkSums)-1]++ }, StatusCorrupt},
		{"chunks exchanged", func(s *Seal) { s.ChunkSums[0], s.ChunkSums[1] = s.ChunkSums[1], s.ChunkSums[0] }, StatusCorrupt},
		{"content id", func(s *Seal) { s.ContentID[15] ^= 1 }, StatusCorrupt},
		{"a chunk less", func(s *Seal) { s.ChunkSums = s.ChunkSums[1:] }, StatusLengthMismatch},
		{"a plane less", func(s *Seal) { s.PlaneBytes = s.PlaneBytes[1:] }, StatusLengthMismatch},
		{"length of a plane", func(s *Seal) { s.PlaneBytes[0]++ }, StatusLengthMismatch},
		{"empty", func(s *Seal) { *s = Seal{} }, StatusLengthMismatch},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := blockOf(id, 0, size)
			seal := sealOf(id, 0, size)
			c.change(&seal)
			b.Seal = &seal
			if r := putOne(n, b); r.Status != c.want || (r.Err == nil) != (c.want == StatusOK) {
				t.Fatalf("put: %v %v, want %v", r.Status, r.Err, c.want)
			}
			if c.want == StatusOK {
				// A put of a stored key checks its seal too.
				seal.ChunkSums[0]++
				if r := putOne(n, b); r.Status != StatusCorrupt {
					t.Errorf("put again with a wrong seal: %v", r.Status)
				}
				wantBlock(t, n, id, 0, size)
				return
			}
			wantStatus(t, n, id, size, StatusMiss)
		})
	}
	wantNoBuffers(t, s)
}

// TestDuplicatesInOneBatch: the first of a key is stored, later ones hear so;
// after a first whose seal is wrong the next is.
func TestDuplicatesInOneBatch(t *testing.T) {
	s := mustOpen(t, bigOptions())
	defer mustClose(t, s)
	n := mustSpace(t, s)
	bad := sealOf(2, 9, 5000)
	failing := blockOf(2, 0, 5000)
	failing.Seal = &bad
	rs := n.Put(context.Background(), []PutBlock{
		blockOf(1, 0, 5000), blockOf(1, 1, 5000), blockOf(1, 0, 5000), failing, blockOf(2, 1, 5000),
	}, PutOptions{})
	for i, want := range []PutResult{
		{Status: StatusOK}, {Status: StatusOK, Existed: true, Differs: true}, {Status: StatusOK, Existed: true},
		{Status: StatusCorrupt}, {Status: StatusOK},
	} {
		if r := rs[i]; r.Status != want.Status || r.Existed != want.Existed || r.Differs != want.Differs {
			t.Errorf("block %d: %+v, want %+v", i, r, want)
		}
	}
	wantBlock(t, n, 1, 0, 5000)
	wantBlock(t, n, 2, 1, 5000)
	// A get of one block twice fills both destinations.
	p, a := getParts(1, 5000)
	q, b := getParts(1, 5000)
	for i, r := range n.Get(context.Background(), []GetBlock{a, b}, GetOptions{}) {
		if r.Status != StatusOK {
			t.Errorf("get %d: %v %v", i, r.Status, r.Err)
		}
	}
	if !bytes.Equal(p, q) || variantOf(1, p, 1) != 0 {
		t.Error("WRONG BYTES with status OK")
	}
}
