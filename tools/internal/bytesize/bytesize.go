// Package bytesize reads and writes sizes as people do: "64KiB", "1.5GiB",
// "1048576", "2GB". Units with an i are powers of 1024, those without are
// powers of 1000.
package bytesize

import (
	"fmt"
	"math/big"
	"strings"
)

var units = []struct {
	suffix string
	bytes  int64
}{
	// The longer suffix first: "KiB" ends in "B" too.
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
	{"B", 1}, {"", 1},
}

// Parse reads a size in bytes. It is never negative.
func Parse(s string) (int64, error) {
	text := strings.TrimSpace(s)
	for _, u := range units {
		n, ok := cutSuffixFold(text, u.suffix)
		if !ok {
			continue
		}
		return scale(s, strings.TrimSpace(n), u.bytes)
	}
	return 0, fmt.Errorf("%q is not a size", s)
}

// scale computes number x unit exactly: rounding would make a capacity other
// than the one asked for.
func scale(s, number string, unit int64) (int64, error) {
	if number == "" || strings.Trim(number, "0123456789.") != "" || len(number) > 40 {
		return 0, fmt.Errorf("%q is not a size; write 65536, 64KiB, 1.5GiB or 2GB", s)
	}
	r, ok := new(big.Rat).SetString(number)
	if !ok {
		return 0, fmt.Errorf("%q is not a size; write 65536, 64KiB, 1.5GiB or 2GB", s)
	}
	r.Mul(r, new(big.Rat).SetInt64(unit))
	if !r.IsInt() {
		return 0, fmt.Errorf("%q is not a whole number of bytes", s)
	}
	if !r.Num().IsInt64() {
		return 0, fmt.Errorf("%q is too large", s)
	}
	return r.Num().Int64(), nil
}

func cutSuffixFold(s, suffix string) (string, bool) {
	if len(s) < len(suffix) || !strings.EqualFold(s[len(s)-len(suffix):], suffix) {
		return s, false
	}
	return s[:len(s)-len(suffix)], true
}

// Format is n in the largest binary unit that divides it; Parse reads it back.
func Format(n int64) string {
	for i := 3; i >= 0; i-- {
		if u := units[i]; n != 0 && n%u.bytes == 0 {
			return fmt.Sprintf("%d%s", n/u.bytes, u.suffix)
		}
	}
	return fmt.Sprintf("%d", n)
}

// Round is n for people, to three digits: it does not say n exactly.
func Round(n int64) string {
	for i := 3; i >= 0; i-- {
		if u := units[i]; n >= u.bytes {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(u.bytes), u.suffix)
		}
	}
	return fmt.Sprintf("%d B", n)
}

// Size is a number of bytes as a value of a flag.
type Size int64

// Set implements pflag.Value.
func (v *Size) Set(s string) error {
	n, err := Parse(s)
	if err == nil {
		*v = Size(n)
	}
	return err
}

// Type implements pflag.Value.
func (v *Size) Type() string { return "size" }

// String is the size as Format writes it.
func (v *Size) String() string { return Format(int64(*v)) }
