package disk

import (
	"context"
	"fmt"

	"github.com/sealstone/sealstone/internal/hostinfo"
	"github.com/sealstone/sealstone/internal/vfs"
)

// describe asks the system about the directory. Nothing of it proves or
// refuses a path.
func (p *prober) describe(context.Context) {
	if p.file == nil {
		return
	}
	f := &p.r.Filesystem
	if u, err := p.o.FS.Statfs(); err == nil {
		f.TotalBytes, f.AvailableBytes = u.TotalBytes, u.AvailableBytes
	}
	fd := p.file.buffered.Fd()
	if fd == vfs.InvalidFd {
		return
	}
	info, err := hostinfo.ReadFile(fd)
	if err != nil {
		return
	}
	f.Type, f.Network, f.Memory = info.Filesystem.Name, info.Filesystem.Network, info.Filesystem.Memory
	f.DeviceID = fmt.Sprintf("%d:%d", info.Major, info.Minor)
	sectors := hostinfo.ReadSectors(info.Major, info.Minor)
	f.LogicalSectorBytes, f.PhysicalSectorBytes = sectors.LogicalBytes, sectors.PhysicalBytes
	p.r.Direct.Told = info.Told
	p.r.Direct.ToldMemBytes, p.r.Direct.ToldOffsetBytes = info.MemAlignBytes, info.OffsetAlignBytes
	p.r.Direct.ToldReadOffsetBytes = info.ReadOffsetAlignBytes
	p.judgeFilesystem()
}

// judgeFilesystem says what an operator should know about this kind.
func (p *prober) judgeFilesystem() {
	switch f := p.r.Filesystem; {
	case f.Network && f.Type == "fuse":
		p.warn("fuse: a program stands behind this file system: its durability and its answers are that program's; put the store on a local disk unless you trust it")
	case f.Network:
		p.warn("%s is a network file system: locks, fsync and latency are those of a server; put the store on a local disk", f.Type)
	case f.Memory:
		p.note("%s keeps files in memory: they count against the memory limit and are gone after a boot", f.Type)
	case f.Type == "zfs":
		p.note("zfs may read and write directly asked I/O through its own cache (property direct)")
	}
}
