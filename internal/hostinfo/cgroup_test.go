package hostinfo

import (
	"testing"
	"testing/fstest"
)

func file(content string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(content)} }

const (
	mountsV2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
	mountsV1 = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n" +
		"34 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw shared:1 master:2 - cgroup cgroup rw,cpu,cpuacct\n" +
		"35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
)

func TestCgroupMemory(t *testing.T) {
	for _, tc := range []struct {
		name string
		fs   fstest.MapFS
		want CgroupMemory
		ok   bool
	}{
		{"nothing mounted", fstest.MapFS{}, CgroupMemory{}, false},
		{"v2, own namespace", fstest.MapFS{
			"proc/self/cgroup": file("0::/\n"), "proc/self/mountinfo": file(mountsV2),
			"sys/fs/cgroup/memory.max": file("536870912\n"), "sys/fs/cgroup/memory.current": file("4096\n"),
		}, CgroupMemory{LimitBytes: 512 << 20, UsedBytes: 4096, Version: 2}, true},
		{"v2, no limit", fstest.MapFS{
			"proc/self/cgroup": file("0::/a\n"), "proc/self/mountinfo": file(mountsV2),
			"sys/fs/cgroup/a/memory.max": file("max\n"),
		}, CgroupMemory{}, false},
		{"v2, the limit is a parent's", fstest.MapFS{
			"proc/self/cgroup": file("0::/pod/box\n"), "proc/self/mountinfo": file(mountsV2),
			"sys/fs/cgroup/pod/box/memory.max": file("max\n"),
			"sys/fs/cgroup/pod/memory.max":     file("1000\n"), "sys/fs/cgroup/pod/memory.current": file("7\n"),
		}, CgroupMemory{LimitBytes: 1000, UsedBytes: 7, Version: 2}, true},
		{"v2, the lowest counts", fstest.MapFS{
			"proc/self/cgroup": file("0::/pod/box\n"), "proc/self/mountinfo": file(mountsV2),
			"sys/fs/cgroup/pod/box/memory.max": file("900\n"), "sys/fs/cgroup/pod/memory.max": file("1000\n"),
		}, CgroupMemory{LimitBytes: 900, Version: 2}, true},
		{"v2, another namespace's mount", fstest.MapFS{
			"proc/self/cgroup": file("0::/../../other\n"), "proc/self/mountinfo": file(mountsV2),
			"sys/fs/cgroup/memory.max": file("77\n"),
		}, CgroupMemory{LimitBytes: 77, Version: 2}, true},
		{"v1", fstest.MapFS{
			"proc/self/cgroup":                                   file("4:memory:/x\n3:cpu,cpuacct:/y\n0::/\n"),
			"proc/self/mountinfo":                                file(mountsV1),
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes":       file("2000\n"),
			"sys/fs/cgroup/memory/x/memory.usage_in_bytes":       file("20\n"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes":         file("9223372036854771712\n"),
			"sys/fs/cgroup/cpu,cpuacct/y/memory.limit_in_bytes":  file("1\n"),
			"sys/fs/cgroup/cpu,cpuacct/y/memory.usage_in_bytes2": file("1\n"),
		}, CgroupMemory{LimitBytes: 2000, UsedBytes: 20, Version: 1}, true},
		{"v1, no limit", fstest.MapFS{
			"proc/self/cgroup": file("4:memory:/\n"), "proc/self/mountinfo": file(mountsV1),
			"sys/fs/cgroup/memory/memory.limit_in_bytes": file("9223372036854771712\n"),
		}, CgroupMemory{}, false},
		{"v1, the mount is the container's group", fstest.MapFS{
			"proc/self/cgroup":                        file("4:memory:/docker/abc/in\n"),
			"proc/self/mountinfo":                     file(`35 31 0:32 /docker/abc /sys/fs/cg\040roup rw - cgroup cgroup rw,memory` + "\n"),
			"sys/fs/cg roup/in/memory.limit_in_bytes": file("3000\n"),
		}, CgroupMemory{LimitBytes: 3000, Version: 1}, true},
		{"both, and only v1 has the controller", fstest.MapFS{
			"proc/self/cgroup": file("4:memory:/\n0::/\n"), "proc/self/mountinfo": file(mountsV1 + "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes": file("5000\n"),
		}, CgroupMemory{LimitBytes: 5000, Version: 1}, true},
		{"garbage", fstest.MapFS{
			"proc/self/cgroup": file("::::\nx\n0::\n"), "proc/self/mountinfo": file("- - -\n\n30 - cgroup2\n" + mountsV2),
			"sys/fs/cgroup/memory.max": file("-5\n"),
		}, CgroupMemory{}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, ok := readCgroupMemory(tc.fs)
			if got != tc.want || ok != tc.ok {
				t.Errorf("%+v, %v, want %+v, %v", got, ok, tc.want, tc.ok)
			}
		})
	}
}

func TestBelow(t *testing.T) {
	for _, tc := range [][3]string{
		{"/a/b", "/", "/a/b"}, {"/a/b", "/a", "/b"}, {"/a/b", "/a/b", "/"},
		{"/ab", "/a", "/"}, {"/x", "/a", "/"}, {"/../a", "/", "/"}, {"/", "/", "/"},
	} {
		if got := below(tc[0], tc[1]); got != tc[2] {
			t.Errorf("below(%q, %q) = %q, want %q", tc[0], tc[1], got, tc[2])
		}
	}
}

// FuzzCgroupMemory: whatever /proc says, there is an answer.
func FuzzCgroupMemory(f *testing.F) {
	f.Add("0::/a/b\n", mountsV2, "4096\n")
	f.Add("4:memory:/x\n", mountsV1, "max\n")
	f.Add("0::/../..\n", `1 2 0:3 /\134 /sys/fs/cgroup rw - cgroup2 x y`, "1")
	f.Fuzz(func(t *testing.T, own, mounts, limit string) {
		fs := fstest.MapFS{
			"proc/self/cgroup": file(own), "proc/self/mountinfo": file(mounts),
			"sys/fs/cgroup/memory.max": file(limit), "sys/fs/cgroup/memory/memory.limit_in_bytes": file(limit),
		}
		if m, ok := readCgroupMemory(fs); ok != (m.LimitBytes > 0) || m.LimitBytes >= noLimitBytes {
			t.Errorf("%+v, %v", m, ok)
		}
	})
}
