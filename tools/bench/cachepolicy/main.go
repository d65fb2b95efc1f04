package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "cachepolicy:", err)
		}
		os.Exit(1)
	}
}

// shares are the sizes of the cache, as parts of the footprint.
var shares = []float64{0.01, 0.02, 0.05, 0.10, 0.20}

func run(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("cachepolicy", flag.ContinueOnError)
	flags.SetOutput(stderr)
	mixed := flags.Bool("mixed", false, "blocks of 64 KiB to 4 MiB instead of 1 MiB")
	scan := flags.Float64("scan", 0, "references to blocks that never come back, as a `part` of all others")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("give traces: files or directories")
	}
	if *scan < 0 || *scan > 10 {
		return fmt.Errorf("--scan %v is outside 0..10", *scan)
	}
	for _, path := range flags.Args() {
		w, err := load(path, *mixed, *scan)
		if err != nil {
			return err
		}
		w.table(stdout)
	}
	return nil
}

// table prints the figures of a workload: hit rate, byte hit rate, and time.
func (w *workload) table(out io.Writer) {
	fmt.Fprintf(out, "%s: %d references, footprint %.1f GiB\n\n| cache |", w.name, w.count, float64(w.footprintBytes)/(1<<30))
	for _, p := range policies {
		fmt.Fprintf(out, " %s |", p.name)
	}
	fmt.Fprint(out, "\n|---|---|---|---|\n")
	for _, share := range shares {
		fmt.Fprintf(out, "| %.0f %% |", 100*share)
		for _, p := range policies {
			r := w.replay(p.make(int64(share * float64(w.footprintBytes))))
			fmt.Fprintf(out, " %.1f, %.1f, %.0f ns |", 100*r.hitRate, 100*r.byteHitRate, r.nsAccess)
		}
		fmt.Fprintln(out)
	}
	fmt.Fprintln(out)
}
