package disk

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sealstone/sealstone/internal/sums"
)

var updateGolden = flag.Bool("update", false, "rewrite the golden files of the formats under testdata")

var (
	testUUID = [16]byte{0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xab, 0xac, 0xad, 0xae, 0xaf}
	testKey  = sums.NewKey([32]byte{0: 1, 31: 2})
	otherKey = sums.NewKey([32]byte{0: 1, 31: 3})
)

// seq returns n bytes that count up from first.
func seq(first byte, n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = first + byte(i)
	}
	return p
}

// checkGolden compares an artifact with its golden file, byte for byte.
func checkGolden(t *testing.T, name string, p []byte) {
	t.Helper()
	file := filepath.Join("testdata", "format", name+".hex")
	if *updateGolden {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(dump(p)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), dump(p)); diff != "" {
		t.Errorf("the format changed (-want +got):\n%s", diff)
	}
}

// readGolden returns the bytes of a golden file.
func readGolden(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "format", name+".hex"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := undump(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// dump writes p as lines of 16 bytes; lines of zeros are left out. The last
// line is the length.
func dump(p []byte) string {
	var b strings.Builder
	for i := 0; i < len(p); i += 16 {
		if line := p[i:min(i+16, len(p))]; !allZero(line) {
			text := bytes.Map(func(r rune) rune {
				if r < 0x20 || r > 0x7e {
					return '.'
				}
				return r
			}, line)
			fmt.Fprintf(&b, "%06x  % x  %s\n", i, line, text)
		}
	}
	fmt.Fprintf(&b, "%06x\n", len(p))
	return b.String()
}

// undump is the inverse of dump.
func undump(text string) ([]byte, error) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	size, err := strconv.ParseInt(lines[len(lines)-1], 16, 32)
	if err != nil {
		return nil, err
	}
	p := make([]byte, size)
	for _, line := range lines[:len(lines)-1] {
		at, err := strconv.ParseInt(line[:6], 16, 32)
		if err != nil {
			return nil, err
		}
		row, err := hex.DecodeString(strings.ReplaceAll(line[8:8+3*16-1], " ", ""))
		if err != nil {
			return nil, err
		}
		copy(p[at:], row)
	}
	return p, nil
}

// checkFlips changes every byte of p in turn, one bit and all bits, and
// expects decode to call each of them corrupt: not sound, and not the work of
// a newer release either.
func checkFlips(t *testing.T, p []byte, decode func([]byte) error) {
	t.Helper()
	if err := decode(p); err != nil {
		t.Fatalf("unchanged: %v", err)
	}
	for i := range p {
		for _, mask := range []byte{1 << (i % 8), 0xff} {
			q := bytes.Clone(p)
			q[i] ^= mask
			if err := decode(q); !errors.Is(err, ErrCorrupt) || errors.Is(err, ErrUnsupported) {
				t.Errorf("byte %d ^ %#02x: error %v, want corrupt", i, mask, err)
			}
		}
	}
}

// checkCuts decodes every shorter prefix of p whose length is a multiple of
// step and expects each to be corrupt.
func checkCuts(t *testing.T, p []byte, step int, decode func([]byte) error) {
	t.Helper()
	for n := 0; n < len(p); n += step {
		if err := decode(p[:n:n]); !errors.Is(err, ErrCorrupt) {
			t.Errorf("cut to %d bytes: error %v, want corrupt", n, err)
		}
	}
}

// patch is a change to an artifact that its writer could have made: the sum
// is computed anew behind it.
type patch struct {
	name   string
	change func(p []byte)
	want   error  // a sentinel, or nil: still sound
	text   string // in the error's message
}

// checkPatches applies each patch to a copy of p.
func checkPatches(t *testing.T, p []byte, reseal func([]byte), decode func([]byte) error, patches []patch) {
	t.Helper()
	for _, c := range patches {
		t.Run(c.name, func(t *testing.T) {
			q := bytes.Clone(p)
			c.change(q)
			reseal(q)
			err := decode(q)
			if !errors.Is(err, c.want) {
				t.Fatalf("error %v, want %v", err, c.want)
			}
			if err != nil && !strings.Contains(err.Error(), c.text) {
				t.Errorf("error %q does not say %q", err, c.text)
			}
		})
	}
}

// set returns a change that writes bytes at an offset.
func set(offset int, v ...byte) func([]byte) {
	return func(p []byte) { copy(p[offset:], v) }
}

// preamblePatches are those that every artifact must answer alike.
func preamblePatches() []patch {
	return []patch{
		{"magic", set(0, 'X'), ErrCorrupt, ReasonMagic},
		{"newer version", set(versionOffset, 2), ErrUnsupported, "version 2"},
		{"version 0", set(versionOffset, 0), ErrUnsupported, "version 0"},
		{"incompatible feature", set(featureOffset, 0x10), ErrUnsupported, "bits 0x10"},
		{"read-only compatible feature", set(featureOffset+4, 1), nil, ""},
		{"compatible feature", set(featureOffset+8, 1), nil, ""},
	}
}

func TestDumpRoundTrip(t *testing.T) {
	p := append(make([]byte, 40), seq(250, 24)...)
	got, err := undump(dump(p))
	if err != nil || !bytes.Equal(got, p) {
		t.Errorf("undump(dump(p)) = %x, %v", got, err)
	}
}

func TestErrors(t *testing.T) {
	inner := errors.New("inner")
	c := &CorruptError{What: "extent header", File: "segments/0c/x.seg", Segment: 12, Offset: 8192, Reason: ReasonSum, Err: inner}
	wrapped := fmt.Errorf("get: %w", c)
	if !errors.Is(wrapped, ErrCorrupt) || !errors.Is(wrapped, inner) || errors.Is(wrapped, ErrUnsupported) {
		t.Errorf("%v wraps the wrong errors", wrapped)
	}
	want := "disk: read extent header of segments/0c/x.seg (segment 000000000000000c, offset 8192): corrupt: sum mismatch: inner"
	if c.Error() != want {
		t.Errorf("message\n%s, want\n%s", c, want)
	}
	u := &UnsupportedError{What: "segment header", Version: 7}
	if !errors.Is(u, ErrUnsupported) || errors.Is(u, ErrCorrupt) || !strings.Contains(u.Error(), "version 7") {
		t.Errorf("%v is the wrong error", u)
	}
	if err := invalidf("x %d", 1); !errors.Is(err, ErrInvalid) || err.Error() != "disk: invalid argument: x 1" {
		t.Errorf("invalidf gives %v", err)
	}
}

func TestAddress(t *testing.T) {
	a, b, c := Address{1, 9}, Address{2, 3}, Address{2, 4}
	for _, tc := range []struct {
		a, b Address
		want bool
	}{{a, b, true}, {b, a, false}, {b, c, true}, {c, b, false}, {a, a, false}} {
		if got := tc.a.Less(tc.b); got != tc.want {
			t.Errorf("%v before %v: %v", tc.a, tc.b, got)
		}
	}
	if !(Address{}).IsZero() || (Address{0, 1}).IsZero() || (Address{1, 0}).IsZero() {
		t.Error("IsZero is wrong")
	}
	if got := (Address{0x12, 34}).String(); got != "seg 00000012 page 34" {
		t.Errorf("String: %q", got)
	}
	if got := (Address{1, 1 << 20}).Offset(); got != 4<<30 {
		t.Errorf("Offset: %d", got)
	}
}

// fuzzSeed cuts the zeros off the end of an artifact, and fuzzBytes puts them
// back up to a multiple of unit: the fuzzer then changes bytes that matter.
func fuzzSeed(p []byte) []byte { return bytes.TrimRight(p, "\x00") }

func fuzzBytes(seed []byte, unit int) []byte {
	return append(bytes.Clone(seed), make([]byte, -len(seed)&(unit-1))...)
}

func TestAllZero(t *testing.T) {
	for _, n := range []int{0, 1, PageBytes - 1, PageBytes, PageBytes + 1, 3*PageBytes + 7} {
		p := make([]byte, n)
		if !allZero(p) {
			t.Errorf("%d zeros are not", n)
		}
		for _, i := range []int{0, n / 2, n - 1} {
			if n == 0 {
				continue
			}
			p[i] = 1
			if allZero(p) {
				t.Errorf("%d bytes with a one at %d are zero", n, i)
			}
			p[i] = 0
		}
	}
}
