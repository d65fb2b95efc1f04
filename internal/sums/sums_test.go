package sums

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "rewrite the golden files under testdata")

// pattern returns n bytes, byte i being i mod 251: the input of the vectors.
func pattern(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i % 251)
	}
	return p
}

func testKey() Key {
	var secret [32]byte
	copy(secret[:], pattern(32))
	return NewKey(secret)
}

var domains = []struct {
	name string
	d    Domain
}{
	{"seghead ", DomainSegmentHeader},
	{"exthead ", DomainExtentHeader},
	{"footer  ", DomainFooter},
	{"trailer ", DomainTrailer},
	{"tombfile", DomainTombstoneFile},
	{"tombslot", DomainTombstone},
	{"storefil", DomainStore},
	{"namespcs", DomainNamespaces},
	{"scrubpos", DomainScrub},
}

// vectors returns the golden table, one "input | sum" row a line, in the form
// that docs/format/sums.md shows.
func vectors() string {
	var b strings.Builder
	for _, n := range []int{0, 1, ChunkBytes - 1, ChunkBytes} {
		fmt.Fprintf(&b, "| chunk | %d bytes | `%016x` |\n", n, Chunk(pattern(n)))
	}
	long := pattern(ChunkBytes + 1)
	for i, s := range Chunks(nil, long) {
		fmt.Fprintf(&b, "| chunk | %d bytes, chunk %d | `%016x` |\n", len(long), i, s)
	}
	for _, lens := range [][]int{{}, {1}, {ChunkBytes - 1}, {ChunkBytes}, {ChunkBytes + 1}, {0, 1}, {1, 0}, {4096, 4096}, {100000, 70000, 1}} {
		fmt.Fprintf(&b, "| content | planes %v | `%s` |\n", lens, contentOf(lens))
	}
	for _, d := range domains {
		fmt.Fprintf(&b, "| keyed | %q: () | `%016x` |\n", d.name, testKey().Sum(d.d))
	}
	for _, parts := range [][]string{{""}, {"abc"}, {"ab", "c"}, {"a", "bc"}, {"a", "b", "c"}} {
		fmt.Fprintf(&b, "| keyed | \"exthead \": %q | `%016x` |\n", parts, sumStrings(testKey(), DomainExtentHeader, parts))
	}
	return b.String()
}

func contentOf(lens []int) ContentID {
	var lens64 []int64
	var chunks []uint64
	for _, n := range lens {
		lens64 = append(lens64, int64(n))
		chunks = Chunks(chunks, pattern(n))
	}
	return Content(lens64, chunks)
}

func sumStrings(k Key, d Domain, parts []string) uint64 {
	var bs [][]byte
	for _, p := range parts {
		bs = append(bs, []byte(p))
	}
	return k.Sum(d, bs...)
}

func TestGoldenVectors(t *testing.T) {
	const file = "testdata/vectors.txt"
	got := vectors()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the format changed (-want +got):\n%s", diff)
	}
	doc, err := os.ReadFile("../../docs/format/sums.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(doc, want) {
		t.Errorf("docs/format/sums.md does not show the table of %s", file)
	}
}

// Published vectors of XXH64 with seed 0: they hold whatever library computes it.
func TestChunkIsXXH64(t *testing.T) {
	for in, want := range map[string]uint64{
		"":    0xef46db3751d8e999,
		"a":   0xd24ec4f1a98c6e5b,
		"abc": 0x44bc2cf5ad770999,
	} {
		if got := Chunk([]byte(in)); got != want {
			t.Errorf("Chunk(%q) = %016x, want %016x", in, got, want)
		}
	}
}

func TestDomainsAreTheirNames(t *testing.T) {
	seen := map[Domain]bool{}
	for _, d := range domains {
		if got := Domain(binary.LittleEndian.Uint64([]byte(d.name))); got != d.d {
			t.Errorf("domain %q is %#x, its name reads %#x", d.name, uint64(d.d), uint64(got))
		}
		if seen[d.d] {
			t.Errorf("domain %q is taken twice", d.name)
		}
		seen[d.d] = true
	}
	for name, seed := range map[string]uint64{"SLSTCID0": ContentSeedLow, "SLSTCID1": ContentSeedHigh} {
		if got := binary.LittleEndian.Uint64([]byte(name)); got != seed {
			t.Errorf("content seed %q is %#x, its name reads %#x", name, seed, got)
		}
	}
}

func TestChunks(t *testing.T) {
	for _, n := range []int{0, 1, ChunkBytes - 1, ChunkBytes, ChunkBytes + 1, 2 * ChunkBytes, 3*ChunkBytes - 1} {
		p := pattern(n)
		got := Chunks([]uint64{42}, p)
		if len(got) != 1+ChunkCount(int64(n)) || got[0] != 42 {
			t.Fatalf("%d bytes: %d sums behind the one there, want %d", n, len(got)-1, ChunkCount(int64(n)))
		}
		for i, s := range got[1:] {
			if want := Chunk(p[i*ChunkBytes : min(n, (i+1)*ChunkBytes)]); s != want {
				t.Errorf("%d bytes, chunk %d: %016x, want %016x", n, i, s, want)
			}
		}
	}
	if got := ChunkCount(-1); got != 0 {
		t.Errorf("ChunkCount(-1) = %d", got)
	}
}

// ChunkOver must not care where the bytes are cut.
func TestChunkOverCuts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := pattern(rapid.IntRange(0, ChunkBytes).Draw(t, "bytes"))
		var spans [][]byte
		for rest := p; len(rest) > 0; {
			n := rapid.IntRange(0, len(rest)).Draw(t, "span")
			if len(spans) > 20 {
				n = len(rest)
			}
			spans, rest = append(spans, rest[:n]), rest[n:]
		}
		if got, want := ChunkOver(spans), Chunk(p); got != want {
			t.Fatalf("%d spans: %016x, want %016x", len(spans), got, want)
		}
	})
	two := [][]byte{pattern(5000), pattern(7)}
	if n := testing.AllocsPerRun(100, func() { ChunkOver(two) }); n != 0 {
		t.Errorf("allocates %v times", n)
	}
}

// Content must hash exactly the documented bytes, whatever its buffering.
func TestContentMatchesItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lens := rapid.SliceOfN(rapid.Int64Range(0, 1<<40), 0, 300).Draw(t, "lens")
		chunks := rapid.SliceOfN(rapid.Uint64(), 0, 2000).Draw(t, "chunks")
		b := []byte(contentDomain)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(lens)))
		for _, l := range lens {
			b = binary.LittleEndian.AppendUint64(b, uint64(l))
		}
		for _, c := range chunks {
			b = binary.LittleEndian.AppendUint64(b, c)
		}
		var want ContentID
		for i, seed := range []uint64{ContentSeedLow, ContentSeedHigh} {
			d := xxhash.NewWithSeed(seed)
			d.Write(b)
			binary.LittleEndian.PutUint64(want[8*i:], d.Sum64())
		}
		if got := Content(lens, chunks); got != want {
			t.Fatalf("Content = %s, want %s", got, want)
		}
	})
}

func TestContentDistinguishes(t *testing.T) {
	seen := map[ContentID]string{}
	for _, lens := range [][]int{{}, {0}, {0, 0}, {1}, {2}, {1, 0}, {0, 1}, {1, 1}, {8192}, {4096, 4096}} {
		id, name := contentOf(lens), fmt.Sprint(lens)
		if other, ok := seen[id]; ok || id.IsZero() {
			t.Errorf("planes %s and %s share id %s", name, other, id)
		}
		seen[id] = name
	}
}

func TestKeyedSumDistinguishes(t *testing.T) {
	other := NewKey([32]byte{31: 1})
	seen := map[uint64]string{}
	for _, k := range []Key{testKey(), other, {}} {
		for _, d := range domains {
			for _, parts := range [][]string{{}, {""}, {"", ""}, {"abc"}, {"ab", "c"}, {"a", "bc"}, {"a", "b", "c"}, {"abd"}} {
				name := fmt.Sprintf("%x %s %q", k.secret, d.name, parts)
				s := sumStrings(k, d.d, parts)
				if was, ok := seen[s]; ok {
					t.Errorf("%s and %s share sum %016x", name, was, s)
				}
				seen[s] = name
			}
		}
	}
}

func TestKeyHidesItsSecret(t *testing.T) {
	k := NewKey([32]byte{0: 0xab, 1: 0xab})
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
		for _, v := range []any{k, &k, struct{ Key }{k}} {
			if s := fmt.Sprintf(verb, v); strings.Contains(s, "ab") || strings.Contains(s, "171") {
				t.Errorf("%s of %T prints %q", verb, v, s)
			}
		}
	}
}

func TestNoAllocations(t *testing.T) {
	k, p := testKey(), pattern(4096)
	lens, chunks := []int64{1 << 20, 1 << 20}, make([]uint64, 0, 32)
	plane := pattern(2 << 20)
	var sink uint64
	for name, f := range map[string]func(){
		"Key.Sum of 3 parts": func() { sink += k.Sum(DomainExtentHeader, p[:24], p[24:32], p[32:]) },
		"Chunks into room":   func() { chunks = Chunks(chunks[:0], plane) },
		"Content":            func() { id := Content(lens, chunks); sink += uint64(id[0]) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}
