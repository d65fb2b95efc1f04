package inventory

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// Bridge is a PCI bridge between a root complex and a device.
type Bridge struct {
	Address string `json:"address"`
	// Vendor and Device are the numbers of its maker and kind, in hexadecimal.
	Vendor string   `json:"vendor"`
	Device string   `json:"device"`
	Port   PortType `json:"port"`
	// Redirect is whether peer traffic below it is sent through the root
	// complex, where an IOMMU may translate or refuse it.
	Redirect Redirect `json:"acs_redirect"`
	// express: it has a PCI Express capability. bridge: its class is that of a
	// bridge between PCI buses.
	express, bridge bool
}

// classBridge is the class of bridges between PCI buses, without the
// programming interface.
const classBridge = 0x0604

// bridgeAt reads the facts of one bridge. acs are the bridges that nvidia-fs
// lists as having access control services enabled.
func (t tree) bridgeAt(a address, acs []string) Bridge {
	dir := a.device()
	b := Bridge{
		Address:  string(a),
		Vendor:   strings.TrimPrefix(t.line(path.Join(dir, "vendor")), "0x"),
		Device:   strings.TrimPrefix(t.line(path.Join(dir, "device")), "0x"),
		Port:     PortUnknown,
		Redirect: RedirectUnknown,
	}
	class, _ := t.number(path.Join(dir, "class"))
	b.bridge = class>>8 == classBridge
	if config, err := t.read(path.Join(dir, "config")); err == nil {
		b.Port, b.Redirect = configPort(config), configRedirect(config)
	}
	if b.Port == PortUnknown {
		b.Port = t.servicePort(a)
	}
	// The kernel shows the width of a link for PCI Express devices only.
	b.express = b.Port != PortUnknown || t.exists(path.Join(dir, "max_link_width"))
	if slices.Contains(acs, string(a)) {
		b.Redirect = RedirectOn
	}
	return b
}

// servicePort reads the port type out of the names of the port's services,
// which everybody may list: ADDRESS:pcieTSS, where T is the port type less 4
// and SS the service (Linux, drivers/pci/pcie/portdrv.c).
func (t tree) servicePort(a address) PortType {
	for _, name := range t.names("sys/bus/pci_express/devices") {
		text, ok := strings.CutPrefix(name, string(a)+":pcie")
		if !ok || len(text) != 3 {
			continue
		}
		if n, err := strconv.ParseUint(text, 16, 12); err == nil {
			return portOf(int(n>>8) + 4)
		}
	}
	return PortUnknown
}

// bridges reads those of a chain, the root port first.
func (t tree) bridges(c chain, acs []string) []Bridge {
	all := make([]Bridge, 0, len(c.bridges))
	for _, a := range c.bridges {
		all = append(all, t.bridgeAt(a, acs))
	}
	return all
}
