//go:build !linux

package diskuse

import (
	"hash/fnv"
	"os"
)

// stat knows no inode and no allocated size here: paths stand for files, and
// lengths for what they hold.
func stat(path string, _ bool) (id identity, bytes int64, links uint32, err error) {
	info, err := os.Lstat(path)
	if err != nil {
		return id, 0, 0, err
	}
	h := fnv.New64a()
	h.Write([]byte(path))
	return identity{ino: h.Sum64()}, info.Size(), 1, nil
}

// addUnlinked needs /proc.
func addUnlinked(usage, string, int) error { return nil }
