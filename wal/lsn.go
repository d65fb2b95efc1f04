package wal

import (
	"fmt"
	"strconv"
	"strings"
)

// LSN is a position in the log: the logical byte offset of a frame. The LSN
// of a record is that of its frame, the end LSN of a group is where the next
// group starts. LSNs are multiples of 8 and never used twice in a directory.
// Zero is no position; the first is MinLSN.
type LSN uint64

const (
	// MinLSN is the smallest position of a frame.
	MinLSN LSN = 4096
	// MaxLSN is the largest base of a file: far enough from overflow that
	// no arithmetic on positions within a file can wrap.
	MaxLSN LSN = 1 << 62

	fileSuffix     = ".wal"
	fileNameDigits = 16
)

// alignUp rounds n up to a multiple of the frame alignment.
func alignUp(n int64) int64 { return (n + frameAlign - 1) &^ (frameAlign - 1) }

// fileName is the name of the log file with the given base.
func fileName(base LSN) string {
	return fmt.Sprintf("%0*x%s", fileNameDigits, uint64(base), fileSuffix)
}

// parseFileName gives the base in a log file's name; false for a name that
// fileName never makes.
func parseFileName(name string) (LSN, bool) {
	digits, found := strings.CutSuffix(name, fileSuffix)
	if !found || len(digits) != fileNameDigits {
		return 0, false
	}
	v, err := strconv.ParseUint(digits, 16, 64)
	base := LSN(v)
	if err != nil || base < MinLSN || base > MaxLSN || base%frameAlign != 0 || fileName(base) != name {
		return 0, false
	}
	return base, true
}
