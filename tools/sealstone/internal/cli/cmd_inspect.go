package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sealstone/sealstone/engine"
	"github.com/spf13/cobra"
)

func newInspect(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "inspect",
		Short: "Look into a closed store without changing it",
		Long: `inspect shows what is in a closed store: the store as a whole, its segments, one
extent, the log, the index, the layouts of its namespaces, one block. Nothing is
changed.

EXAMPLES
  sealstone inspect store /var/lib/sealstone
  sealstone inspect segments /var/lib/sealstone
  sealstone inspect block /var/lib/sealstone 9f86d081884c7d659a2feaa0c55ad015

` + exitHelp,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, add := range inspections {
		cmd.AddCommand(add(env))
	}
	return cmd
}

// inspections are the subcommands of inspect, in the order of the help.
var inspections = []func(*environment) *cobra.Command{
	newInspectStore, newInspectSegments, newInspectExtent, newInspectWAL,
	newInspectIndex, newInspectLayouts, newInspectBlock,
}

// shown is what an inspection comes to.
type shown struct {
	report  any
	table   func(io.Writer)
	damaged bool
}

// look runs an inspection on the store in dir and shows what it found.
func look(ctx context.Context, env *environment, out *outputFlags, dir string, do func(context.Context, *engine.Inspector) (shown, error)) (err error) {
	if err := out.create(); err != nil {
		return err
	}
	i, err := engine.Inspect(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, i.Close()) }()
	s, err := do(ctx, i)
	if err != nil {
		return err
	}
	if err := out.write(env, s.report, s.table); err != nil {
		return err
	}
	if s.damaged {
		return exitStatus(exitDamaged)
	}
	return nil
}

// arguments wants exactly these arguments.
func arguments(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		return usageError(cmd, fmt.Errorf("want %d arguments, %v; got %d", len(names), names, len(args)))
	}
}

func newInspectStore(env *environment) *cobra.Command {
	var out outputFlags
	cmd := &cobra.Command{
		Use:   "store DIR",
		Short: "What a store is and what its parts hold",
		Long: `store shows identity and geometry of the store in DIR, what its parts take on
disk, and what the next open will have to do.

EXAMPLES
  sealstone inspect store /var/lib/sealstone
  sealstone inspect store /var/lib/sealstone --json

` + exitHelp,
		Args: oneArgument("the store's directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return look(cmd.Context(), env, &out, args[0], func(_ context.Context, i *engine.Inspector) (shown, error) {
				v := i.Store()
				return shown{report: v, table: func(w io.Writer) { printStore(w, v) }}, nil
			})
		},
	}
	out.register(cmd)
	return cmd
}

func printStore(w io.Writer, v engine.StoreView) {
	t := newRows(w)
	t.row("store", "%s", shorten(v.Dir, 60))
	t.row("uuid", "%s", v.UUID)
	t.row("created", "%s", v.Created.Format("2006-01-02 15:04:05 MST"))
	t.row("formats", "store %d, index %d", v.Version, v.IndexFormat)
	t.row("segment size", "%s, aligned to %d bytes", formatBytes(v.SegmentBytes), v.AlignmentBytes)
	t.row("namespaces", "%d", v.Namespaces)
	t.row("segments", "%d, %d sealed, %s on disk, %s live", v.Segments, v.Sealed, formatBytes(v.SegmentDiskBytes), formatBytes(v.LiveBytes))
	t.row("log", "%s on disk, position %d to %d, durable to %d", formatBytes(v.LogDiskBytes), v.Log.First, v.Log.End, v.Log.DurableMark)
	t.row("index", "%s on disk", formatBytes(v.IndexDiskBytes))
	t.row("quarantine", "%s on disk", formatBytes(v.QuarantineDiskBytes))
	t.row("paths", "%s", pathsText(v.Probe))
	t.row("reserved", "segments below %d, sequences below %d", v.SegmentBound, v.SequenceBound)
	t.flush()
	var todo []string
	if v.Rebuild != "" {
		todo = append(todo, "the index will be rebuilt: "+v.Rebuild)
	}
	if v.Log.Pending > 0 {
		todo = append(todo, fmt.Sprintf("%d log records will be applied to the index", v.Log.Pending))
	}
	if v.Log.Unproven > 0 {
		todo = append(todo, fmt.Sprintf("%d log records will be dropped: a power cut took their extents", v.Log.Unproven))
	}
	printList(w, "next open: ", append(todo, v.Findings...))
}

func newInspectLayouts(env *environment) *cobra.Command {
	var out outputFlags
	cmd := &cobra.Command{
		Use:   "layouts DIR",
		Short: "The namespaces and the layout of each",
		Long: `layouts lists the namespaces of the store in DIR: number, tenant, epoch, and all
fields of the layout that decides what their blocks' bytes mean.

EXAMPLES
  sealstone inspect layouts /var/lib/sealstone
  sealstone inspect layouts /var/lib/sealstone --json

` + exitHelp,
		Args: oneArgument("the store's directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return look(cmd.Context(), env, &out, args[0], func(_ context.Context, i *engine.Inspector) (shown, error) {
				v := i.Namespaces()
				return shown{report: v, table: func(w io.Writer) { printLayouts(w, v) }}, nil
			})
		},
	}
	out.register(cmd)
	return cmd
}
