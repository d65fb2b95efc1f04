package inventory

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestVirtual gives one sign at a time, and none.
func TestVirtual(t *testing.T) {
	const bridge = "\npci pci0000:00/0000:00:01.0 class=0x060400"
	for _, c := range []struct {
		name, host, want string
	}{
		{"a real machine", "sys/class/dmi/id/sys_vendor = Supermicro", ""},
		{"a machine of Amazon's without hypervisor", "sys/class/dmi/id/sys_vendor = Amazon EC2\nsys/class/dmi/id/product_name = p5.metal", ""},
		{"no bus to look at", "", ""},
		{"the flag", `proc/cpuinfo = processor : 0\nflags : fpu\nprocessor : 1\nflags : fpu hypervisor`, "flag hypervisor"},
		{"a word that is no flag", `proc/cpuinfo = model name : hypervisor\nflags : fpu hypervisors`, ""},
		{"QEMU", "sys/class/dmi/id/sys_vendor = QEMU", `sys_vendor is "QEMU"`},
		{"KVM", "sys/class/dmi/id/product_name = KVM", `product_name is "KVM"`},
		{"Google", "sys/class/dmi/id/product_name = Google Compute Engine", "product_name"},
		{"Hyper-V", "sys/class/dmi/id/product_name = Virtual Machine", "product_name"},
		{"VMware", "sys/class/dmi/id/sys_vendor = VMware, Inc.", "sys_vendor"},
		{"Xen", "sys/hypervisor/type = xen", "/sys/hypervisor/type"},
		{"virtio", "pci pci0000:00/0000:00:02.0 class=0x010000 vendor=0x1af4", "0000:00:02.0 is virtio's"},
		{"QEMU's bridge", "pci pci0000:00/0000:00:02.0 class=0x060400 vendor=0x1b36", "0000:00:02.0 is QEMU's"},
	} {
		h := newHost(t)
		h.lay(c.host + bridge)
		v := tree{h.root}.virtual()
		if c.want == "" {
			if v.Suspected || len(v.Signals) != 0 || v.Signals == nil {
				t.Errorf("%s: %+v", c.name, v)
			}
			continue
		}
		if !v.Suspected || len(v.Signals) != 1 || !strings.Contains(v.Signals[0], c.want) {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
}

// TestUntrusted: a mode of the GPU is a sign of that GPU alone.
func TestUntrusted(t *testing.T) {
	for mode, n := range map[Virtualization]int{VirtualizationNone: 0, VirtualizationUnknown: 0, VirtualizationHostVGPU: 0, VirtualizationPassthrough: 1, VirtualizationVGPU: 1} {
		if all := untrusted(Virtual{Signals: []string{}}, mode); len(all) != n {
			t.Errorf("%s: %v", mode, all)
		}
		if all := untrusted(Virtual{Signals: []string{"a"}}, mode); len(all) != n+1 || all[0] != "a" {
			t.Errorf("%s: %v", mode, all)
		}
	}
}

// TestP2PDMA takes one condition away at a time.
func TestP2PDMA(t *testing.T) {
	good := map[string]string{
		"proc/driver/nvidia/version":                "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (x@y)  Tue\nGCC version:  gcc version 12.2.0",
		"proc/driver/nvidia/params":                 "EnableMSI: 1\nRegistryDwords: \"RMForceStaticBar1=1;RmForceDisableIomapWC=1;\"",
		"proc/kallsyms":                             "0000000000000000 T _text\n0000000000000000 d p2pdma_pgmap_ops\n0000000000000000 t x\t[nvidia]",
		"sys/module/nvme_core/parameters/multipath": "N",
		"proc/sys/kernel/osrelease":                 "6.2.0-39-generic",
	}
	for _, c := range []struct {
		file, content, want string
	}{
		{"proc/sys/kernel/osrelease", "6.8.0", ""},
		{"proc/driver/nvidia/version", "", "not loaded"},
		{"proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu", "not the open variant"},
		{"proc/driver/nvidia/params", "RegistryDwords: \"\"", "RMForceStaticBar1"},
		{"proc/kallsyms", "0000000000000000 T not_p2pdma_pgmap_ops", "p2pdma_pgmap_ops is not in"},
		{"sys/module/nvme_core/parameters/multipath", "Y", "multipath=Y"},
		{"proc/sys/kernel/osrelease", "5.15.0", "5.15.0 is older"},
		{"proc/sys/kernel/osrelease", "", "is older"},
	} {
		if runtime.GOARCH != "amd64" && strings.HasPrefix(c.want, "RMForce") {
			continue
		}
		h := newHost(t)
		for name, content := range good {
			h.write(name, content)
		}
		h.write(c.file, c.content)
		tr := tree{h.root}
		p := tr.p2pdma(tr.module(), tr.line("proc/sys/kernel/osrelease"))
		if c.want == "" {
			if len(p.Against) != 0 || !p.Kernel || p.Multipath != "N" || p.RegistryDwords != "RMForceStaticBar1=1;RmForceDisableIomapWC=1;" {
				t.Errorf("%+v", p)
			}
			continue
		}
		if len(p.Against) != 1 || !strings.Contains(p.Against[0], c.want) {
			t.Errorf("%s = %q: %v, want %q", c.file, c.content, p.Against, c.want)
		}
	}
}

func TestModule(t *testing.T) {
	for text, want := range map[string]Module{
		"": {},
		"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build": {Loaded: true, Version: "580.95.05", Open: true},
		"NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.57  Thu":                       {Loaded: true, Version: "470.57"},
		"something else": {Loaded: true},
	} {
		h := newHost(t)
		if text != "" {
			h.write("proc/driver/nvidia/version", text)
		}
		if got := (tree{h.root}).module(); got != want {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func TestAtLeast(t *testing.T) {
	for release, want := range map[string]bool{
		"6.2.0": true, "6.2": true, "6.10.3-generic": true, "7.0-rc1": true, "10.0": true,
		"6.1.99": false, "5.14.0-427.el9": false, "": false, "six.two": false, "6": false, "6.x": false,
	} {
		if got := atLeast(release, 6, 2); got != want {
			t.Errorf("%q: %v", release, got)
		}
	}
}

func TestNVIDIAFS(t *testing.T) {
	h := newHost(t)
	h.write("proc/driver/nvidia-fs/version", "version: 2.28\n")
	h.write("proc/driver/nvidia-fs/modules", "nvme: 1.0\nsfxvdriver: 1.1\n")
	h.write("proc/driver/nvidia-fs/bridges", "0000:17:01.0\nrubbish\n0000:17:02.0\n")
	n := tree{h.root}.nvidiaFS()
	if !n.Loaded || n.Version != "2.28" || len(n.Modules) != 2 || !slices.Equal(n.ACSBridges, []string{"0000:17:01.0", "0000:17:02.0"}) || len(n.Against) != 0 {
		t.Errorf("%+v", n)
	}
	h.write("proc/driver/nvidia-fs/modules", "nvme_rdma: 1.0\n")
	if n := (tree{h.root}).nvidiaFS(); len(n.Against) != 1 || !strings.Contains(n.Against[0], "not registered") {
		t.Errorf("%+v", n)
	}
}

func TestGates(t *testing.T) {
	h := newHost(t)
	if g := (tree{h.root}).gates("6.8.0"); len(g) != 0 {
		t.Errorf("%v", g)
	}
	if g := (tree{h.root}).gates("5.15.90.1-microsoft-standard-WSL2"); len(g) != 1 || !strings.Contains(g[0], "Windows Subsystem") {
		t.Errorf("%v", g)
	}
	if err := os.RemoveAll(h.root + "/run"); err != nil {
		t.Fatal(err)
	}
	if g := (tree{h.root}).gates("6.8.0"); len(g) != 1 || !strings.Contains(g[0], "/run/udev") {
		t.Errorf("%v", g)
	}
}

// TestObstacles: what is known beforehand of a directory.
func TestObstacles(t *testing.T) {
	h := newHost(t)
	h.write("sys/class/block/nvme1n1/integrity/device_is_integrity_capable", "1")
	h.write("sys/class/block/nvme0n1/integrity/device_is_integrity_capable", "0")
	c := []Controller{{Name: "nvme0"}}
	for _, x := range []struct {
		d    Directory
		want string
	}{
		{Directory{Filesystem: "xfs", Device: "nvme0n1", Controllers: c}, ""},
		{Directory{Filesystem: "ext4", Options: []string{"rw", "data=ordered"}, Controllers: c}, ""},
		{Directory{Filesystem: "ext4", Options: []string{"rw"}, Controllers: c}, "data=ordered"},
		{Directory{Filesystem: "btrfs", Controllers: c}, "is btrfs"},
		{Directory{Controllers: c}, "not among the mounts"},
		{Directory{Filesystem: "xfs", Reason: "sda is not NVMe"}, "sda is not NVMe"},
		{Directory{Filesystem: "xfs", Controllers: c, Multipath: true}, "multipath"},
		{Directory{Filesystem: "xfs", Controllers: c, Stack: []string{"md0 (md raid0)"}}, "md0 (md raid0)"},
		{Directory{Filesystem: "xfs", Controllers: c, Device: "nvme1n1"}, "integrity"},
	} {
		o := tree{h.root}.obstacles(x.d)
		if x.want == "" && len(o) != 0 || x.want != "" && (len(o) != 1 || !strings.Contains(o[0], x.want)) {
			t.Errorf("%+v: %v, want %q", x.d, o, x.want)
		}
	}
}

// TestMerge: by UUID, in whatever order, and instances by their own.
func TestMerge(t *testing.T) {
	uuid := func(b byte) (u [16]byte) {
		for i := range u {
			u[i] = b
		}
		return u
	}
	nvml := []GPU{unknownGPU(), unknownGPU(), unknownGPU()}
	for i, b := range []byte{1, 2, 3} {
		nvml[i].UUID, nvml[i].NVMLIndex = uuidText("GPU-", uuid(b)), i
	}
	nvml[1].Name = "NVML's two"
	nvml[2].MIG.Instances = []MIGInstance{{UUID: uuidText("MIG-", uuid(4)), Ordinal: Unknown}, {UUID: "MIG-GPU-" + uuidText("", uuid(5)) + "/1/0", Ordinal: Unknown}}
	all := merge(nvml, []CUDADevice{
		{Ordinal: 0, UUID: uuid(2), Name: "two", PCI: "0000:02:00.0", ComputeMajor: 9, MemoryBytes: 1},
		{Ordinal: 1, UUID: uuid(4)},
		{Ordinal: 2, UUID: uuid(9), Name: "nine", PCI: "0000:99:00.0", ComputeMajor: 8, MemoryBytes: 1 << 30},
	})
	var ordinals []int
	for _, g := range all {
		ordinals = append(ordinals, g.Ordinal)
	}
	if !slices.Equal(ordinals, []int{Unknown, 0, Unknown, 2}) {
		t.Fatalf("%v", ordinals)
	}
	if m := all[2].MIG.Instances; m[0].Ordinal != 1 || m[1].Ordinal != Unknown {
		t.Errorf("%+v", m)
	}
	if g := all[1]; g.Name != "NVML's two" || g.PCI != "0000:02:00.0" || g.ComputeMajor != 9 || g.MemoryBytes != 1 {
		t.Errorf("%+v", g)
	}
	if g := all[3]; g.UUID != "GPU-09090909-0909-0909-0909-090909090909" || g.NVMLIndex != Unknown || g.PCI != "0000:99:00.0" || g.Name != "nine" || len(g.Notes) != 1 {
		t.Errorf("%+v", g)
	}
}

// TestHere reads this machine, whatever it is.
func TestHere(t *testing.T) {
	r, err := Read(t.Context(), Options{desk: newDesk(), Directories: []string{t.TempDir(), "/proc"}, nvml: func() (walker, error) { return nil, &absent{"not asked"} }})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Directories) != 2 || r.Directories[0].DeviceID == "" || r.KernelRelease == "" {
		t.Errorf("%+v", r)
	}
	if d := r.Directories[1]; len(d.Controllers) != 0 || d.Filesystem != "proc" || d.Reason == "" {
		t.Errorf("/proc: %+v", d)
	}
}
