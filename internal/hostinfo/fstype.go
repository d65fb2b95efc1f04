package hostinfo

import "fmt"

// Filesystem is what the number that statfs(2) calls f_type says.
type Filesystem struct {
	// Name as in mount(8), or the number in hexadecimal.
	Name string
	// Network: another machine, or a program (FUSE), stands behind it.
	Network bool
	// Memory: it keeps its files in memory, where they count against the
	// memory limit of a control group and are gone after a boot.
	Memory bool
}

// filesystems by magic number: those of linux/magic.h, and of file systems
// outside the kernel's tree by their own headers.
var filesystems = map[uint32]Filesystem{
	0xEF53:     {Name: "ext4"}, // ext2 and ext3 have the same number
	0x58465342: {Name: "xfs"},
	0x9123683E: {Name: "btrfs"},
	0xF2F52010: {Name: "f2fs"},
	0x2FC12FC1: {Name: "zfs"},
	0xCA451A4E: {Name: "bcachefs"},
	0x794C7630: {Name: "overlay"},
	0x4D44:     {Name: "vfat"},
	0x2011BAB0: {Name: "exfat"},
	0x5346544E: {Name: "ntfs"},
	0x7366746E: {Name: "ntfs3"},
	0x3434:     {Name: "nilfs2"},
	0x52654973: {Name: "reiserfs"},
	0x3153464A: {Name: "jfs"},
	0x73717368: {Name: "squashfs"},
	0xE0F5E1E2: {Name: "erofs"},
	0x9660:     {Name: "iso9660"},

	0x01021994: {Name: "tmpfs", Memory: true},
	0x858458F6: {Name: "ramfs", Memory: true},
	0x958458F6: {Name: "hugetlbfs", Memory: true},

	0x6969:     {Name: "nfs", Network: true},
	0xFF534D42: {Name: "cifs", Network: true},
	0xFE534D42: {Name: "smb2", Network: true},
	0x517B:     {Name: "smb", Network: true},
	0x65735546: {Name: "fuse", Network: true},
	0x01021997: {Name: "9p", Network: true},
	0x0BD00BD0: {Name: "lustre", Network: true},
	0x47504653: {Name: "gpfs", Network: true},
	0x00C36400: {Name: "ceph", Network: true},
	0x5346414F: {Name: "afs", Network: true},
	0x6B414653: {Name: "kafs", Network: true},
	0x73757245: {Name: "coda", Network: true},
	0x01161970: {Name: "gfs2", Network: true},
	0x7461636F: {Name: "ocfs2", Network: true},
	0x19830326: {Name: "beegfs", Network: true},
	0xAAD7AAEA: {Name: "panfs", Network: true},
	0xBACBACBC: {Name: "vmhgfs", Network: true},
	0x786F4256: {Name: "vboxsf", Network: true},
}

// FilesystemOf names a file system by its magic number, of which only the low
// 32 bits count: some systems extend the sign.
func FilesystemOf(magic int64) Filesystem {
	if f, ok := filesystems[uint32(magic)]; ok {
		return f
	}
	return Filesystem{Name: fmt.Sprintf("0x%08x", uint32(magic))}
}
