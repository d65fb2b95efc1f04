package inventory

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Virtual says whether this looks like a virtual machine. One sign is enough:
// none of them is always there, and trusting a guest's view of bridges is what
// must not happen.
type Virtual struct {
	Suspected bool `json:"suspected"`
	// Signals are the signs that were seen, each with where.
	Signals []string `json:"signals"`
}

// makers are vendors and products of virtual machines in the tables of the
// firmware (DMI). Amazon is missing on purpose: its machines without a
// hypervisor name the same vendor.
var makers = []string{
	"qemu", "kvm", "xen", "vmware", "virtualbox", "innotek", "parallels", "bochs", "bhyve", "openstack",
	"google compute engine", "alibaba cloud ecs", "virtual machine", "hvm domu", "cloud hypervisor", "nutanix", "oracle virtual",
}

// vendors of PCI devices that exist in virtual machines only.
var virtualVendors = map[string]string{
	"1af4": "virtio",
	"1b36": "QEMU",
	"1414": "Hyper-V",
	"15ad": "VMware",
	"5853": "Xen",
}

// virtual collects the signs of the host. What belongs to one GPU, like
// passthrough, stands with that GPU.
func (t tree) virtual() Virtual {
	v := Virtual{Signals: []string{}}
	add := func(format string, args ...any) { v.Signals = append(v.Signals, fmt.Sprintf(format, args...)) }
	if s := t.cpuSignal(); s != "" {
		add("%s", s)
	}
	for _, name := range []string{"sys_vendor", "product_name"} {
		value := t.line("sys/class/dmi/id/" + name)
		if m := makerIn(value); m != "" {
			add("the firmware's %s is %q", name, value)
		}
	}
	if kind := t.line("sys/hypervisor/type"); kind != "" {
		add("/sys/hypervisor/type is %q", kind)
	}
	v.Signals = append(v.Signals, t.busSignals()...)
	v.Suspected = len(v.Signals) > 0
	return v
}

// cpuSignal reads the flag that x86 processors show to guests. A file that
// cannot be read is a sign too: then nothing speaks for a real machine.
func (t tree) cpuSignal() string {
	lines, err := t.lines("proc/cpuinfo")
	if err != nil {
		return "/proc/cpuinfo cannot be read: " + why(err)
	}
	for _, l := range lines {
		name, value, ok := strings.Cut(l, ":")
		if ok && strings.TrimSpace(name) == "flags" && slices.Contains(strings.Fields(value), "hypervisor") {
			return "the processor shows the flag hypervisor (/proc/cpuinfo)"
		}
	}
	return ""
}

func makerIn(value string) string {
	value = strings.ToLower(value)
	for _, m := range makers {
		if strings.Contains(value, m) {
			return m
		}
	}
	return ""
}

// busSignals looks at the PCI bus: devices that only hypervisors make, and a
// bus without any bridge, which no machine with slots has.
func (t tree) busSignals() []string {
	const devices = "sys/bus/pci/devices"
	var signals []string
	seen := map[string]bool{}
	all := t.names(devices)
	bridges := 0
	for _, name := range all {
		vendor := strings.TrimPrefix(t.line(path.Join(devices, name, "vendor")), "0x")
		if maker := virtualVendors[vendor]; maker != "" && !seen[vendor] {
			seen[vendor] = true
			signals = append(signals, fmt.Sprintf("PCI device %s is %s's (vendor %s)", name, maker, vendor))
		}
		if class, ok := t.number(path.Join(devices, name, "class")); ok && class>>8 == classBridge {
			bridges++
		}
	}
	if len(all) > 0 && bridges == 0 {
		signals = append(signals, fmt.Sprintf("none of the %d PCI devices is a bridge", len(all)))
	}
	return signals
}

// untrusted joins the signs of the host and those of one GPU.
func untrusted(v Virtual, mode Virtualization) []string {
	all := append([]string{}, v.Signals...)
	switch mode {
	case VirtualizationPassthrough, VirtualizationVGPU:
		all = append(all, fmt.Sprintf("the driver calls this GPU's virtualization mode %s", mode))
	}
	return all
}
