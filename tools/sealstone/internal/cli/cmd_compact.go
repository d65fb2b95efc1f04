package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/sealstone/sealstone/engine"
	"github.com/spf13/cobra"
)

type compactFlags struct {
	out    outputFlags
	rate   byteRate
	target float64
	dryRun bool
}

func newCompact(env *environment) *cobra.Command {
	var f compactFlags
	cmd := &cobra.Command{
		Use:   "compact DIR",
		Short: "Give the dead space of a closed store back",
		Long: `compact works on the closed store in DIR: it moves the live blocks out of
segments of which little is live, and removes those segments, until --target of
what is left is live or nothing more can be gained. No block is lost by it, and
blocks of older epochs are purged. Damaged blocks that it meets are quarantined.

It needs room for one more segment, but none to remove what is all dead. It can
be interrupted or killed at any time; what was moved stays moved.

EXAMPLES
  sealstone compact /var/lib/sealstone --dry-run
  sealstone compact /var/lib/sealstone
  sealstone compact /mnt/nvme/store --target 0.8 --rate 200MiB/s --json

` + exitHelp,
		Args: oneArgument("the store's directory"),
		RunE: func(cmd *cobra.Command, args []string) error { return runCompact(cmd.Context(), env, f, args[0]) },
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().Float64Var(&f.target, "target", 0.9, "stop when this `SHARE` of the bytes is live")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "only tell what would be done")
	f.rate.register(cmd)
	f.out.register(cmd)
	return cmd
}

// compactReport is the engine's report and how long it took to make.
type compactReport struct {
	*engine.CompactReport
	Seconds float64 `json:"seconds"`
}

func runCompact(ctx context.Context, env *environment, f compactFlags, dir string) error {
	if f.target <= 0 || f.target > 1 {
		return fmt.Errorf("%w: --target %v: a share over 0 and up to 1", errUsage, f.target)
	}
	if err := f.out.create(); err != nil {
		return err
	}
	bar := newProgress(env, f.out.quiet, "compact")
	start := time.Now()
	r, err := engine.CompactDir(ctx, dir, engine.CompactOptions{
		TargetShare: f.target, BytesPerSecond: int64(f.rate), DryRun: f.dryRun, Progress: bar.set,
	})
	bar.end()
	if r == nil {
		return err
	}
	report := compactReport{r, time.Since(start).Seconds()}
	if writeErr := f.out.write(env, report, func(w io.Writer) { printCompact(w, dir, report) }); writeErr != nil {
		return writeErr
	}
	if err == nil && r.Damaged > 0 {
		return exitStatus(exitDamaged)
	}
	return err
}

func printCompact(w io.Writer, dir string, r compactReport) {
	t := newRows(w)
	t.row("store", "%s", shorten(dir, 60))
	t.row("before", "%s", spaceText(r.Before))
	if r.DryRun {
		t.row("would be", "%s", spaceText(r.After))
		t.row("would remove", "%s", plural(int64(r.Planned), "segment"))
		t.row("would copy", "%s", formatBytes(r.BytesCopied))
		t.flush()
		fmt.Fprintln(w, "\ndry run: nothing was changed")
		return
	}
	t.row("after", "%s", spaceText(r.After))
	t.row("removed", "%d of %s", r.Removed, plural(int64(r.Planned), "segment"))
	t.row("copied", "%s, %s, %s", plural(r.ExtentsMoved, "extent"), plural(r.AliasesMoved, "alias page"), formatBytes(r.BytesCopied))
	if r.Purged > 0 {
		t.row("purged", "%s of older epochs", plural(r.Purged, "block"))
	}
	if r.Damaged > 0 {
		t.row("quarantined", "%s", plural(r.Damaged, "damaged block"))
	}
	t.row("took", "%.1f s", r.Seconds)
	t.flush()
	for _, k := range r.Kept {
		printList(w, "note: ", []string{fmt.Sprintf("segment %d stays: %s", k.Segment, k.Reason)})
	}
	if r.Interrupted {
		fmt.Fprintln(w, "\ninterrupted; what was moved stays moved, and another run goes on")
	}
}

func spaceText(u engine.SpaceUse) string {
	return fmt.Sprintf("%s, %s, %.1f %% live", plural(int64(u.Segments), "segment"), formatBytes(u.SegmentBytes), 100*u.LiveShare())
}
