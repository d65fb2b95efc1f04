package canary

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

// tree writes files below a new folder.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		full := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestCheckVM(t *testing.T) {
	const bare = "processor\t: 0\nflags\t\t: fpu vme de\n\nprocessor\t: 1\nflags\t\t: fpu\n"
	for name, c := range map[string]struct {
		files map[string]string
		signs []string
	}{
		"nothing to be seen": {nil, nil},
		"bare metal":         {map[string]string{"proc/cpuinfo": bare, "sys/class/dmi/id/sys_vendor": "Dell Inc.\n"}, nil},
		"bare metal at Amazon": {map[string]string{"proc/cpuinfo": bare, "sys/class/dmi/id/sys_vendor": "Amazon EC2\n",
			"sys/class/dmi/id/product_name": "i4i.metal\n"}, nil},
		"arm": {map[string]string{"proc/cpuinfo": "processor : 0\nFeatures : fp asimd\n"}, nil},
		"a CPU flag": {map[string]string{"proc/cpuinfo": strings.Replace(bare, "vme", "vme hypervisor", 1)},
			[]string{"flag \"hypervisor\""}},
		"a flag of another name": {map[string]string{"proc/cpuinfo": strings.Replace(bare, "vme", "hypervisorless", 1)}, nil},
		"QEMU": {map[string]string{"sys/class/dmi/id/sys_vendor": "QEMU\n", "sys/class/dmi/id/product_name": "Standard PC (Q35 + ICH9, 2009)\n"},
			[]string{"sys_vendor is \"QEMU\""}},
		"Xen":   {map[string]string{"sys/hypervisor/type": "xen\n"}, []string{"type is \"xen\""}},
		"Azure": {map[string]string{"sys/class/dmi/id/product_name": "Virtual Machine\n"}, []string{"product_name is \"Virtual Machine\""}},
		"two signs": {map[string]string{"proc/cpuinfo": strings.Replace(bare, "vme", "hypervisor", 1), "sys/class/dmi/id/product_name": "KVM Virtual Machine\n"},
			[]string{"flag", "product_name"}},
	} {
		vm := CheckVM(tree(t, c.files))
		if vm.Virtual != (len(c.signs) > 0) || len(vm.Reasons) != len(c.signs) {
			t.Errorf("%s: %+v, want %q", name, vm, c.signs)
			continue
		}
		for i, s := range c.signs {
			if !strings.Contains(vm.Reasons[i], s) {
				t.Errorf("%s: %q, want %q", name, vm.Reasons[i], s)
			}
		}
	}
}

func TestGates(t *testing.T) {
	const release = "proc/sys/kernel/osrelease"
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"all there":    {map[string]string{"run/udev/data/x": "", release: "6.1.0-18-amd64\n"}, ""},
		"no udev":      {map[string]string{release: "6.1.0\n"}, nameNoUdev},
		"udev, a file": {map[string]string{"run/udev": ""}, nameNoUdev},
		"WSL":          {map[string]string{"run/udev/data/x": "", release: "5.15.90.1-microsoft-standard-WSL2\n"}, nameWSL},
	} {
		f := checkGates(system(tree(t, c.files)))
		if (f == nil) != (c.want == "") || f != nil && f.name != c.want {
			t.Errorf("%s: %+v, want %q", name, f, c.want)
		}
	}
}

func TestMounts(t *testing.T) {
	const table = `22 27 0:21 / /proc rw,relatime - proc proc rw
36 35 259:1 /sub /mnt/a\040b rw,noatime master:1 shared:7 - ext4 /dev/nvme0n1p1 rw,data=ordered
37 35 0:40 / /short rw - tmpfs tmpfs
x y
`
	id, err := parseMountID([]byte("pos:\t0\nflags:\t0100000\nmnt_id:\t36\nino:\t3\n"))
	if err != nil || id != 36 {
		t.Fatalf("mount %d (%v)", id, err)
	}
	m, err := findMount([]byte(table), id)
	want := mountPoint{36, "ext4", `/dev/nvme0n1p1 /sub /mnt/a\040b rw,noatime rw,data=ordered`}
	if err != nil || m != want {
		t.Errorf("%+v (%v), want %+v", m, err, want)
	}
	if m, err := findMount([]byte(table), 37); err != nil || m.text != "tmpfs / /short rw" {
		t.Errorf("%+v (%v)", m, err)
	}
	if m, err := findMount([]byte(table), 38); err == nil {
		t.Errorf("a mount that is not there: %+v", m)
	}
	for _, bad := range []string{"", "pos: 0\n", "mnt_id:\tx\n", "mnt_id:\n"} {
		if id, err := parseMountID([]byte(bad)); err == nil {
			t.Errorf("%q: mount %d", bad, id)
		}
	}
}

// TestDeviceSerial builds the folders that Linux has for a drive, a partition
// of it, and stacks of several.
func TestDeviceSerial(t *testing.T) {
	root := tree(t, map[string]string{
		"sys/devices/pci0/nvme/nvme0/nvme0n1/device/serial":       "S1  \n",
		"sys/devices/pci0/nvme/nvme0/nvme0n1/nvme0n1p1/partition": "1\n",
		"sys/devices/pci0/nvme/nvme1/nvme1n1/device/serial":       "S2\n",
		"sys/devices/pci0/ata1/sda/wwid":                          "naa.5000\n",
		"sys/devices/virtual/block/loop0/size":                    "8\n",
	})
	link := func(name, target string) {
		t.Helper()
		full := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, full); err != nil {
			t.Fatal(err)
		}
	}
	link("sys/dev/block/259:0", "../../devices/pci0/nvme/nvme0/nvme0n1")
	link("sys/dev/block/259:1", "../../devices/pci0/nvme/nvme0/nvme0n1/nvme0n1p1")
	link("sys/dev/block/8:0", "../../devices/pci0/ata1/sda")
	link("sys/dev/block/7:0", "../../devices/virtual/block/loop0")
	link("sys/dev/block/9:0", "../../devices/virtual/block/md0")
	link("sys/devices/virtual/block/md0/slaves/nvme0n1p1", "../../../../pci0/nvme/nvme0/nvme0n1/nvme0n1p1")
	link("sys/devices/virtual/block/md0/slaves/nvme1n1", "../../../../pci0/nvme/nvme1/nvme1n1")
	link("sys/dev/block/253:0", "../../devices/virtual/block/dm-0")
	link("sys/devices/virtual/block/dm-0/slaves/md0", "../../md0")
	link("sys/dev/block/253:1", "../../devices/virtual/block/dm-1")
	link("sys/devices/virtual/block/dm-1/slaves/dm-1", "../../dm-1")
	for _, c := range []struct {
		major, minor uint32
		want         string
	}{
		{259, 0, "S1"}, {259, 1, "S1"}, {8, 0, "naa.5000"}, {7, 0, ""}, {9, 0, "S1,S2"}, {253, 0, "S1,S2"}, {1, 1, ""},
		{253, 1, ""}, // on itself
	} {
		if got := deviceSerial(system(root), c.major, c.minor); got != c.want {
			t.Errorf("%d:%d is %q, want %q", c.major, c.minor, got, c.want)
		}
	}
}

func TestConfigDigest(t *testing.T) {
	with := fstest.MapFS{"etc/cufile.json": {Data: []byte("{}")}}
	file := filepath.Join(t.TempDir(), "mine.json")
	if err := os.WriteFile(file, []byte("{ }"), 0o600); err != nil {
		t.Fatal(err)
	}
	base := configDigest(with, nil)
	for name, c := range map[string]struct {
		digest string
		same   bool
	}{
		"again":             {configDigest(with, nil), true},
		"other variables":   {configDigest(with, []string{"PATH=/bin", "CUFILE=1"}), true},
		"where the log is":  {configDigest(with, []string{"CUFILE_LOGFILE_PATH=/x", "CUFILE_LOGGING_LEVEL=TRACE"}), true},
		"no file":           {configDigest(fstest.MapFS{}, nil), false},
		"another content":   {configDigest(fstest.MapFS{"etc/cufile.json": {Data: []byte("{} ")}}, nil), false},
		"a variable":        {configDigest(with, []string{"CUFILE_ALLOW_COMPAT_MODE=true"}), false},
		"another file":      {configDigest(with, []string{"CUFILE_ENV_PATH_JSON=" + file}), false},
		"a file not there":  {configDigest(with, []string{"CUFILE_ENV_PATH_JSON=" + file + "x"}), false},
		"a folder for file": {configDigest(with, []string{"CUFILE_ENV_PATH_JSON=" + filepath.Dir(file)}), false},
	} {
		if (c.digest == base) != c.same {
			t.Errorf("%s: same digest: %t, want %t", name, !c.same, c.same)
		}
	}
	a := configDigest(with, []string{"CUFILE_A=1", "CUFILE_B=2"})
	if b := configDigest(with, []string{"CUFILE_B=2", "CUFILE_A=1"}); a != b {
		t.Error("the order of variables counts")
	}
	// What the file holds counts, wherever it is named.
	b := configDigest(with, []string{"CUFILE_ENV_PATH_JSON=" + file})
	if err := os.WriteFile(file, []byte("{  }"), 0o600); err != nil {
		t.Fatal(err)
	}
	if configDigest(with, []string{"CUFILE_ENV_PATH_JSON=" + file}) == b {
		t.Error("a change of the named file does not count")
	}
}

func TestMappedLibraries(t *testing.T) {
	const maps = `7f10-7f20 r--p 00000000 fe:00 11 /usr/lib/libcuda.so.580.65
7f20-7f30 r-xp 00001000 fe:00 11 /usr/lib/libcuda.so.580.65
7f30-7f40 r--p 00000000 fe:00 12 /opt/lib/libcufile.so.0
7f40-7f50 r--p 00000000 fe:00 13 /usr/lib/libc.so.6
7f50-7f60 rw-p 00000000 00:00 0 
7f60-7f70 r--p 00000000 fe:00 14 /tmp/fake/double.so
7ffd-7ffe rw-p 00000000 00:00 0 [stack]
`
	for _, c := range []struct{ path, usual, want string }{
		{"", "libcuda.so", "/usr/lib/libcuda.so.580.65 fe:00:11"},
		{"", "libcufile.so", "/opt/lib/libcufile.so.0 fe:00:12"},
		{"libcufile.so.0", "x", "/opt/lib/libcufile.so.0 fe:00:12"},
		{"/tmp/fake/double.so", "libcuda.so", "/tmp/fake/double.so fe:00:14"},
		{"/else/double.so", "libcuda.so", ""},
	} {
		if got := strings.Join(mappedLibrary(maps, c.path, c.usual), "; "); got != c.want {
			t.Errorf("%q or %s: %q, want %q", c.path, c.usual, got, c.want)
		}
	}
}

func TestParseUUID(t *testing.T) {
	u, err := parseUUID(testGPU)
	if err != nil || u[0] != 0 || u[15] != 0xff || u[8] != 0x88 {
		t.Errorf("%x (%v)", u, err)
	}
	if m, err := parseUUID(strings.Replace(testGPU, "GPU", "MIG", 1)); err != nil || m != u {
		t.Errorf("%x (%v)", m, err)
	}
	for _, bad := range []string{"", "0", "GPU-", "GPU-00112233445566778899aabbccddeeff", testGPU + "00", testGPU + "-", "GPU-0011223x-4455-6677-8899-aabbccddeeff"} {
		if u, err := parseUUID(bad); err == nil {
			t.Errorf("%q is %x", bad, u)
		}
	}
}

func TestOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"negative time":        {Timeout: -1},
		"small reads":          {IOBytesMax: MinIOBytesMax - pieceBytes},
		"large reads":          {IOBytesMax: MaxIOBytesMax + pieceBytes},
		"uneven reads":         {IOBytesMax: MinIOBytesMax + 1},
		"a pair without a GPU": {Allow: []Pair{{"", "/dir"}}},
		"a pair without a dir": {Allow: []Pair{{testGPU, ""}}},
	} {
		if p, err := New(o); err == nil {
			t.Errorf("%s: %+v", name, p.o)
		}
	}
	p, err := New(Options{})
	if err != nil || p.o.Timeout != DefaultTimeout || p.o.IOBytesMax != DefaultIOBytesMax {
		t.Errorf("%+v (%v)", p, err)
	}
}
