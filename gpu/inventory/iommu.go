package inventory

import (
	"path"
	"strings"
)

// IOMMU is whether the host translates the addresses of devices. With one in
// the way peer traffic may be refused, and a sender is never told.
type IOMMU struct {
	// Units are those that the kernel uses (/sys/class/iommu); none is an
	// IOMMU that is off, or hidden from a guest.
	Units []string `json:"units"`
	// Parameters are those of the kernel's command line that speak of it.
	Parameters []string `json:"parameters"`
}

func (t tree) iommu() IOMMU {
	i := IOMMU{Units: []string{}, Parameters: []string{}}
	i.Units = append(i.Units, t.names("sys/class/iommu")...)
	for _, p := range strings.Fields(t.line("proc/cmdline")) {
		if name, _, _ := strings.Cut(p, "="); strings.Contains(name, "iommu") {
			i.Parameters = append(i.Parameters, p)
		}
	}
	return i
}

// iommuType is how the addresses of a device are translated: DMA, DMA-FQ,
// identity, or "" for a device in no group.
func (t tree) iommuType(a address) string {
	return t.line(path.Join(a.device(), "iommu_group", "type"))
}
