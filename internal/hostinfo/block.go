package hostinfo

import (
	"fmt"
	"io/fs"
	"path"
)

// Sectors of a block device, in bytes; 0 is unknown.
type Sectors struct {
	// LogicalBytes is the least that the device reads or writes,
	// PhysicalBytes the least that it writes without reading first.
	LogicalBytes, PhysicalBytes int64
}

// ReadSectors asks /sys for the block device of these numbers. Both are 0
// where there is none behind them: a network or memory file system, btrfs,
// overlays.
func ReadSectors(major, minor uint32) Sectors { return readSectors(root(), major, minor) }

func readSectors(fsys fs.FS, major, minor uint32) Sectors {
	const devices = "sys/dev/block"
	link, err := fs.ReadLink(fsys, fmt.Sprintf("%s/%d:%d", devices, major, minor))
	if err != nil {
		return Sectors{}
	}
	dir := path.Join(devices, link)
	// A partition has no queue of its own; that of its disk counts.
	for _, d := range []string{dir, path.Dir(dir)} {
		if logical, ok := number(fsys, path.Join(d, "queue/logical_block_size")); ok {
			physical, _ := number(fsys, path.Join(d, "queue/physical_block_size"))
			return Sectors{LogicalBytes: logical, PhysicalBytes: physical}
		}
	}
	return Sectors{}
}
