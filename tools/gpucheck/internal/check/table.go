package check

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Print writes the report for people.
func (r *Report) Print(w io.Writer) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-22s%s\n", name, fmt.Sprintf(format, args...))
	}
	line("host", "%s %s, %d CPUs", r.Host.Arch, r.Host.Kernel, r.Host.CPUs)
	if r.Host.Virtual {
		line("", "a virtual machine: %s", strings.Join(r.Host.Signs, "; "))
	}
	line("libcuda", "%s", r.CUDA)
	line("libcufile", "%s", r.CuFile)
	r.Compat.print(line)
	for i := range r.GPUs {
		fmt.Fprintln(w)
		r.GPUs[i].print(w, line)
	}
	for _, s := range r.Scenarios {
		verdict := "held"
		if !s.Held {
			verdict = "BROKEN"
		}
		fmt.Fprintf(w, "\n%s: %s %s\n  %s\n", s.Name, verdict, s.GPU, s.Outcome)
	}
	fmt.Fprintf(w, "\n%-22s%-42s%-15s%8s\n", "STEP", "GPU", "STATE", "SECONDS")
	for _, s := range r.Steps {
		fmt.Fprintf(w, "%-22s%-42s%-15s%8.2f\n", s.Name, s.GPU, s.State, s.Seconds)
		if s.Reason != "" {
			fmt.Fprintf(w, "  %s\n", strings.Join(strings.Fields(s.Reason), " "))
		}
	}
	fmt.Fprintf(w, "\n%d steps, %d broken, in %.1f s\n", len(r.Steps), r.Broken, r.Seconds)
}

// String says whether there is one, and which.
func (l Library) String() string {
	if l.State != "present" {
		return l.State + ": " + l.Reason
	}
	s := fmt.Sprintf("version %d.%d", l.Version/1000, l.Version%1000/10)
	if len(l.Missing) > 0 {
		s += ", lacks " + strings.Join(l.Missing, " ")
	}
	return s
}

func (c *Compat) print(line func(name, format string, args ...any)) {
	if c == nil {
		return
	}
	switch {
	case c.Failed != "":
		line("  as configured", "ended by %s", c.Failed)
	default:
		line("  as configured", "a read of 1 MiB: %s", c.Read)
	}
	if p := c.Properties; p != nil {
		line("", "nvidia-fs %d.%d, direct I/O up to %d KiB", p.NvfsMajor, p.NvfsMinor, p.MaxDirectIOKB)
	}
	if n := c.Counters; n != nil {
		line("", "counters: %d by peer to peer, %d by nvidia-fs, %d through host memory", n.P2PReads, n.NvfsReads, n.PosixReads)
	} else if c.CountersReason != "" {
		line("", "no counters: %s", c.CountersReason)
	}
}

func (g *GPU) print(w io.Writer, line func(name, format string, args ...any)) {
	line("GPU", "%s, %s at %s", g.UUID, g.Name, g.PCI)
	line("  memory", "%d of %d MiB free", g.FreeBytes>>20, g.MemoryBytes>>20)
	line("  capability", "%s; GPUDirect RDMA %t, host registration %t, ordering of writes %d", g.Compute, g.RDMA, g.HostRegister, g.WritesOrdering)
	if k := g.Kernel; k != nil {
		line("  verify kernel", "proven by %d vectors, %d of them wrong on purpose; loaded in %.1f ms, proven in %.1f ms", k.Vectors, k.Wrong, k.LoadMillis, k.Millis)
	} else {
		line("  verify kernel", "not proven")
	}
	if v := g.Verdict; v != nil {
		line("  direct path", "%s", v)
	}
	if g.Route != "" {
		line("  scenarios by", "%s", g.Route)
	}
	if len(g.KernelSpeed)+len(g.Copies)+len(g.StoreSpeed) == 0 {
		return
	}
	fmt.Fprintf(w, "\n  %-28s%9s%12s%12s%9s\n", "", "MiB", "median us", "best us", "GB/s")
	for _, s := range slices.Concat(g.KernelSpeed, g.Copies, g.StoreSpeed) {
		fmt.Fprintf(w, "  %-28s%9.2f%12.1f%12.1f%9.2f\n", s.What, float64(s.Bytes)/(1<<20), s.MedianMicros, s.BestMicros, s.GBs)
	}
}
