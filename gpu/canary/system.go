package canary

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// system is the tree that facts of the machine are read from, "/" but in
// tests.
func system(root string) fs.FS {
	if root == "" {
		root = "/"
	}
	return os.DirFS(root)
}

// firstLine reads the first line of a small file; "" where there is none.
func firstLine(fsys fs.FS, name string) string {
	b, err := fs.ReadFile(fsys, name)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimSpace(line)
}

// CheckVM looks for signs of a virtual machine that can be seen without a
// driver: the flag that hypervisors set in CPUID, and their names in DMI and
// in /sys/hypervisor. Some vendors set the DMI name on bare machines too
// (Amazon), so a name counts only beside what no bare machine has. A machine
// that hides all of them is not found out; the inventory of package
// gpu/inventory sees more.
func CheckVM(root string) VM {
	fsys := system(root)
	var vm VM
	see := func(format string, args ...any) {
		vm.Virtual = true
		vm.Reasons = append(vm.Reasons, fmt.Sprintf(format, args...))
	}
	if hasHypervisorFlag(fsys) {
		see("the CPU has the flag \"hypervisor\" (/proc/cpuinfo)")
	}
	if kind := firstLine(fsys, "sys/hypervisor/type"); kind != "" {
		see("/sys/hypervisor/type is %q", kind)
	}
	for _, name := range []string{"sys_vendor", "product_name"} {
		value := firstLine(fsys, "sys/class/dmi/id/"+name)
		for _, vendor := range dmiVirtual {
			if strings.Contains(strings.ToLower(value), vendor) {
				see("/sys/class/dmi/id/%s is %q", name, value)
				break
			}
		}
	}
	return vm
}

// dmiVirtual are words in DMI names that only virtual machines have, in lower
// case.
var dmiVirtual = []string{"qemu", "kvm", "xen", "vmware", "virtualbox", "bochs", "virtual machine", "google compute engine", "firecracker", "cloud-hypervisor", "openstack", "parallels", "bhyve"}

// hasHypervisorFlag reads the flags of the first CPU; those of the others are
// the same. Machines that are no x86 list no such flag.
func hasHypervisorFlag(fsys fs.FS) bool {
	b, err := fs.ReadFile(fsys, "proc/cpuinfo")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		key, value, ok := strings.Cut(line, ":")
		if !ok || strings.TrimSpace(key) != "flags" {
			continue
		}
		for _, flag := range strings.Fields(value) {
			if flag == "hypervisor" {
				return true
			}
		}
		return false
	}
	return false
}

// checkGates looks at what libcufile needs of the system before it is even
// opened; nil if all is there. Without udev's database it "may fail to load GPU
// topology" (GPUDirect Storage release notes), and under WSL there is no direct
// path at all.
func checkGates(fsys fs.FS) *finding {
	if info, err := fs.Stat(fsys, "run/udev"); err != nil || !info.IsDir() {
		return found(nameNoUdev, "/run/udev is not there, and libcufile finds its devices through it; mount it into the container (read-only)")
	}
	if release := firstLine(fsys, "proc/sys/kernel/osrelease"); strings.Contains(release, "icrosoft") {
		return found(nameWSL, "the kernel is %s: the Windows Subsystem for Linux has no direct path from storage to GPUs", release)
	}
	return nil
}
