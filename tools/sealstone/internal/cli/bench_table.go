package cli

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/sealstone/sealstone/tools/internal/bench"
)

// printBench prints what fits a terminal; the JSON has more.
func printBench(w io.Writer, r *bench.Report) {
	fmt.Fprintf(w, "blocks of %s, %d a call, %d calls at a time, depth %d; %d rounds",
		formatBytes(r.BlockBytes), r.BatchBlocks, r.Concurrency, r.Depth, r.Rounds)
	if r.DurationS > 0 {
		fmt.Fprintf(w, " of %g s\n", r.DurationS)
	} else {
		fmt.Fprintf(w, " of %s\n", formatBytes(r.RoundBytes))
	}
	printPaths(w, r)
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "workload\tMiB/s\tmin\tmax\tCPU s/GiB\tcalls/s\tp50 us\tp99 us\tdepth\t")
	for _, x := range r.Results {
		fmt.Fprintf(t, "%s\t%.0f\t%.0f\t%.0f\t%.3f\t%.0f\t%.0f\t%.0f\t%.1f\t\n", x.Workload, x.MiBPerSecond,
			x.MiBPerSecondMin, x.MiBPerSecondMax, x.CPUSecondsPerGiB, x.CallsPerSecond, x.P50US, x.P99US, x.DepthMean)
	}
	t.Flush()
	printBeside(w, r)
	for _, x := range r.Results {
		printSingles(w, x)
		if x.Failed > 0 || x.Wrong > 0 {
			printWrapped(w, fmt.Sprintf("%s: %d blocks failed, %d with wrong bytes (%s) %s",
				x.Workload, x.Failed, x.Wrong, formatCounts(x.Statuses), x.FirstError))
		}
		for _, n := range x.Notes {
			printWrapped(w, x.Workload+": "+n)
		}
	}
}

// printPaths says once how the bytes went, and why.
func printPaths(w io.Writer, r *bench.Report) {
	seen := map[string]bool{}
	for _, x := range r.Results {
		line := "path " + x.Path
		if x.PathReason != "" {
			line += ": " + x.PathReason
		}
		if !seen[line] {
			seen[line] = true
			for _, l := range wrap(line, 80) {
				fmt.Fprintln(w, l)
			}
		}
	}
}

func printBeside(w io.Writer, r *bench.Report) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	head := fmt.Sprintf("\nbeside %s:\n", r.FioVersion)
	for _, x := range r.Results {
		b := x.Beside
		if b == nil {
			continue
		}
		if head != "" {
			fmt.Fprint(w, head)
			fmt.Fprintln(t, "workload\tfio\tMiB/s\tratio\tmin\tmax\thash GiB/s\troofline\tCPU\t")
			head = ""
		}
		fmt.Fprintf(t, "%s\t%s\t%.0f\t%.3f\t%.2f\t%.2f\t%.1f\t%.3f\t%.2f\t\n", x.Workload, b.FioEngine, b.FioMiBPerSecond,
			b.RatioToFio, b.RatioToFioMin, b.RatioToFioMax, b.HashGiBPerSecond, b.RatioToRoofline, b.CPURatio)
	}
	t.Flush()
	if head == "" {
		fmt.Fprint(w, "  ratio: to fio. roofline: ratio to 1/(1/fio + 1/hash). CPU: seconds per GiB to\n"+
			"  those of fio, with the engine like the path, and of the hash together.\n")
	}
}

func printSingles(w io.Writer, x bench.Result) {
	l := x.Latency
	if l == nil {
		return
	}
	fmt.Fprintf(w, "\n%s, one block at a time (us): p50 %.0f, p90 %.0f, p99 %.0f, p99.9 %.0f, max %.0f\n",
		x.Workload, l.P50US, l.P90US, l.P99US, l.P999US, l.MaxUS)
	if f := l.Fio; f != nil {
		fmt.Fprintf(w, "  fio %s at depth 1: p50 %.0f, p90 %.0f, p99 %.0f; ratio of p99 %.2f\n",
			l.FioEngine, f.P50US, f.P90US, f.P99US, l.P99ToFio)
	}
}

// printWrapped prints a sentence as an item of a list.
func printWrapped(w io.Writer, s string) {
	for i, line := range wrap(s, 76) {
		fmt.Fprintln(w, map[bool]string{true: "  - ", false: "    "}[i == 0]+line)
	}
}
