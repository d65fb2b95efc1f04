package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sealstone/sealstone/engine"
	"github.com/spf13/cobra"
)

type dropFlags struct {
	out         outputFlags
	plan        planFlags
	namespaces  []uint
	tenant      string
	olderThan   time.Duration
	quarantined bool
}

func newDrop(env *environment) *cobra.Command {
	var f dropFlags
	cmd := &cobra.Command{
		Use:   "drop DIR",
		Short: "Drop blocks of a closed store, or what its quarantine keeps",
		Long: `drop removes blocks from the closed store in DIR for good: not even an index
rebuilt from the segments brings one back. Which ones the flags say; at least
one is needed, and all that are given must hold. Namespaces that are meant
as a whole get a new epoch instead of a tombstone for each block. The disk
space comes back with compact.

The store keeps no time for a block. --older-than goes by the last write to its
segment: it never drops a younger block, and may leave an older one that shares
its segment with younger ones.

--quarantined means not blocks but the evidence in DIR/quarantine: copies of
blocks that were found bad, which are out of the index already.

On a terminal it asks first, unless --yes is given.

EXAMPLES
  sealstone drop /var/lib/sealstone --tenant acme --dry-run
  sealstone drop /var/lib/sealstone --namespace 3 --older-than 72h --yes
  sealstone drop /var/lib/sealstone --quarantined

` + exitHelp,
		Args: oneArgument("the store's directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var tenant *string
			if cmd.Flags().Changed("tenant") {
				tenant = &f.tenant
			}
			return runDrop(cmd.Context(), env, f, tenant, args[0])
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().UintSliceVar(&f.namespaces, "namespace", nil, "blocks of namespace `N`; may be repeated")
	cmd.Flags().StringVar(&f.tenant, "tenant", "", "blocks of tenant `T`")
	cmd.Flags().DurationVar(&f.olderThan, "older-than", 0, "blocks whose segment was last written `AGE` ago, as 72h")
	cmd.Flags().BoolVar(&f.quarantined, "quarantined", false, "the evidence that quarantine keeps")
	f.plan.register(cmd)
	f.out.register(cmd)
	return cmd
}

func runDrop(ctx context.Context, env *environment, f dropFlags, tenant *string, dir string) error {
	if len(f.namespaces) == 0 && tenant == nil && f.olderThan == 0 && !f.quarantined {
		return fmt.Errorf("%w: say what to drop: --namespace, --tenant, --older-than or --quarantined", errUsage)
	}
	if f.olderThan < 0 {
		return fmt.Errorf("%w: --older-than %v is negative", errUsage, f.olderThan)
	}
	namespaces, err := namespaceNumbers(f.namespaces)
	if err != nil {
		return err
	}
	if err := f.out.create(); err != nil {
		return err
	}
	if f.quarantined {
		return dropEvidence(ctx, env, f, dir, engine.EvidenceOptions{Namespaces: namespaces, Tenant: tenant, OlderThan: f.olderThan})
	}
	return dropBlocks(ctx, env, f, dir, engine.DropOptions{
		Selection: engine.Selection{Namespaces: namespaces, Tenant: tenant}, OlderThan: f.olderThan,
	})
}

// namespaceNumbers are the numbers given by --namespace.
func namespaceNumbers(given []uint) ([]uint32, error) {
	var out []uint32
	for _, n := range given {
		if n == 0 || uint64(n) > 1<<32-1 {
			return nil, fmt.Errorf("%w: --namespace %d is no number of a namespace", errUsage, n)
		}
		out = append(out, uint32(n))
	}
	return out, nil
}

func dropBlocks(ctx context.Context, env *environment, f dropFlags, dir string, o engine.DropOptions) error {
	o.DryRun = true
	r, err := engine.DropDir(ctx, dir, o)
	if err != nil {
		return err
	}
	goOn, err := f.plan.confirm(env, &f.out, func(w io.Writer) { printDrop(w, "to drop", r) })
	if err != nil {
		return err
	}
	if !goOn {
		return f.out.write(env, r, func(io.Writer) {})
	}
	bar := newProgress(env, f.out.quiet, "drop")
	o.DryRun, o.Progress = false, bar.set
	r, err = engine.DropDir(ctx, dir, o)
	bar.end()
	if r == nil {
		return err
	}
	return errors.Join(f.out.write(env, r, func(w io.Writer) { printDrop(w, "dropped", r) }), err)
}

func printDrop(w io.Writer, verb string, r *engine.DropReport) {
	t := newRows(w)
	t.row(verb, "%s, %s", plural(r.Blocks, "block"), formatBytes(r.RawBytes))
	for _, n := range r.Namespaces {
		how := ""
		if n.NewEpoch {
			how = ", by a new epoch"
		}
		t.row(fmt.Sprintf("  namespace %d", n.Number), "%s, %s of tenant %s%s",
			plural(n.Blocks, "block"), formatBytes(n.RawBytes), shorten(fmt.Sprintf("%q", n.Tenant), 20), how)
	}
	t.flush()
	if r.UnknownAge > 0 {
		printList(w, "note: ", []string{plural(int64(r.UnknownAge), "segment") + " stay: the file system does not say how old they are"})
	}
	if r.Interrupted {
		fmt.Fprintln(w, "\ninterrupted; what was dropped stays dropped, and another run goes on")
	}
}

func dropEvidence(ctx context.Context, env *environment, f dropFlags, dir string, o engine.EvidenceOptions) error {
	o.DryRun = true
	r, err := engine.DropEvidenceDir(ctx, dir, o)
	if err != nil {
		return err
	}
	goOn, err := f.plan.confirm(env, &f.out, func(w io.Writer) { printEvidence(w, "to remove", r) })
	if err != nil {
		return err
	}
	if goOn {
		o.DryRun = false
		if r, err = engine.DropEvidenceDir(ctx, dir, o); err != nil {
			return err
		}
	}
	return f.out.write(env, r, func(w io.Writer) {
		if goOn {
			printEvidence(w, "removed", r)
		}
	})
}

func printEvidence(w io.Writer, verb string, r *engine.EvidenceReport) {
	t := newRows(w)
	t.row(verb, "%s of evidence, %s on disk", plural(int64(r.Files), "file"), formatBytes(r.Bytes))
	t.row("kept", "%s", plural(int64(r.Kept), "file"))
	t.flush()
}
