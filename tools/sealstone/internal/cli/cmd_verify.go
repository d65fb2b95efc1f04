package cli

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/sealstone/sealstone/engine"
	"github.com/spf13/cobra"
)

// damageShown is how many findings the table lists; the report has them all.
const damageShown = 20

type verifyFlags struct {
	out     outputFlags
	workers int
}

func newVerify(env *environment) *cobra.Command {
	var f verifyFlags
	cmd := &cobra.Command{
		Use:   "verify DIR",
		Short: "Read every byte of a closed store and report what is damaged",
		Long: `verify reads every byte of the closed store in DIR: both copies of its metadata,
the log, every segment with headers, chunks, fill, footer and tombstones, and
the index, each entry of which must lead to an extent that says the same.
Nothing in DIR is changed.

What a crash leaves is no damage and is listed apart. An index that is missing
is none either: the next open rebuilds it.

EXAMPLES
  sealstone verify /var/lib/sealstone
  sealstone verify /var/lib/sealstone --json report.json
  sealstone verify /mnt/nvme/store --workers 16 --quiet --json

` + exitHelp,
		Args: oneArgument("the store's directory"),
		RunE: func(cmd *cobra.Command, args []string) error { return runVerify(cmd.Context(), env, f, args[0]) },
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().IntVar(&f.workers, "workers", 0, "read `N` segments at a time (0 = up to 4, by the CPUs)")
	f.out.register(cmd)
	return cmd
}

// verifyReport is the engine's report and how long it took to make.
type verifyReport struct {
	*engine.VerifyReport
	Seconds float64 `json:"seconds"`
}

func runVerify(ctx context.Context, env *environment, f verifyFlags, dir string) error {
	if err := f.out.create(); err != nil {
		return err
	}
	bar := newProgress(env, f.out.quiet, "verify")
	start := time.Now()
	r, err := engine.Verify(ctx, dir, engine.VerifyOptions{Workers: f.workers, Progress: bar.set})
	bar.end()
	if err != nil {
		return err
	}
	report := verifyReport{r, time.Since(start).Seconds()}
	if err := f.out.write(env, report, func(w io.Writer) { printVerify(w, report) }); err != nil {
		return err
	}
	if r.Damaged > 0 {
		return exitStatus(exitDamaged)
	}
	return nil
}

func printVerify(w io.Writer, r verifyReport) {
	t := newRows(w)
	s, l, x := r.Segments, r.Log, r.Index
	t.row("store", "%s", shorten(r.Dir, 60))
	t.row("uuid", "%s", r.UUID)
	t.row("blocks", "%d", r.Blocks)
	t.row("segments", "%d, %d sealed, %s", s.Files, s.Sealed, formatBytes(s.FileBytes))
	t.row("  live", "%s, %s", plural(s.LiveExtents, "extent"), formatBytes(s.LiveBytes))
	t.row("  aliases", "%s, %s", plural(s.AliasExtents, "extent"), formatBytes(s.AliasBytes))
	t.row("  dead", "%s, %s; %d torn, %d quarantined", plural(s.DeadExtents, "extent"), formatBytes(s.DeadBytes), s.TornExtents, s.QuarantinedExtents)
	t.row("  unused", "gaps %s, tails %s; not zero %s", formatBytes(s.GapBytes), formatBytes(s.TailBytes), formatBytes(s.NonzeroUnusedBytes))
	t.row("  tombstones", "%d", s.Tombstones)
	t.row("log", "%s in %s, position %d to %d", plural(int64(l.Records), "record"), plural(int64(l.Files), "file"), l.First, l.End)
	t.row("index", "%d keys, %d references, %s", x.Keys, x.References, formatBytes(x.DiskBytes))
	t.row("read", "%s of segments in %.1f s", formatBytes(r.ReadBytes), r.Seconds)
	t.flush()
	printList(w, "note: ", r.Notes)
	for i, d := range r.Damage {
		if i == damageShown {
			fmt.Fprintf(w, "... and %d more; see the report of --json\n", r.Damaged-damageShown)
			break
		}
		printDamage(w, d)
	}
	if r.Damaged == 0 {
		fmt.Fprintln(w, "\nno damage")
		return
	}
	fmt.Fprintf(w, "\n%d damaged\n", r.Damaged)
}

func printDamage(w io.Writer, d engine.Damage) {
	place := shorten(d.File, 55)
	if d.Offset >= 0 {
		place += fmt.Sprintf(" offset %d", d.Offset)
	}
	fmt.Fprintf(w, "\nDAMAGED %s\n  %s\n", d.Kind, place)
	if d.Hash != "" {
		fmt.Fprintf(w, "  block %s of namespace %d", shortHash(d.Hash), d.Namespace)
		if d.Blocks > 1 {
			fmt.Fprintf(w, ", %d blocks share it", d.Blocks)
		}
		fmt.Fprintln(w)
	}
	for _, line := range wrap(d.Reason, 77) {
		fmt.Fprintln(w, "  "+line)
	}
}

// printList prints sentences, wrapped, each after a lead.
func printList(w io.Writer, lead string, list []string) {
	for _, s := range list {
		for i, line := range wrap(s, 79-len(lead)) {
			if i == 0 {
				fmt.Fprintln(w, lead+line)
			} else {
				fmt.Fprintf(w, "%*s%s\n", len(lead), "", line)
			}
		}
	}
}

// plural is "1 extent", "2 extents".
func plural(n int64, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// shortHash keeps the first 16 bytes of a hash; reports have all.
func shortHash(hash string) string {
	if len(hash) > 32 {
		return hash[:32] + "…"
	}
	return hash
}

// rows is a table of names and values.
type rows struct{ t *tabwriter.Writer }

func newRows(w io.Writer) rows { return rows{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)} }

func (r rows) row(name, format string, args ...any) {
	fmt.Fprintf(r.t, name+"\t"+format+"\n", args...)
}

func (r rows) flush() { _ = r.t.Flush() } // who prints to a closed pipe is told by the next write
