package hostinfo

import (
	"io/fs"
	"testing"
	"testing/fstest"
)

func TestSectors(t *testing.T) {
	link := func(to string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(to), Mode: fs.ModeSymlink} }
	tree := fstest.MapFS{
		"sys/dev/block/8:0": link("../../devices/pci0/block/sda"),
		"sys/dev/block/8:1": link("../../devices/pci0/block/sda/sda1"),
		"sys/dev/block/9:0": link("../../devices/gone"),
		"sys/devices/pci0/block/sda/queue/logical_block_size":  file("512\n"),
		"sys/devices/pci0/block/sda/queue/physical_block_size": file("4096\n"),
		"sys/devices/pci0/block/sda/sda1/partition":            file("1\n"),
	}
	want := Sectors{LogicalBytes: 512, PhysicalBytes: 4096}
	for minor, want := range map[uint32]Sectors{0: want, 1: want, 2: {}} {
		if got := readSectors(tree, 8, minor); got != want {
			t.Errorf("8:%d: %+v, want %+v", minor, got, want)
		}
	}
	if got := readSectors(tree, 9, 0); got != (Sectors{}) {
		t.Errorf("a device that is gone: %+v", got)
	}
}

func TestNUMANodes(t *testing.T) {
	for _, tc := range []struct {
		fs   fstest.MapFS
		want int
	}{
		{fstest.MapFS{}, 1},
		{fstest.MapFS{"sys/devices/system/node/online": file("0\n")}, 1},
		{fstest.MapFS{
			"sys/devices/system/node/node0/cpulist": file("0\n"), "sys/devices/system/node/node1/cpulist": file("1\n"),
			"sys/devices/system/node/node10/cpulist": file("2\n"), "sys/devices/system/node/nodes": file(""),
			"sys/devices/system/node/online": file("0-1,10\n"),
		}, 3},
	} {
		if got := numaNodes(tc.fs); got != tc.want {
			t.Errorf("%d nodes, want %d", got, tc.want)
		}
	}
	if NUMANodes() < 1 {
		t.Error("no node")
	}
}

func TestFilesystemOf(t *testing.T) {
	for _, tc := range []struct {
		magic int64
		want  Filesystem
	}{
		{0xEF53, Filesystem{Name: "ext4"}},
		{0x01021994, Filesystem{Name: "tmpfs", Memory: true}},
		{0x6969, Filesystem{Name: "nfs", Network: true}},
		{0x65735546, Filesystem{Name: "fuse", Network: true}},
		{0x9123683E, Filesystem{Name: "btrfs"}},
		{-0x6EDC97C2, Filesystem{Name: "btrfs"}}, // the same with its sign extended
		{0x1234, Filesystem{Name: "0x00001234"}},
	} {
		if got := FilesystemOf(tc.magic); got != tc.want {
			t.Errorf("%#x: %+v, want %+v", tc.magic, got, tc.want)
		}
	}
	seen := map[string]uint32{}
	for magic, f := range filesystems {
		if other, ok := seen[f.Name]; ok {
			t.Errorf("%s is %#x and %#x", f.Name, magic, other)
		}
		seen[f.Name] = magic
		if f.Network && f.Memory {
			t.Errorf("%s is a network file system in memory", f.Name)
		}
	}
}
