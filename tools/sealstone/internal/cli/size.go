package cli

import "github.com/sealstone/sealstone/tools/internal/bytesize"

// size is a flag in bytes, written as package bytesize reads it.
type size = bytesize.Size

func parseSize(s string) (size, error) {
	n, err := bytesize.Parse(s)
	return size(n), err
}

// formatBytes is n for people, to three digits.
func formatBytes(n int64) string { return bytesize.Round(n) }
