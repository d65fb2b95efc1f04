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

func newStats(env *environment) *cobra.Command {
	var out outputFlags
	cmd := &cobra.Command{
		Use:   "stats DIR",
		Short: "What a closed store holds, by namespace, and what that takes",
		Long: `stats counts what is in the closed store in DIR: blocks and bytes of each
namespace, with its epoch and root hash, what sharing and compression gain, what
is dead, and how full the segments are. It reads the index, footers and headers,
no blocks, and changes nothing; see verify for damage.

raw is what was put; stored is what the extents in use take; ratio is raw to
stored without headers, each content once; dead are extents that nothing refers
to, which compact gives back.

EXAMPLES
  sealstone stats /var/lib/sealstone
  sealstone stats /var/lib/sealstone --json

` + exitHelp,
		Args: oneArgument("the store's directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return look(cmd.Context(), env, &out, args[0], func(ctx context.Context, i *engine.Inspector) (shown, error) {
				bar := newProgress(env, out.quiet, "stats")
				st, err := i.Stats(ctx, bar.set)
				bar.end()
				return shown{report: st, table: func(w io.Writer) { printStats(w, st) }}, err
			})
		},
	}
	out.register(cmd)
	return cmd
}

func printStats(w io.Writer, st *engine.StoreStats) {
	t := newRows(w)
	h := st.Totals
	t.row("store", "%s", shorten(st.Dir, 60))
	t.row("uuid", "%s", st.UUID)
	t.row("on disk", "%s; file system %s, %s available", formatBytes(st.DiskBytes), formatBytes(st.FilesystemBytes), formatBytes(st.AvailableBytes))
	t.row("  segments", "%s in %d, %d sealed", formatBytes(st.SegmentDiskBytes), st.Segments, st.Sealed)
	t.row("  log", "%s", formatBytes(st.LogDiskBytes))
	t.row("  index", "%s%s", formatBytes(st.IndexDiskBytes), perBlock(st.IndexDiskBytes, h.Blocks))
	t.row("  quarantine", "%s", formatBytes(st.QuarantineDiskBytes))
	t.row("blocks", "%d, %s as they were put", h.Blocks, formatBytes(h.RawBytes))
	t.row("  sharing", "%s, which saves %s", plural(h.SharedBlocks, "block"), formatBytes(h.SharedRawBytes))
	t.row("  stored", "%s, raw to stored %.3f", formatBytes(h.StoredBytes), h.Ratio)
	t.row("dead", "%s", formatBytes(h.DeadBytes))
	t.row("unused", "%s of segments", formatBytes(st.UnusedBytes))
	printScrub(t, st.Scrub)
	t.flush()
	printHeld(w, st.Namespaces)
	printFill(w, st)
	if st.Rebuild != "" {
		fmt.Fprintln(w)
		printList(w, "next open: ", []string{"the index will be rebuilt: " + st.Rebuild})
	}
	if len(st.Warnings) > 0 {
		fmt.Fprintln(w)
		printList(w, "warning: ", st.Warnings)
	}
}

// printScrub says how the cycle stands, and what the last one found.
func printScrub(t rows, left *engine.ScrubLeft) {
	if left == nil {
		t.row("scrub", "none yet")
		return
	}
	for _, c := range []struct {
		name string
		engine.ScrubRound
	}{{"scrub", left.Cycle}, {"  before", left.Last}} {
		if c.Number == 0 {
			continue
		}
		when := "since " + c.Start.UTC().Format(time.DateOnly)
		if !c.End.IsZero() {
			when = "ended " + c.End.UTC().Format(time.DateOnly)
		}
		t.row(c.name, "cycle %d %s: %s, %s; %d bad, %d damaged, %d unreadable", c.Number, when,
			plural(c.Blocks, "block"), formatBytes(c.Bytes), c.Bad, c.Damaged, c.Unreadable)
	}
}

func perBlock(bytes, blocks int64) string {
	if blocks == 0 {
		return ""
	}
	return fmt.Sprintf(", %d B a block", bytes/blocks)
}

func printHeld(w io.Writer, list []engine.NamespaceStats) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "namespace\tepoch\tblocks\tshared\traw\tstored\tratio\tdead\t")
	for _, n := range list {
		fmt.Fprintf(t, "%d\t%d\t%d\t%d\t%s\t%s\t%.3f\t%s\t\n", n.Number, n.Epoch, n.Blocks, n.SharedBlocks,
			formatBytes(n.RawBytes), formatBytes(n.StoredBytes), n.Ratio, formatBytes(n.DeadBytes))
	}
	t.Flush()
	for _, n := range list {
		fmt.Fprintf(w, "%d: %s, tenant %q\n   root hash %s\n", n.Number, shorten(n.Model, 36), shorten(n.Tenant, 20), shorten(n.RootHash, 64))
	}
}

func printFill(w io.Writer, st *engine.StoreStats) {
	if st.Segments == 0 {
		return
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "live share\tsegments\tsize\tlive\tdead\t")
	for i, g := range st.ByFill {
		if g.Segments > 0 {
			printGroup(t, fmt.Sprintf("%d to %d %%", 10*i, 10*i+10), g)
		}
	}
	t.Flush()
	if len(st.ByAge) < 2 {
		return
	}
	fmt.Fprintln(w)
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "by age\tsegments\tsize\tlive\tdead\t")
	for i, g := range st.ByAge {
		name := fmt.Sprint(i + 1)
		switch i {
		case 0:
			name = "oldest"
		case len(st.ByAge) - 1:
			name = "newest"
		}
		printGroup(t, name, g)
	}
	t.Flush()
}

func printGroup(w io.Writer, name string, g engine.SegmentGroup) {
	fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t\n", name, g.Segments, formatBytes(g.FileBytes), formatBytes(g.LiveBytes), formatBytes(g.DeadBytes))
}
