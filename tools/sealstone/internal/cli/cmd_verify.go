package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/sealstone/sealstone/engine"
	"github.com/spf13/cobra"
)

// damageShown is how many findings the table lists; the report has them all.
const damageShown = 20

// diagnosesShown is how many bad chunks of a finding the table explains.
const diagnosesShown = 3

type verifyFlags struct {
	out     outputFlags
	workers int
	rate    byteRate
	sample  sampleFlag
	seed    uint64
	extents bool
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

With --sample only some extents are read: 5% of them, the 2nd of 10 parts
(2/10), or about as many bytes as a size says (20GiB). Metadata, log, index,
footers and tombstones are read all the same. The parts of n/t together read
every extent once; 5% and a size are drawn with the seed that is printed.

An interrupt ends it with a report on what was read until then.

JSON lists "extents", an object for every stored block and every other extent:

  role       block (of a stored block), alias (own header of a stored block that
             shares bytes: it has a "block" too), none (nothing refers to it)
  namespace, hash, segment, page, pages, raw_bytes, sequence
  alias_segment, alias_page  where the own header of a sharing block stands
  verdict    ok, damaged, unreadable, missing, not_read, padding (fill is not
             zero, the block is good); of role none: dead, dead_bad,
             quarantined, orphan (known to nothing), torn (as a crash leaves it)

EXAMPLES
  sealstone verify /var/lib/sealstone
  sealstone verify /var/lib/sealstone --json report.json
  sealstone verify /mnt/nvme/store --workers 16 --quiet --json
  sealstone verify /mnt/nvme/store --sample 2/7 --rate 200MiB/s

` + exitHelp,
		Args: oneArgument("the store's directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.sample.Seed = f.seed
			if !cmd.Flags().Changed("seed") && f.sample.Parts == 0 {
				f.sample.Seed = uint64(time.Now().Unix())
			}
			return runVerify(cmd.Context(), env, f, args[0])
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().Var(&f.sample, "sample", "read only a `PART`: 5%, 2/10 or 20GiB")
	cmd.Flags().Uint64Var(&f.seed, "seed", 0, "draw the sample with seed `N` (default: by the clock)")
	cmd.Flags().IntVar(&f.workers, "workers", 0, "read `N` segments at a time (0 = up to 4, by the CPUs)")
	f.rate.register(cmd)
	cmd.Flags().BoolVar(&f.extents, "extents", true, "list every extent in the JSON report")
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
	o := engine.VerifyOptions{Workers: f.workers, BytesPerSecond: int64(f.rate), Sample: f.sample.Sample}
	var list *listReport
	if f.extents {
		var err error
		if list, err = f.out.list(env, "extents"); err != nil {
			return err
		}
	}
	if list != nil {
		o.Block = func(b engine.BlockVerdict) error { return list.add(b) }
	}
	bar := newProgress(env, f.out.quiet, "verify")
	o.Progress = bar.set
	start := time.Now()
	r, err := engine.Verify(ctx, dir, o)
	bar.end()
	if r == nil {
		if list != nil {
			err = errors.Join(err, list.fail(err))
		}
		return err
	}
	report := verifyReport{r, time.Since(start).Seconds()}
	if werr := writeVerify(env, f, list, report); werr != nil {
		return werr
	}
	if r.Damaged > 0 {
		return exitStatus(exitDamaged)
	}
	return err // of an interrupt
}

func writeVerify(env *environment, f verifyFlags, list *listReport, r verifyReport) error {
	table := func(w io.Writer) { printVerify(w, r) }
	if list == nil {
		return f.out.write(env, r, table)
	}
	if !f.out.quiet && !f.out.toStdout() {
		table(env.stdout)
	}
	return list.end(r)
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
	if r.NotReadBytes > 0 {
		t.row("not read", "%s of segments", formatBytes(r.NotReadBytes))
	}
	if r.Sample != nil {
		t.row("sample", "%s", sampleText(*r.Sample))
	}
	t.flush()
	printList(w, "note: ", r.Notes)
	for i, d := range r.Damage {
		if i == damageShown {
			fmt.Fprintf(w, "... and %d more; see the report of --json\n", r.Damaged-damageShown)
			break
		}
		printDamage(w, d)
	}
	printLost(w, r.Namespaces)
	printVerdict(w, r.VerifyReport)
}

func sampleText(s engine.Sample) string {
	switch {
	case s.Parts > 0:
		return fmt.Sprintf("part %d of %d, seed %d", s.Part, s.Parts, s.Seed)
	case s.Bytes > 0:
		return fmt.Sprintf("about %s, seed %d", formatBytes(s.Bytes), s.Seed)
	}
	return fmt.Sprintf("%g %% of the extents, seed %d", 100*s.Share, s.Seed)
}

// printLost says what the damage costs whom.
func printLost(w io.Writer, list []engine.NamespaceTotals) {
	any := false
	for _, n := range list {
		if n.LostBlocks == 0 {
			continue
		}
		if !any {
			fmt.Fprintln(w, "\nBLOCKS LOST")
			any = true
		}
		name := shorten(n.Model, 30)
		if n.Tenant != "" {
			name += ", tenant " + shorten(n.Tenant, 20)
		}
		fmt.Fprintf(w, "  namespace %d (%s)\n", n.Number, name)
		fmt.Fprintf(w, "    %d of %s, %s of %s\n", n.LostBlocks, plural(n.Blocks, "block"), formatBytes(n.LostRawBytes), formatBytes(n.RawBytes))
	}
}

func printVerdict(w io.Writer, r *engine.VerifyReport) {
	verdict := "no damage"
	if r.Damaged > 0 {
		verdict = fmt.Sprintf("%d damaged", r.Damaged)
	}
	switch {
	case r.Interrupted:
		verdict += " in what was read before the interrupt"
	case r.Sample != nil:
		verdict += " in the sample"
	}
	fmt.Fprintln(w, "\n"+verdict)
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
	for i, g := range d.Diagnoses {
		if i == diagnosesShown {
			fmt.Fprintf(w, "  ... and %d more chunks; see the report of --json\n", len(d.Diagnoses)-i)
			break
		}
		for j, line := range wrap(g.String(), 74) {
			lead := "     "
			if j == 0 {
				lead = "  -> "
			}
			fmt.Fprintln(w, lead+line)
		}
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
