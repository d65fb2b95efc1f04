package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/sealstone/sealstone/gpu"
	"github.com/sealstone/sealstone/gpu/inventory"
)

func printGPUs(w io.Writer, r *gpuReport) {
	printList(w, "driver     ", []string{libraryText("CUDA", r.Driver)})
	if m := r.Host.Module; m.Loaded {
		kind := "not the open one"
		if m.Open {
			kind = "open"
		}
		printList(w, "  module   ", []string{fmt.Sprintf("%s, %s", orNone(m.Version), kind)})
	}
	printList(w, "cufile     ", []string{libraryText("version", r.CuFile)})
	printList(w, "nvml       ", []string{nvmlText(r.Host.NVML)})
	printList(w, "directory  ", []string{directoryText(r.Directory)})
	for _, c := range r.Directory.Controllers {
		printList(w, "  device   ", []string{fmt.Sprintf("%s at %s, %s", c.Name, c.PCI, nodeText(c.NUMANode))})
	}
	if len(r.Directory.Controllers) == 0 {
		printList(w, "  device   ", []string{r.Directory.Reason})
	}
	printList(w, "virtual    ", virtualText(r))
	printList(w, "against    ", r.againstHere())
	if len(r.GPUs) == 0 {
		fmt.Fprintln(w, "\nno GPU")
	}
	for i, g := range r.GPUs {
		printGPU(w, i, g)
		for _, p := range r.Pairs {
			if p.index == i {
				printPair(w, g, p)
			}
		}
	}
	printLinks(w, r)
}

func libraryText(what string, l gpuLibrary) string {
	if l.State != libraryReady {
		return string(l.State) + ": " + l.Reason
	}
	if l.Version == "" {
		return "ready"
	}
	return "ready, " + what + " " + l.Version
}

func nvmlText(n inventory.NVML) string {
	if n.State != inventory.NVMLReady {
		return string(n.State) + ": " + n.Reason
	}
	text := "ready"
	if n.DriverVersion != "" {
		text += ", driver " + n.DriverVersion
	}
	if len(n.Missing) > 0 {
		text += ", lacks " + strings.Join(n.Missing, ", ")
	}
	return text
}

func directoryText(d inventory.Directory) string {
	text := shorten(d.Path, 40)
	if d.Filesystem != "" {
		text += ", " + d.Filesystem
	}
	if d.DeviceID != "" {
		text += " on " + d.DeviceID
	}
	if d.Device != "" {
		text += " " + d.Device
	}
	return text
}

// virtualText says what speaks for a virtual machine, a sign a line.
func virtualText(r *gpuReport) []string {
	switch {
	case r.Doubles:
		return []string{"not asked: the libraries are doubles, for tests, and no device is real"}
	case !r.Host.Virtual.Suspected:
		return []string{"no sign of a virtual machine"}
	}
	return r.Host.Virtual.Signals
}

func printGPU(w io.Writer, i int, g inventory.GPU) {
	fmt.Fprintf(w, "\nGPU %d      %s\n", i, strings.Join(strings.Fields(g.Name+" "+g.UUID), " "))
	place := []string{orUnknown(g.PCI), nodeText(g.NUMANode)}
	if g.IOMMUType != "" {
		place = append(place, "IOMMU "+g.IOMMUType)
	}
	printList(w, "  place    ", []string{strings.Join(place, ", ")})
	memory := []string{}
	if g.MemoryBytes > 0 {
		memory = append(memory, formatBytes(g.MemoryBytes))
	}
	if g.BAR1Bytes > 0 {
		memory = append(memory, "BAR1 "+formatBytes(g.BAR1Bytes))
	}
	if g.ComputeMajor > 0 {
		memory = append(memory, fmt.Sprintf("compute %d.%d", g.ComputeMajor, g.ComputeMinor))
	}
	if len(memory) > 0 {
		printList(w, "  memory   ", []string{strings.Join(memory, ", ")})
	}
	if g.MIG.Enabled {
		printList(w, "  split    ", []string{plural(int64(len(g.MIG.Instances)), "MIG instance")})
	}
	printList(w, "  note     ", g.Notes)
}

// printPair shows the way of the bytes, why it is not a better one, and what
// the place of the GPU says. The last is no reason for anything: it is shown for
// those who would take a near device for a good one.
func printPair(w io.Writer, g inventory.GPU, p gpuPair) {
	if p.Instance != "" {
		printList(w, "  instance ", []string{p.Instance})
	}
	printList(w, "  path     ", []string{fmt.Sprintf("%s: %s", p.Path, p.Because)})
	if p.Path == gpuPathHost {
		printList(w, "  cufile   ", []string{verdictText(p.Direct)})
		printList(w, "  against  ", againstGPU(g, p.Place))
	}
	near := string(p.Place.Level)
	switch {
	case p.Place.Near:
		near = "near, " + near
	case p.Place.SharedSwitch:
		near = "not near, " + near
	}
	printList(w, "  topology ", []string{near + ": " + p.Place.Reason})
	// Where a switch is shared the reason has the signs already.
	if !p.Place.SharedSwitch && len(g.Untrusted) > 0 {
		printList(w, "           ", []string{"nothing would be trusted as near here: " + strings.Join(g.Untrusted, "; ")})
	}
}

// verdictText is a refusal with its number and name.
func verdictText(v gpu.Verdict) string {
	if v.State == gpu.VerdictUnknown {
		return "not tried"
	}
	text := string(v.State)
	if v.Code != 0 {
		text += fmt.Sprintf(" %d", v.Code)
	}
	if v.Name != "" {
		text += " " + v.Name
	}
	if v.Reason != "" {
		text += ": " + v.Reason
	}
	return text
}

// printLinks shows how GPUs reach each other, as the driver tells it.
func printLinks(w io.Writer, r *gpuReport) {
	if len(r.Links) == 0 {
		return
	}
	number := map[string]int{}
	for i, g := range r.GPUs {
		number[g.UUID] = i
	}
	fmt.Fprintln(w, "\nbetween GPUs, by what the driver says, which is no proof")
	for _, l := range r.Links {
		printList(w, fmt.Sprintf("  %d - %d    ", number[l.A], number[l.B]),
			[]string{fmt.Sprintf("%s; read %s, write %s, NVLink %s", l.Level, l.Read, l.Write, l.NVLink)})
	}
}

func nodeText(node int) string {
	if node == inventory.Unknown {
		return "NUMA node unknown"
	}
	return fmt.Sprintf("NUMA node %d", node)
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

func orNone(s string) string {
	if s == "" {
		return "version unknown"
	}
	return s
}
