package bytesize

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		in   string
		want int64
		fail string
	}{
		{"0", 0, ""},
		{"1048576", 1 << 20, ""},
		{"64KiB", 64 << 10, ""},
		{"64kib", 64 << 10, ""},
		{" 64 KiB ", 64 << 10, ""},
		{"1.5GiB", 3 << 29, ""},
		{"2GB", 2e9, ""},
		{"2GiB", 2 << 30, ""},
		{"3TiB", 3 << 40, ""},
		{"7B", 7, ""},
		{"9223372036854775807", 1<<63 - 1, ""},
		{"9223372036854775808", 0, "too large"},
		{"8388608TiB", 0, "too large"},
		{"0.3B", 0, "whole number"},
		{"0.0001KiB", 0, "whole number"},
		{"", 0, "not a size"},
		{"GiB", 0, "not a size"},
		{"-1", 0, "not a size"},
		{"+1", 0, "not a size"},
		{"1e3", 0, "not a size"},
		{"1/2GiB", 0, "not a size"},
		{"0x10", 0, "not a size"},
		{"1.2.3", 0, "not a size"},
		{"5 parsecs", 0, "not a size"},
		{"64K", 0, "not a size"},
	} {
		got, err := Parse(c.in)
		if c.fail == "" && (err != nil || got != c.want) {
			t.Errorf("Parse(%q) = %d, %v; want %d", c.in, got, err, c.want)
		}
		if c.fail != "" && (err == nil || !strings.Contains(err.Error(), c.fail)) {
			t.Errorf("Parse(%q) = %d, %v; want an error with %q", c.in, got, err, c.fail)
		}
	}
}

func TestFormatIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.Int64Range(0, 1<<62).Draw(t, "n")
		if rapid.Bool().Draw(t, "round") {
			want = want >> 30 << 30
		}
		got, err := Parse(Format(want))
		if err != nil || got != want {
			t.Fatalf("%d is written %q and read %d, %v", want, Format(want), got, err)
		}
	})
}

func TestRound(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 3 << 29: "1.5 GiB", 5 << 41: "10.0 TiB"} {
		if got := Round(n); got != want {
			t.Errorf("Round(%d) = %q, want %q", n, got, want)
		}
	}
}
