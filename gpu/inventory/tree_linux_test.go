package inventory

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// host is a machine written down in text and laid out below a folder.
type host struct {
	t    *testing.T
	root string
	gpus []GPU
	cuda []CUDADevice
}

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{t: t, root: t.TempDir()}
	h.write("run/udev/data/x", "")
	h.write("proc/sys/kernel/osrelease", "6.8.0")
	h.write("proc/cpuinfo", "flags\t\t: fpu vme")
	return h
}

func (h *host) write(name, content string) {
	h.t.Helper()
	path := filepath.Join(h.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// link makes a symbolic link; the target is a name below the root.
func (h *host) link(name, target string) {
	h.t.Helper()
	path := filepath.Join(h.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		h.t.Fatal(err)
	}
	rel, err := filepath.Rel(filepath.Dir(path), filepath.Join(h.root, target))
	if err != nil {
		h.t.Fatal(err)
	}
	if err := os.Symlink(rel, path); err != nil {
		h.t.Fatal(err)
	}
}

// lay lays out lines of text:
//
//	NAME = CONTENT       a file; \n in the content is a line break
//	NAME -> TARGET       a link, both below the root
//	pci PATH KEY=VALUE   a PCI device below sys/devices, with its link
//	nvme PATH NAME ...   a controller with namespace n1 and partition p1
//	gpu KEY=VALUE        a GPU as NVML shows it
func (h *host) lay(text string) {
	h.t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		fields := strings.Fields(line)
		switch {
		case line == "" || line[0] == '#':
		case fields[0] == "pci":
			h.pci(fields[1], values(fields[2:]))
		case fields[0] == "nvme":
			h.nvme(fields[1], fields[2], values(fields[3:]))
		case fields[0] == "gpu":
			h.gpu(values(fields[1:]))
		case len(fields) >= 3 && fields[1] == "->":
			h.link(fields[0], fields[2])
		case len(fields) >= 2 && fields[1] == "=":
			_, content, _ := strings.Cut(line, "=")
			h.write(fields[0], strings.ReplaceAll(strings.TrimSpace(content), `\n`, "\n")+"\n")
		default:
			h.t.Fatalf("what is %q?", line)
		}
	}
}

func values(fields []string) map[string]string {
	all := map[string]string{}
	for _, f := range fields {
		key, value, _ := strings.Cut(f, "=")
		all[key] = value
	}
	return all
}

// pci lays out a device. port, and acs with it, go into a configuration space
// of 4 KiB, as root reads it; service is the port type as everybody sees it.
func (h *host) pci(name string, v map[string]string) {
	h.t.Helper()
	dir := "sys/devices/" + name
	bdf := filepath.Base(name)
	for key, file := range map[string]string{"class": "class", "vendor": "vendor", "device": "device", "numa": "numa_node", "width": "max_link_width"} {
		if v[key] != "" {
			h.write(dir+"/"+file, v[key]+"\n")
		}
	}
	if v["port"] != "" {
		h.write(dir+"/config", string(configSpace(v["port"], v["acs"])))
	}
	if v["service"] != "" {
		h.write("sys/bus/pci_express/devices/"+bdf+":pcie"+v["service"], "")
	}
	if v["iommu"] != "" {
		h.write(dir+"/iommu_group/type", v["iommu"]+"\n")
	}
	h.link("sys/bus/pci/devices/"+bdf, dir)
}

// configSpace is that of a bridge: a capability that is of no interest, then
// that of PCI Express, and access control services behind another extended one.
func configSpace(port, acs string) []byte {
	types := map[string]byte{"endpoint": 0, "root": 4, "up": 5, "down": 6, "bridge": 7}
	c := make([]byte, 4096)
	binary.LittleEndian.PutUint16(c[configStatus:], statusHasList)
	c[configCapPointer] = 0x40
	c[0x40], c[0x41] = 0x01, 0x70
	c[0x70], c[0x71], c[0x72] = capExpress, 0, types[port]<<4|2
	binary.LittleEndian.PutUint32(c[0x100:], 0x0001|1<<16|0x150<<20)
	if acs == "" {
		binary.LittleEndian.PutUint32(c[0x150:], 0x0003|1<<16)
		return c
	}
	binary.LittleEndian.PutUint32(c[0x150:], extendedACS|1<<16)
	control, _ := strconv.ParseUint(acs, 0, 16)
	binary.LittleEndian.PutUint16(c[0x156:], uint16(control))
	return c
}

// nvme lays out a controller below a PCI device, with the numbers of its
// namespace and partition.
func (h *host) nvme(pci, name string, v map[string]string) {
	h.t.Helper()
	dir := "sys/devices/" + pci + "/nvme/" + name
	h.write(dir+"/transport", "pcie\n")
	h.write(dir+"/model", "Fast 3.84TB\n")
	h.write(dir+"/serial", "S-"+name+"\n")
	h.write(dir+"/"+name+"n1/size", "1\n")
	h.write(dir+"/"+name+"n1/"+name+"n1p1/partition", "1\n")
	if v["disk"] != "" {
		h.link("sys/dev/block/"+v["disk"], dir+"/"+name+"n1")
	}
	if v["part"] != "" {
		h.link("sys/dev/block/"+v["part"], dir+"/"+name+"n1/"+name+"n1p1")
	}
	h.link("sys/class/block/"+name+"n1", dir+"/"+name+"n1")
	h.link("sys/class/block/"+name+"n1p1", dir+"/"+name+"n1/"+name+"n1p1")
}

func (h *host) gpu(v map[string]string) {
	g := unknownGPU()
	g.UUID, g.Name, g.NVMLIndex = v["uuid"], v["name"], len(h.gpus)
	if v["pci"] != "" {
		a, err := parseAddress(v["pci"])
		if err != nil {
			h.t.Fatal(err)
		}
		g.PCI = string(a)
	}
	if v["mode"] != "" {
		g.Virtualization = Virtualization(v["mode"])
	}
	for _, m := range strings.FieldsFunc(v["mig"], func(r rune) bool { return r == ',' }) {
		g.MIG.Enabled = true
		g.MIG.Instances = append(g.MIG.Instances, MIGInstance{UUID: m, Ordinal: Unknown})
	}
	h.gpus = append(h.gpus, g)
}

// read reads the host, and looks behind a directory on a device.
func (h *host) read(ctx context.Context, dir, device string) (*Report, error) {
	return Read(ctx, Options{
		Root: h.root, Directories: []string{dir}, CUDA: h.cuda, desk: newDesk(),
		nvml: func() (walker, error) {
			return func(n *notebook) { n.write(func() { n.gpus = append(n.gpus, h.gpus...) }) }, nil
		},
		stat: func(string) (major, minor uint32, err error) {
			_, err = fmt.Sscanf(device, "%d:%d", &major, &minor)
			return major, minor, err
		},
	})
}

// TestHosts reads machines that are written down in testdata/hosts.
func TestHosts(t *testing.T) {
	datadriven.Walk(t, "testdata/hosts", func(t *testing.T, path string) {
		var h *host
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "host":
				h = newHost(t)
				h.lay(d.Input)
				return ""
			case "more":
				h.lay(d.Input)
				return ""
			case "read":
				var dir, device string
				d.ScanArgs(t, "dir", &dir)
				d.ScanArgs(t, "dev", &device)
				r, err := h.read(t.Context(), dir, strings.ReplaceAll(device, "/", ":"))
				if err != nil {
					return err.Error() + "\n"
				}
				return summary(r, h.root)
			}
			d.Fatalf(t, "no command %s", d.Cmd)
			return ""
		})
	})
}

// summary is what matters of a report, for people.
func summary(r *Report, root string) string {
	var b strings.Builder
	list := func(what string, all []string) {
		for _, s := range all {
			fmt.Fprintf(&b, "%s: %s\n", what, strings.ReplaceAll(s, root, ""))
		}
	}
	list("virtual", r.Virtual.Signals)
	list("gate", r.Gates)
	fmt.Fprintf(&b, "iommu: units %v, parameters %v\n", r.IOMMU.Units, r.IOMMU.Parameters)
	list("nvidia-fs against", r.NVIDIAFS.Against)
	list("p2pdma against", r.P2PDMA.Against)
	for _, g := range r.GPUs {
		fmt.Fprintf(&b, "gpu %s: %s node %d iommu %q ordinal %d\n", g.UUID, g.PCI, g.NUMANode, g.IOMMUType, g.Ordinal)
		for _, m := range g.MIG.Instances {
			fmt.Fprintf(&b, "  instance %s ordinal %d\n", m.UUID, m.Ordinal)
		}
		list("  bridge", bridgesText(g.Bridges))
		list("  untrusted", g.Untrusted)
		list("  note", g.Notes)
	}
	for _, d := range r.Directories {
		fmt.Fprintf(&b, "%s: %s on %s %s, options %v\n", d.Path, d.Filesystem, d.DeviceID, d.Device, d.Options)
		list("  stack", d.Stack)
		for _, c := range d.Controllers {
			fmt.Fprintf(&b, "  %s: %s %s node %d\n", c.Name, c.PCI, c.Serial, c.NUMANode)
			list("    bridge", bridgesText(c.Bridges))
		}
		if d.Reason != "" {
			list("  reason", []string{d.Reason})
		}
		list("  obstacle", d.Obstacles)
	}
	for _, p := range r.Pairs {
		fmt.Fprintf(&b, "pair %s %s: %s switch %v near %v redirect %s shared %v\n  %s\n", p.GPU, p.Directory, p.Level, p.SharedSwitch, p.Near, p.Redirect, p.Shared, p.Reason)
		list("  doubt", p.Doubts)
	}
	return b.String()
}

func bridgesText(all []Bridge) []string {
	var text []string
	for _, b := range all {
		text = append(text, fmt.Sprintf("%s %s redirect %s", b.Address, b.Port, b.Redirect))
	}
	return text
}
