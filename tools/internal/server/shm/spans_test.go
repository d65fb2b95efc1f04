package shm

import (
	"errors"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/tools/internal/wire"
	"pgregory.net/rapid"
)

func TestParseSpans(t *testing.T) {
	for _, c := range []struct {
		text string
		want []Span
	}{
		{"1:0:1", []Span{{1, 0, 1}}},
		{"1:2:3,4:5:6", []Span{{1, 2, 3}, {4, 5, 6}}},
		{"007:00:01", []Span{{7, 0, 1}}},
		{"9223372036854775807:9223372036854775807:9223372036854775807", []Span{{math.MaxInt64, math.MaxInt64, math.MaxInt64}}},
		{"", nil},
		{",", nil},
		{"1:2:3,", nil},
		{",1:2:3", nil},
		{"1:2:3,,4:5:6", nil},
		{"1:2", nil},
		{"1:2:", nil},
		{":2:3", nil},
		{"1::3", nil},
		{"1:2:3:4", nil},
		{"1:2:0", nil}, // no bytes
		{"1:-2:3", nil},
		{"+1:2:3", nil},
		{"1: 2:3", nil},
		{"1:2:3 ", nil},
		{"1:0x2:3", nil},
		{"1:2:3\x00", nil},
		{"1:9223372036854775808:1", nil}, // one too many
		{"1:99999999999999999999999:1", nil},
	} {
		got, err := ParseSpans([]byte(c.text))
		if !reflect.DeepEqual(got, c.want) || (err == nil) != (c.want != nil) || err != nil && !errors.Is(err, ErrSpans) {
			t.Errorf("%q: %v %v, want %v", c.text, got, err, c.want)
		}
	}
	if _, err := ParseSpans([]byte(strings.Repeat("1:2:3,", SpansMax) + "1:2:3")); !errors.Is(err, ErrSpans) {
		t.Errorf("more than SpansMax: %v", err)
	}
	if got, err := ParseSpans([]byte(strings.Repeat("1:2:3,", SpansMax-1) + "1:2:3")); len(got) != SpansMax || err != nil {
		t.Errorf("SpansMax: %d %v", len(got), err)
	}
}

// TestParseSpansBack: what a client writes is read as it was meant.
func TestParseSpansBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := rapid.Int64Range(0, math.MaxInt64)
		var text []byte
		var want []Span
		for range rapid.IntRange(1, 20).Draw(t, "spans") {
			s := Span{whole.Draw(t, "region"), whole.Draw(t, "offset"), rapid.Int64Range(1, math.MaxInt64).Draw(t, "length")}
			want = append(want, s)
			text = wire.AppendSpan(text, s.Region, s.Offset, s.Length)
		}
		if got, err := ParseSpans(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: %v %v, want %v", text, got, err, want)
		}
	})
}

// FuzzParseSpans: whatever comes is refused or means exactly what it says.
func FuzzParseSpans(f *testing.F) {
	for _, seed := range []string{"", "1:0:4096", "1:0:4096,2:8192:1", "1:9223372036854775807:9223372036854775807", "1:2:3,", ":::,,,", "-1:0:1"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		spans, err := ParseSpans(text)
		if err != nil {
			if spans != nil || !errors.Is(err, ErrSpans) {
				t.Fatalf("%d spans with %v", len(spans), err)
			}
			return
		}
		if len(spans) == 0 || len(spans) > SpansMax {
			t.Fatalf("%d spans", len(spans))
		}
		for i, piece := range strings.Split(string(text), ",") {
			fields := strings.Split(piece, ":")
			for j, want := range []int64{spans[i].Region, spans[i].Offset, spans[i].Length} {
				if n, err := strconv.ParseInt(fields[j], 10, 64); len(fields) != 3 || err != nil || n != want || n < 0 {
					t.Fatalf("%q was read as %v", piece, spans[i])
				}
			}
			if spans[i].Length == 0 {
				t.Fatal("a span without bytes")
			}
		}
	})
}
