package inventory

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// Module is NVIDIA's kernel module.
type Module struct {
	Loaded  bool   `json:"loaded"`
	Version string `json:"version"`
	// Open is the variant with open sources, the only one that P2PDMA works
	// with.
	Open bool `json:"open"`
}

var moduleVersion = regexp.MustCompile(`\b[0-9]{3,}\.[0-9]+(\.[0-9]+)?\b`)

// module reads the line "NVRM version: NVIDIA UNIX Open Kernel Module for
// x86_64  580.95.05  Release Build ..."; the other variant writes "NVIDIA UNIX
// x86_64 Kernel Module".
func (t tree) module() Module {
	text := t.line("proc/driver/nvidia/version")
	return Module{
		Loaded:  text != "",
		Version: moduleVersion.FindString(text),
		Open:    strings.Contains(text, "Open Kernel Module"),
	}
}

// NVIDIAFS is the kernel module nvidia-fs, the older one of libcufile's two
// direct routes.
type NVIDIAFS struct {
	Loaded  bool   `json:"loaded"`
	Version string `json:"version"`
	// Modules are the storage drivers that registered with it. Without nvme
	// among them no NVMe device is read directly.
	Modules []string `json:"modules"`
	// ACSBridges are the bridges that it found access control services enabled
	// on, by PCI address.
	ACSBridges []string `json:"acs_bridges"`
	// Against are the reasons known against the route; none is no promise.
	Against []string `json:"against"`
}

// nvidiaFS reads /proc/driver/nvidia-fs (gds-nvidia-fs, src/nvfs-proc.c).
func (t tree) nvidiaFS() NVIDIAFS {
	const dir = "proc/driver/nvidia-fs"
	n := NVIDIAFS{Modules: []string{}, ACSBridges: []string{}, Against: []string{}}
	n.Version = strings.TrimSpace(strings.TrimPrefix(t.line(dir+"/version"), "version:"))
	n.Loaded = n.Version != ""
	if lines, err := t.lines(dir + "/modules"); err == nil {
		n.Modules = append(n.Modules, lines...)
	}
	if lines, err := t.lines(dir + "/bridges"); err == nil {
		for _, l := range lines {
			if a, err := parseAddress(l); err == nil {
				n.ACSBridges = append(n.ACSBridges, string(a))
			}
		}
	}
	if !n.Loaded {
		n.Against = append(n.Against, "the kernel module nvidia-fs is not loaded")
		return n
	}
	nvme := false
	for _, m := range n.Modules {
		name, _, _ := strings.Cut(m, ":")
		nvme = nvme || strings.TrimSpace(name) == "nvme"
	}
	if !nvme {
		n.Against = append(n.Against, "the NVMe driver is not registered with nvidia-fs (no nvme in /proc/driver/nvidia-fs/modules)")
	}
	return n
}

// P2PDMA is libcufile's newer direct route, through the kernel's own peer to
// peer transfers.
type P2PDMA struct {
	// Kernel: p2pdma is built into the running kernel.
	Kernel bool `json:"kernel"`
	// RegistryDwords are the settings of the NVIDIA module.
	RegistryDwords string `json:"registry_dwords"`
	// Multipath is nvme_core's parameter, "Y" or "N"; "" is not told.
	Multipath string `json:"nvme_multipath"`
	// Against are the reasons known against the route; none is no promise.
	Against []string `json:"against"`
}

// p2pdma collects what NVIDIA's GPUDirect Storage troubleshooting guide asks
// for before libcufile can use the route.
func (t tree) p2pdma(m Module, kernel string) P2PDMA {
	p := P2PDMA{Against: []string{}}
	against := func(format string, args ...any) { p.Against = append(p.Against, fmt.Sprintf(format, args...)) }
	if lines, err := t.lines("proc/driver/nvidia/params"); err == nil {
		for _, l := range lines {
			if value, ok := strings.CutPrefix(l, "RegistryDwords:"); ok {
				p.RegistryDwords = strings.Trim(strings.TrimSpace(value), `"`)
			}
		}
	}
	p.Multipath = t.line("sys/module/nvme_core/parameters/multipath")
	if !m.Loaded {
		against("NVIDIA's kernel module is not loaded")
		return p
	}
	p.Kernel = t.hasSymbol("p2pdma_pgmap_ops")
	if !m.Open {
		against("NVIDIA's kernel module is not the open variant")
	}
	if !atLeast(kernel, 6, 2) {
		against("kernel %s is older than 6.2", kernel)
	}
	if !p.Kernel {
		against("no sign of CONFIG_PCI_P2PDMA in the kernel (p2pdma_pgmap_ops is not in /proc/kallsyms)")
	}
	if runtime.GOARCH == "amd64" && !strings.Contains(p.RegistryDwords, "RMForceStaticBar1=1") {
		against("the NVIDIA module runs without RMForceStaticBar1=1 (RegistryDwords in /proc/driver/nvidia/params)")
	}
	if p.Multipath == "Y" {
		against("nvme_core runs with multipath=Y")
	}
	return p
}

// hasSymbol looks for a symbol of the kernel. The list has some megabytes, so
// it is read line by line, to a bound.
func (t tree) hasSymbol(symbol string) bool {
	f, err := os.Open(t.path("proc/kallsyms"))
	if err != nil {
		return false
	}
	defer f.Close()
	s := bufio.NewScanner(io.LimitReader(f, 64<<20))
	for s.Scan() {
		fields := strings.Fields(s.Text())
		if len(fields) >= 3 && fields[2] == symbol {
			return true
		}
	}
	return false
}

// atLeast compares the first two numbers of a kernel release. A release that
// cannot be read is too old.
func atLeast(release string, major, minor int) bool {
	a, rest, _ := strings.Cut(release, ".")
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end >= 0 {
		rest = rest[:end]
	}
	x, err1 := strconv.Atoi(a)
	y, err2 := strconv.Atoi(rest)
	return err1 == nil && err2 == nil && (x > major || x == major && y >= minor)
}

// gates are the conditions under which libcufile is known to misbehave already
// when it is loaded: it reads the topology from udev, and WSL has none.
func (t tree) gates(kernel string) []string {
	g := []string{}
	if !t.isDir("run/udev") {
		g = append(g, "/run/udev is not there: libcufile cannot read the topology of the host without udev's data")
	}
	if strings.Contains(strings.ToLower(kernel), "microsoft") {
		g = append(g, "this kernel is the Windows Subsystem for Linux's")
	}
	return g
}

// obstacles are what is known beforehand about a directory.
func (t tree) obstacles(d Directory) []string {
	o := []string{}
	add := func(format string, args ...any) { o = append(o, fmt.Sprintf(format, args...)) }
	switch d.Filesystem {
	case "xfs":
	case "ext4":
		if !slices.Contains(d.Options, "data=ordered") {
			add("ext4 is mounted without an explicit data=ordered: libcufile refuses its files (5008)")
		}
	case "":
		add("the file system of the directory is not among the mounts")
	default:
		add("the file system is %s: direct reads are expected on ext4 and xfs only", d.Filesystem)
	}
	if len(d.Controllers) == 0 {
		add("%s", d.Reason)
	}
	if d.Multipath {
		add("the NVMe namespace has several ways to it (multipath), which P2PDMA does not take")
	}
	if len(d.Stack) > 0 {
		add("volumes lie between the file system and NVMe: %s", strings.Join(d.Stack, ", "))
	}
	if n, ok := t.number(path.Join("sys/class/block", d.Device, "integrity/device_is_integrity_capable")); ok && n != 0 {
		add("%s keeps block integrity data", d.Device)
	}
	return o
}
