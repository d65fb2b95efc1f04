// Package hostinfo tells what the machine, the container and the process set
// for a store: the memory limit of the control group, resource limits, NUMA
// nodes, the kind of a file system, the sectors of its device, the kernel and
// the boot.
//
// Everything is read afresh at each call and may be absent: a system that does
// not tell is no error. What is absent is an empty string, 0, or ok false.
package hostinfo

import (
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// Unlimited is the value of a limit that is not set.
const Unlimited int64 = -1

// root is the tree that /proc and /sys are read from. It follows links, as
// those of /sys/dev/block must be.
func root() fs.FS { return os.DirFS("/") }

// line reads the first line of a small file, without spaces around it.
func line(fsys fs.FS, name string) (string, bool) {
	b, err := fs.ReadFile(fsys, name)
	if err != nil {
		return "", false
	}
	first, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimSpace(first), true
}

// number reads a file that holds one decimal number.
func number(fsys fs.FS, name string) (int64, bool) {
	s, ok := line(fsys, name)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}
