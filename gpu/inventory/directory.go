package inventory

import (
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Directory is what lies behind a directory: its file system, and the NVMe
// controllers that its bytes come from.
type Directory struct {
	Path       string   `json:"path"`
	Filesystem string   `json:"filesystem"`
	MountPoint string   `json:"mount_point"`
	Options    []string `json:"mount_options"`
	// DeviceID is st_dev as MAJOR:MINOR, Device its name.
	DeviceID string `json:"device_id"`
	Device   string `json:"device"`
	// Stack are the devices between the file system and the NVMe namespaces,
	// like "md0 (md raid0)".
	Stack []string `json:"stack"`
	// Controllers hold the bytes. There are none, and Reason says why, if any
	// part of them lies elsewhere or that cannot be told.
	Controllers []Controller `json:"controllers"`
	Reason      string       `json:"reason"`
	// Multipath: the kernel chooses among several ways to a namespace.
	Multipath bool `json:"multipath"`
	// Obstacles are the reasons known beforehand for which libcufile will not
	// read directly from here. None is no promise.
	Obstacles []string `json:"obstacles"`
}

// Controller is an NVMe controller.
type Controller struct {
	Name      string   `json:"name"` // "nvme0"
	Model     string   `json:"model"`
	Serial    string   `json:"serial"`
	PCI       string   `json:"pci"`
	NUMANode  int      `json:"numa_node"`
	IOMMUType string   `json:"iommu_type"`
	Bridges   []Bridge `json:"bridges"`
}

// maxDevices bounds the search behind a directory: a stack of volumes has a
// handful of levels and members.
const maxDevices = 256

var (
	controllerName = regexp.MustCompile(`^nvme[0-9]+$`)
	namespaceName  = regexp.MustCompile(`^nvme[0-9]+(c[0-9]+)?n[0-9]+$`)
)

// behind collects what is found on the way down from a file system.
type behind struct {
	tree
	d       *Directory
	names   []string // of controllers, as paths in /sys
	visited int
}

// directory looks behind a path whose device numbers are known.
func (t tree) directory(dir string, major, minor uint32) Directory {
	d := noDirectory(dir)
	d.DeviceID = fmt.Sprintf("%d:%d", major, minor)
	if m, ok := t.mountOf(absolute(dir), major, minor); ok {
		d.Filesystem, d.MountPoint, d.Options = m.kind, m.point, m.options
	}
	name, err := t.resolve("sys/dev/block/" + d.DeviceID)
	if err != nil {
		d.Reason = fmt.Sprintf("no block device has the number %s of the file system (%s): it is spread over several devices, or in memory, or on another host", d.DeviceID, orUnknown(d.Filesystem))
		return d
	}
	d.Device = path.Base(name)
	b := behind{tree: t, d: &d}
	if err := b.expand(name); err != nil {
		d.Reason, d.Controllers = err.Error(), []Controller{}
	}
	return d
}

// noDirectory is one about which nothing is known.
func noDirectory(dir string) Directory {
	return Directory{Path: dir, Options: []string{}, Stack: []string{}, Controllers: []Controller{}, Obstacles: []string{}}
}

// absolute is the path that mount points are compared with, without links
// where they can be followed.
func absolute(dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	if abs, err := filepath.Abs(dir); err == nil {
		return abs
	}
	return dir
}

// expand finds the controllers below a block device. It returns an error as
// soon as a part is found that no NVMe controller holds: half an answer would
// be taken for a whole one.
func (b *behind) expand(name string) error {
	if b.visited++; b.visited > maxDevices {
		return fmt.Errorf("more than %d devices lie behind it", maxDevices)
	}
	if b.exists(path.Join(name, "partition")) {
		name = path.Dir(name)
	}
	base := path.Base(name)
	if namespaceName.MatchString(base) {
		return b.namespace(name)
	}
	slaves := b.tree.names(path.Join(name, "slaves"))
	if len(slaves) == 0 {
		return fmt.Errorf("%s is not NVMe%s", base, b.kind(name))
	}
	b.d.Stack = append(b.d.Stack, base+b.kind(name))
	for _, s := range slaves {
		below, err := b.resolve(path.Join(name, "slaves", s))
		if err != nil {
			return fmt.Errorf("%s, below %s, cannot be found in /sys: %s", s, base, why(err))
		}
		if err := b.expand(below); err != nil {
			return fmt.Errorf("%w, and a part of %s", err, base)
		}
	}
	return nil
}

// kind says in brackets what a device is that is no NVMe namespace.
func (b *behind) kind(name string) string {
	if uuid := b.line(path.Join(name, "dm/uuid")); uuid != "" {
		kind, _, _ := strings.Cut(uuid, "-")
		return fmt.Sprintf(" (dm %s)", strings.ToLower(kind))
	}
	if level := b.line(path.Join(name, "md/level")); level != "" {
		return fmt.Sprintf(" (md %s)", level)
	}
	if file := b.line(path.Join(name, "loop/backing_file")); file != "" {
		return " (a loop device over a file)"
	}
	return ""
}

// namespace finds the controllers of an NVMe namespace. Mostly that is the one
// whose folder it lies in. Where the kernel does multipath it lies in that of a
// subsystem, which links to all its controllers.
func (b *behind) namespace(name string) error {
	parent := path.Dir(name)
	if controllerName.MatchString(path.Base(parent)) {
		return b.controller(parent)
	}
	links := slices.DeleteFunc(b.tree.names(parent), func(s string) bool { return !controllerName.MatchString(s) })
	if len(links) == 0 {
		return fmt.Errorf("no controller of %s was found in /sys", path.Base(name))
	}
	b.d.Multipath = true
	for _, l := range links {
		c, err := b.resolve(path.Join(parent, l))
		if err != nil {
			return fmt.Errorf("controller %s of %s cannot be found in /sys: %s", l, path.Base(name), why(err))
		}
		if err := b.controller(c); err != nil {
			return err
		}
	}
	return nil
}

// controller adds one, whose folder lies below a PCI device unless it is
// reached over a network.
func (b *behind) controller(name string) error {
	if slices.Contains(b.names, name) {
		return nil
	}
	base := path.Base(name)
	c, ok := chainOf(name)
	if transport := b.line(path.Join(name, "transport")); !ok || transport != "" && transport != "pcie" {
		return fmt.Errorf("%s is reached by %s, not on the PCI bus", base, orUnknown(transport))
	}
	b.names = append(b.names, name)
	b.d.Controllers = append(b.d.Controllers, Controller{
		Name: base, Model: b.line(path.Join(name, "model")), Serial: b.line(path.Join(name, "serial")),
		PCI: string(c.device), NUMANode: b.numaNode(c.device), IOMMUType: b.iommuType(c.device),
	})
	return nil
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
