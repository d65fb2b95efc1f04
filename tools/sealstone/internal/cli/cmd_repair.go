package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sealstone/sealstone/engine"
	"github.com/spf13/cobra"
)

// actionsShown is how many actions the plan lists; the report has them all.
const actionsShown = 40

type repairFlags struct {
	out            outputFlags
	plan           planFlags
	rate           byteRate
	workers        int
	maxQuarantined int64
}

func newRepair(env *environment) *cobra.Command {
	var f repairFlags
	cmd := &cobra.Command{
		Use:   "repair DIR",
		Short: "Make a damaged store openable and sound",
		Long: `repair reads the whole closed store in DIR, prints what is to be done about the
damage in it, and does it. Bytes are never guessed: a block that does not verify
is quarantined and a miss from then on, with its evidence in DIR/quarantine/;
every other block is served as before. Nothing comes back that was dropped,
evicted, quarantined, or belongs to an older epoch.

What is changed or removed is first copied to DIR/repair-TIME/. That directory
counts against the store's capacity until you remove it; the store does not
need it. A repair that was interrupted or killed can be run again, and a sound
store is not touched.

More bad blocks than --max-quarantined look like bad memory or a bad driver:
then nothing is done. Test the machine before you raise it.

STORE and NAMESPACES are put together from two damaged copies where a keyed sum
proves the result. Where that fails the blocks are lost: restore the file from a
backup, or have the content set aside at the next open (--on-incompatible).

Status 0 says that the store is sound now, and 2 that damage is left, or in a
dry run that there is something to do.

EXAMPLES
  sealstone repair /var/lib/sealstone --dry-run
  sealstone repair /var/lib/sealstone --yes --json report.json
  sealstone repair /mnt/nvme/store --rate 500MiB/s --max-quarantined 1000

` + exitHelp,
		Args: oneArgument("the store's directory"),
		RunE: func(cmd *cobra.Command, args []string) error { return runRepair(cmd.Context(), env, f, args[0]) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	f.plan.register(cmd)
	flags.Int64Var(&f.maxQuarantined, "max-quarantined", 0, "stop if more than `N` blocks are bad\n(0 = an eighth, at least 64; -1 = any)")
	flags.IntVar(&f.workers, "workers", 0, "read `N` segments at a time (0 = up to 4, by the CPUs)")
	f.rate.register(cmd)
	f.out.register(cmd)
	return cmd
}

// repairReport is the engine's report and how long it took to make.
type repairReport struct {
	*engine.RepairReport
	Seconds float64 `json:"seconds"`
}

func runRepair(ctx context.Context, env *environment, f repairFlags, dir string) error {
	if err := f.out.create(); err != nil {
		return err
	}
	bar := newProgress(env, f.out.quiet, "repair")
	start := time.Now()
	planned := func(r *engine.RepairReport) (bool, error) {
		bar.end()
		bar = newProgress(env, f.out.quiet, "repair")
		return f.plan.confirm(env, &f.out, func(w io.Writer) { printPlan(w, r) })
	}
	r, err := engine.Repair(ctx, dir, engine.RepairOptions{
		DryRun: f.plan.dryRun, Confirm: planned, BytesPerSecond: int64(f.rate), Workers: f.workers, MaxQuarantined: f.maxQuarantined,
		Progress: func(what string, done, total int64) { bar.describe(what); bar.set(done, total) },
	})
	bar.end()
	if r == nil {
		return err
	}
	report := repairReport{r, time.Since(start).Seconds()}
	if err != nil {
		_ = f.out.write(env, report, func(io.Writer) {}) // the error is what is told
		return err
	}
	if len(r.Actions) > 0 && f.plan.dryRun {
		if _, err := planned(r); err != nil {
			return err
		}
	}
	if err := f.out.write(env, report, func(w io.Writer) { printRepair(w, report) }); err != nil {
		return err
	}
	if len(r.Left) > 0 || len(r.Actions) > 0 && !r.Repaired {
		return exitStatus(exitDamaged)
	}
	return nil
}

// printPlan prints what will be done.
func printPlan(w io.Writer, r *engine.RepairReport) {
	t := newRows(w)
	t.row("store", "%s", shorten(r.Dir, 60))
	t.row("uuid", "%s", r.UUID)
	t.row("to do", "%s", plural(int64(len(r.Actions)), "action"))
	t.row("lost", "%s, %s", plural(r.LostBlocks, "block"), formatBytes(r.LostRawBytes))
	t.flush()
	for _, n := range r.Namespaces {
		printList(w, "lost: ", []string{fmt.Sprintf("namespace %d, tenant %q, model %q: %d of %s, %s",
			n.Number, n.Tenant, n.Model, n.LostBlocks, plural(n.Blocks, "block"), formatBytes(n.LostRawBytes))})
	}
	for i, a := range r.Actions {
		if i == actionsShown {
			fmt.Fprintf(w, "\n... and %d more; see the report of --json\n", len(r.Actions)-actionsShown)
			break
		}
		printAction(w, a)
	}
	if r.Refused != "" {
		fmt.Fprintln(w)
		printList(w, "refused: ", []string{r.Refused})
	}
}

func printAction(w io.Writer, a engine.RepairAction) {
	fmt.Fprintf(w, "\n%s %s\n", strings.ToUpper(string(a.Kind)), shorten(a.File, 60))
	printList(w, "  ", []string{a.What})
	printList(w, "  why: ", []string{a.Why})
	if a.Blocks > 0 {
		fmt.Fprintf(w, "  lost: %s, %s\n", plural(a.Blocks, "block"), formatBytes(a.RawBytes))
	}
}

// printRepair prints what came of it.
func printRepair(w io.Writer, r repairReport) {
	for i, d := range r.Left {
		if i == damageShown {
			fmt.Fprintf(w, "... and %d more; see the report of --json\n", len(r.Left)-damageShown)
			break
		}
		printDamage(w, d)
	}
	if len(r.Left) > 0 {
		fmt.Fprintf(w, "\n%d left as they are\n", len(r.Left))
	}
	switch {
	case r.Repaired:
		fmt.Fprintf(w, "\nrepaired in %.1f s: %s, %s lost\n", r.Seconds, plural(int64(len(r.Actions)), "action"), plural(r.LostBlocks, "block"))
	case len(r.Actions) == 0 && len(r.Left) == 0:
		fmt.Fprintln(w, "nothing to repair")
	}
	if r.Kept != "" {
		printList(w, "kept: ", []string{fmt.Sprintf("%s in %s/%s, which counts against the capacity until it is removed", formatBytes(r.KeptBytes), r.Dir, r.Kept)})
	}
}
