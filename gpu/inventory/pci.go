package inventory

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// address is a PCI address as /sys writes it: "0000:17:00.0".
type address string

// parseAddress takes an address as CUDA (four digits of domain), NVML (eight)
// and /sys (four, more where needed) write it.
func parseAddress(s string) (address, error) {
	bad := fmt.Errorf("%q is no PCI address: want DOMAIN:BUS:DEVICE.FUNCTION in hexadecimal", s)
	parts := strings.Split(strings.TrimSpace(s), ":")
	if len(parts) != 3 {
		return "", bad
	}
	device, function, ok := strings.Cut(parts[2], ".")
	if !ok {
		return "", bad
	}
	var n [4]uint64
	for i, f := range []struct {
		text string
		bits int
	}{{parts[0], 32}, {parts[1], 8}, {device, 5}, {function, 3}} {
		v, err := strconv.ParseUint(f.text, 16, f.bits)
		if err != nil {
			return "", bad
		}
		n[i] = v
	}
	return address(fmt.Sprintf("%04x:%02x:%02x.%x", n[0], n[1], n[2], n[3])), nil
}

// device is the folder of a PCI device.
func (a address) device() string { return "sys/bus/pci/devices/" + string(a) }

// chain is the way from a root complex down to a PCI device.
type chain struct {
	host    string // the root bus, "pci0000:00"
	bridges []address
	device  address
}

// chainOf reads the way out of a path below sys/devices. What stands below the
// last PCI device, like nvme/nvme0, is left out.
func chainOf(name string) (chain, bool) {
	var c chain
	for element := range strings.SplitSeq(name, "/") {
		if isRootBus(element) {
			// A root bus below another one is that of a controller which
			// hides its devices in a domain of its own (Intel VMD).
			c = chain{host: element}
			continue
		}
		a, err := parseAddress(element)
		if c.host == "" || err != nil || string(a) != element {
			continue
		}
		if c.device != "" {
			c.bridges = append(c.bridges, c.device)
		}
		c.device = a
	}
	return c, c.device != ""
}

// isRootBus is true for "pci" with a domain and a bus.
func isRootBus(element string) bool {
	rest, ok := strings.CutPrefix(element, "pci")
	if !ok {
		return false
	}
	domain, bus, ok := strings.Cut(rest, ":")
	if !ok || len(domain) < 4 || len(bus) != 2 {
		return false
	}
	_, err1 := strconv.ParseUint(domain, 16, 32)
	_, err2 := strconv.ParseUint(bus, 16, 8)
	return err1 == nil && err2 == nil
}

// chainTo finds the way to a device.
func (t tree) chainTo(a address) (chain, error) {
	name, err := t.resolve(a.device())
	if err != nil {
		return chain{}, fmt.Errorf("PCI device %s is not in /sys: %s", a, why(err))
	}
	c, ok := chainOf(name)
	if !ok || c.device != a {
		return chain{}, fmt.Errorf("PCI device %s is not below a PCI root bus (%s)", a, path.Dir(name))
	}
	return c, nil
}

// numaNode of a PCI device; the kernel's own "not told" is -1 too.
func (t tree) numaNode(a address) int {
	n, ok := t.number(path.Join(a.device(), "numa_node"))
	if !ok || n < 0 {
		return Unknown
	}
	return int(n)
}
