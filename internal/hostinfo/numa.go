package hostinfo

import (
	"io/fs"
	"strconv"
	"strings"
)

// NUMANodes is the number of NUMA nodes of the host, at least 1.
func NUMANodes() int { return numaNodes(root()) }

func numaNodes(fsys fs.FS) int {
	entries, err := fs.ReadDir(fsys, "sys/devices/system/node")
	if err != nil {
		return 1
	}
	n := 0
	for _, e := range entries {
		if digits, ok := strings.CutPrefix(e.Name(), "node"); ok {
			if _, err := strconv.ParseUint(digits, 10, 32); err == nil {
				n++
			}
		}
	}
	return max(n, 1)
}
