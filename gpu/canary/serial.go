package canary

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// slaveDepthMax bounds how deep stacked block devices are followed.
const slaveDepthMax = 8

// deviceSerial names the hardware behind the block device of these numbers, as
// far as it names itself: the serial numbers of the drives, those of all
// members of a stack (device mapper, RAID). "" where there is none: network
// and memory file systems, btrfs, overlays, drives that do not tell.
func deviceSerial(fsys fs.FS, major, minor uint32) string {
	dir := fmt.Sprintf("sys/dev/block/%d:%d", major, minor)
	found := map[string]bool{}
	collectSerials(fsys, dir, slaveDepthMax, found)
	serials := make([]string, 0, len(found))
	for s := range found {
		serials = append(serials, s)
	}
	slices.Sort(serials)
	return strings.Join(serials, ",")
}

// collectSerials follows links by hand, as the way up from a partition to its
// disk is one in the real folders.
func collectSerials(fsys fs.FS, dir string, depth int, found map[string]bool) {
	if depth == 0 {
		return
	}
	if link, err := fs.ReadLink(fsys, dir); err == nil {
		dir = path.Join(path.Dir(dir), link)
	}
	if slaves, err := fs.ReadDir(fsys, path.Join(dir, "slaves")); err == nil {
		for _, s := range slaves {
			collectSerials(fsys, path.Join(dir, "slaves", s.Name()), depth-1, found)
		}
	}
	// A partition has no serial number of its own; it lies in the folder of
	// its disk.
	if _, err := fs.Stat(fsys, path.Join(dir, "partition")); err == nil {
		dir = path.Dir(dir)
	}
	for _, name := range []string{"serial", "device/serial", "wwid", "device/wwid"} {
		if s := firstLine(fsys, path.Join(dir, name)); s != "" {
			found[s] = true
			return
		}
	}
}
