package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/sealstone/sealstone/engine"
	"github.com/spf13/cobra"
)

type rebuildFlags struct {
	out  outputFlags
	rate byteRate
}

func newRebuild(env *environment) *cobra.Command {
	var f rebuildFlags
	cmd := &cobra.Command{
		Use:   "rebuild DIR",
		Short: "Make the index of a closed store anew from its segments",
		Long: `rebuild makes the index of the closed store in DIR anew from the segments and
their tombstones, as an open does by itself where the index is lost. Blocks that
were dropped, evicted or quarantined, or that belong to an older epoch, stay
gone. Of several copies of a block the newest put counts.

The old index stays in its place until the new one is whole: a rebuild that is
interrupted, killed or out of space leaves the store as it was.

The blocks' bytes are not read, but for segments that a crash left unsealed;
verify reads them, and repair takes out what is damaged.

EXAMPLES
  sealstone rebuild /var/lib/sealstone
  sealstone rebuild /mnt/nvme/store --rate 200MiB/s --json report.json

` + exitHelp,
		Args: oneArgument("the store's directory"),
		RunE: func(cmd *cobra.Command, args []string) error { return runRebuild(cmd.Context(), env, f, args[0]) },
	}
	cmd.Flags().SortFlags = false
	f.rate.register(cmd)
	f.out.register(cmd)
	return cmd
}

// rebuildReport is the engine's report and how long it took to make.
type rebuildReport struct {
	*engine.RebuildReport
	Seconds float64 `json:"seconds"`
}

func runRebuild(ctx context.Context, env *environment, f rebuildFlags, dir string) error {
	if err := f.out.create(); err != nil {
		return err
	}
	bar := newProgress(env, f.out.quiet, "rebuild")
	start := time.Now()
	r, err := engine.Rebuild(ctx, dir, engine.RebuildOptions{Progress: bar.set, BytesPerSecond: int64(f.rate)})
	bar.end()
	if err != nil {
		return err
	}
	report := rebuildReport{r, time.Since(start).Seconds()}
	if err := f.out.write(env, report, func(w io.Writer) { printRebuild(w, report) }); err != nil {
		return err
	}
	if r.LogDamage != "" || r.LeftOut.Distrusted > 0 {
		return exitStatus(exitDamaged)
	}
	return nil
}

func printRebuild(w io.Writer, r rebuildReport) {
	t := newRows(w)
	t.row("store", "%s", shorten(r.Dir, 60))
	t.row("uuid", "%s", r.UUID)
	t.row("segments", "%d", r.Segments)
	t.row("extents", "%d", r.Extents)
	t.row("blocks", "%d", r.Blocks)
	printLeftOut(t, r.LeftOut)
	t.row("took", "%.1f s", r.Seconds)
	t.flush()
	printList(w, "note: ", r.Notes)
	if r.LogDamage != "" {
		printList(w, "note: ", []string{"the log was damaged: " + r.LogDamage})
	}
	fmt.Fprintln(w, "\nthe index was rebuilt")
}

// printLeftOut lists the reasons that there were.
func printLeftOut(t rows, l engine.LeftOut) {
	for _, c := range []struct {
		what string
		n    int64
	}{
		{"dropped", l.Dropped},
		{"dead (moved, refused or shed)", l.Dead},
		{"quarantined", l.Quarantined},
		{"of an older epoch", l.StaleEpoch},
		{"superseded by a newer or moved copy", l.Superseded},
		{"unsealed and do not verify", l.Unverified},
		{"aliases without their bytes", l.NoBytes},
		{"beside damaged tombstones", l.Distrusted},
	} {
		if c.n > 0 {
			t.row("  left out", "%d %s", c.n, c.what)
		}
	}
}
