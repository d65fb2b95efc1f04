package cli

import (
	"github.com/sealstone/sealstone/tools/internal/bytesize"
	"github.com/spf13/pflag"
)

// size is a flag in bytes, written as package bytesize reads it.
type size int64

var _ pflag.Value = (*size)(nil)

func parseSize(s string) (size, error) {
	n, err := bytesize.Parse(s)
	return size(n), err
}

// Set implements pflag.Value.
func (v *size) Set(s string) error {
	n, err := parseSize(s)
	if err == nil {
		*v = n
	}
	return err
}

// Type implements pflag.Value.
func (v *size) Type() string { return "size" }

// String is the size in the largest binary unit that divides it.
func (v *size) String() string { return bytesize.Format(int64(*v)) }

// formatBytes is n for people, to three digits.
func formatBytes(n int64) string { return bytesize.Round(n) }
