package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/gpu/canary"
	"github.com/sealstone/sealstone/tiers/disk"
	"github.com/spf13/cobra"
)

type probeFlags struct {
	out     outputFlags
	timeout time.Duration
	gpu     gpuFlags
}

func newProbe(env *environment) *cobra.Command {
	var f probeFlags
	cmd := &cobra.Command{
		Use:   "probe [DIR]",
		Short: "Try what a directory can do, and how fast",
		Long: `probe tries each way of moving bytes between memory and the files of DIR (the
current directory, if none is given): io_uring and system calls past the page
cache, and system calls through it. Random bytes are written and must come back;
what is refused is shown with the reason. It also finds the smallest alignments,
tries preallocation and holes, and measures for a moment.

DIR may be a store, in use or not, or any other directory. A scratch file of at
most 64 MiB is made in it and removed.

With --gpu it tells instead which GPUs there are, what is known of their place,
and for each of them how bytes of DIR would reach it: by way of host memory, or
by cuFile, straight from the disk, where a trial with real bytes has proven that
way. Why it is refused is shown. A machine without a GPU is no error. In a
virtual machine the direct way is not tried, since the trial itself may write
where it must not; --gpu-allow tries it for one GPU all the same. --timeout then
is that of one trial, 1m by default.

EXAMPLES
  sealstone probe
  sealstone probe /mnt/nvme/store
  sealstone probe /mnt/nvme/store --json report.json
  sealstone probe --gpu /mnt/nvme/store

` + exitHelp,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError(cmd, fmt.Errorf("want at most one argument, the directory; got %d", len(args)))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := append(args, ".")[0]
			if f.gpu.on {
				if !cmd.Flags().Changed("timeout") {
					f.timeout = canary.DefaultTimeout
				}
				return runGPUProbe(cmd.Context(), env, f, dir)
			}
			if name := f.gpu.alone(cmd); name != "" {
				return usageError(cmd, fmt.Errorf("--%s is of use only with --gpu", name))
			}
			return runProbe(cmd.Context(), env, f, dir)
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().DurationVar(&f.timeout, "timeout", disk.DefaultProbeTimeout, "refuse what is not proven after `D`")
	f.gpu.register(cmd)
	f.out.register(cmd)
	return cmd
}

// probeReport is the engine's report and where it was made.
type probeReport struct {
	Dir string `json:"dir"`
	*engine.ProbeReport
}

func runProbe(ctx context.Context, env *environment, f probeFlags, dir string) error {
	if f.timeout <= 0 {
		return usage{fmt.Errorf("--timeout must be more than 0, got %v", f.timeout)}
	}
	if err := f.out.create(); err != nil {
		return err
	}
	bar := newProgress(env, f.out.quiet, "probe")
	r, err := engine.Probe(ctx, dir, f.timeout, bar.set)
	bar.end()
	if err != nil {
		return err
	}
	report := probeReport{dir, r}
	if err := f.out.write(env, report, func(w io.Writer) { printProbe(w, report) }); err != nil {
		return err
	}
	if r.Chosen == "" {
		return fmt.Errorf("no path is proven in %s: %s", dir, r.Path(disk.PathBuffered).Reason)
	}
	return nil
}

func printProbe(w io.Writer, r probeReport) {
	t := newRows(w)
	t.row("directory", "%s", shorten(r.Dir, 60))
	t.row("file system", "%s", filesystemText(r.Filesystem))
	t.row("kernel", "%s", shorten(r.Kernel, 60))
	t.row("direct I/O", "%s", directText(r.Direct))
	t.row("  statx", "%s", statxText(r.Direct))
	t.row("io_uring", "%s", uringText(r.Uring))
	t.row("files", "%s", fileText(r.File))
	t.row("limits", "memlock %s, open files %s", limit(r.Limits.MemlockBytes, formatBytes),
		limit(r.Limits.OpenFiles, func(n int64) string { return fmt.Sprint(n) }))
	t.row("  host", "cgroup memory %s, %s", limit(r.Limits.CgroupMemoryBytes, formatBytes), plural(int64(r.Limits.NUMANodes), "NUMA node"))
	t.flush()
	fmt.Fprintf(w, "\n%-10s%-9s%7s%12s%13s%11s\n", "PATH", "STATE", "ALIGN", "READ MiB/s", "WRITE MiB/s", "CPU s/GiB")
	for _, p := range r.Paths {
		if p.State != disk.PathProven {
			fmt.Fprintf(w, "%-10s%s\n", p.Name, p.State)
			continue
		}
		fmt.Fprintf(w, "%-10s%-9s%7d%12s%13s%11s\n", p.Name, p.State, p.AlignmentBytes,
			figure(p.ReadMiBs, 0), figure(p.WriteMiBs, 0), figure(p.CPUSecondsPerGiB, 2))
	}
	fmt.Fprintln(w)
	for _, p := range r.Paths {
		if p.State != disk.PathProven {
			printList(w, fmt.Sprintf("%s %s: ", p.Name, p.State), []string{withErrno(p.Reason, p.Errno)})
		}
	}
	chosen := string(r.Chosen)
	if chosen == "" {
		chosen = "none"
	}
	printList(w, "chosen: ", []string{chosen + ", " + r.ChosenBecause})
	printList(w, "note: ", r.Notes)
	printList(w, "warning: ", r.Warnings)
}

// figure is a measured number; 0 was not measured.
func figure(v float64, digits int) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf("%.*f", digits, v)
}

func withErrno(reason, errno string) string {
	if errno == "" || strings.Contains(reason, errno) {
		return reason
	}
	return reason + " (" + errno + ")"
}

func filesystemText(f disk.ProbeFilesystem) string {
	if f.Type == "" {
		return "unknown"
	}
	text := f.Type + " on " + f.DeviceID
	if f.LogicalSectorBytes > 0 {
		text += fmt.Sprintf(", sectors %d/%d bytes", f.LogicalSectorBytes, f.PhysicalSectorBytes)
	}
	return text + fmt.Sprintf(", %s of %s free", formatBytes(f.AvailableBytes), formatBytes(f.TotalBytes))
}

func directText(d disk.ProbeDirect) string {
	if d.MemBytes == 0 && d.OffsetBytes == 0 && d.LengthBytes == 0 {
		return "alignments not searched for"
	}
	return fmt.Sprintf("memory %s, offset %s, length %s", alignment(d.MemBytes), alignment(d.OffsetBytes), alignment(d.LengthBytes))
}

func statxText(d disk.ProbeDirect) string {
	switch {
	case !d.Told:
		return "does not tell"
	case d.ToldMemBytes == 0:
		return "no direct I/O"
	}
	return fmt.Sprintf("memory %d, offset %d", d.ToldMemBytes, d.ToldOffsetBytes)
}

func alignment(bytes int64) string {
	if bytes == 0 {
		return "none"
	}
	return fmt.Sprint(bytes)
}

func uringText(u disk.ProbeUring) string {
	if !u.Setup {
		return "no ring"
	}
	var bad []string
	for _, o := range u.Operations {
		if !o.OK {
			bad = append(bad, withErrno(o.Name, o.Errno))
		}
	}
	text := "flags " + strings.Join(u.Flags, ", ")
	if len(bad) > 0 {
		text += "; refused: " + strings.Join(bad, ", ")
	}
	return shorten(text, 64)
}

func fileText(f disk.ProbeFile) string {
	if f == (disk.ProbeFile{}) {
		return "not tried"
	}
	parts := []string{"not preallocated", "holes not zero"}
	if f.Preallocates {
		parts[0] = "preallocated"
	}
	if f.HolesReadZero {
		parts[1] = "holes read as zeros"
	}
	if f.SyncUs > 0 {
		parts = append(parts, fmt.Sprintf("fdatasync %.0f us", f.SyncUs))
	}
	return strings.Join(parts, ", ")
}

// limit is a number, or that there is none.
func limit(n int64, format func(int64) string) string {
	if n < 0 {
		return "unlimited"
	}
	return format(n)
}

// pathsText is a stored report in a few words.
func pathsText(r *engine.ProbeReport) string {
	if r == nil {
		return "not measured yet"
	}
	var parts []string
	for _, p := range r.Paths {
		text := fmt.Sprintf("%s %s", p.Name, p.State)
		if p.State == disk.PathProven {
			text = fmt.Sprintf("%s %s", p.Name, figure(p.ReadMiBs, 0))
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ") + " (MiB/s read)"
}
