package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/tools/internal/replay"
	"github.com/spf13/cobra"
)

type replayFlags struct {
	out                 outputFlags
	dir                 string
	block, capacity     size
	requests, workers   int
	killAfter, dropEach int
	killDelay           time.Duration
	seed                uint64
	incompatible        incompatibleFlag
}

func newReplay(env *environment) *cobra.Command {
	f := replayFlags{block: 64 << 10, capacity: 2 << 30}
	cmd := &cobra.Command{
		Use:   "replay TRACE --dir DIR",
		Short: "Drive a store with a recorded workload and check every byte",
		Long: `replay reads a trace (a Mooncake file, an agentic session, or a directory of
sessions) and does for each request what an inference engine would: match the
prefix of the request's blocks, get the blocks that are stored, put the rest.
The bytes of each block follow from its id alone, and every byte that the store
returns is compared with them, apart from the store's own sums.

The store in DIR is created if it is not there, and kept.

With --kill-after N the store runs in a child process, which is killed in the
first put after N requests. The blocks that were acknowledged by then must all
be found, and the dropped ones must not; then the replay goes on.

EXAMPLES
  sealstone replay conversation_trace.jsonl --dir /var/tmp/store
  sealstone replay sessions/ --dir store --block-size 256KiB --capacity 8GiB
  sealstone replay trace.jsonl --dir store --requests 1500 --json report.json
  sealstone replay trace.jsonl --dir store --capacity 4GiB --kill-after 700

` + exitHelp,
		Args: oneArgument("the trace"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runReplay(cmd.Context(), env, f, args[0])
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.dir, "dir", "", "the store's `DIR`")
	flags.Var(&f.block, "block-size", "bytes of each block")
	flags.Var(&f.capacity, "capacity", "most bytes that the store may hold")
	flags.IntVar(&f.requests, "requests", 0, "replay only the first `N` requests (0 = all)")
	flags.IntVar(&f.workers, "concurrency", 1, "replay `N` requests at a time")
	flags.Uint64Var(&f.seed, "seed", 0, "seed of the blocks' bytes")
	flags.IntVar(&f.killAfter, "kill-after", 0, "kill the store in a put after `N` requests")
	flags.DurationVar(&f.killDelay, "wait-kill-after", 0, "let that put run for `TIME` first")
	flags.IntVar(&f.dropEach, "drop-every", 97, "before the kill drop one of `N` blocks")
	f.incompatible.register(cmd)
	f.out.register(cmd)
	if err := cmd.MarkFlagRequired("dir"); err != nil {
		fmt.Fprintln(env.stderr, err)
	}
	return cmd
}

func runReplay(ctx context.Context, env *environment, f replayFlags, path string) error {
	if err := f.out.create(); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the own program for the child: %w", err)
	}
	bar := newProgress(env, f.out.quiet, "replay")
	report, err := replay.Run(ctx, replay.Config{
		TracePath: path, Dir: f.dir, BlockBytes: int64(f.block), CapacityBytes: int64(f.capacity),
		OnIncompatible: engine.OnIncompatible(f.incompatible),
		Requests:       f.requests, Concurrency: f.workers, Seed: f.seed,
		KillAfter: f.killAfter, KillDelay: f.killDelay, DropEvery: f.dropEach,
		Child: []string{self, replayChild}, Open: replay.OpenEngine,
		Progress: func(done, total int) { bar.set(int64(done), int64(total)) },
	})
	bar.end()
	if err != nil {
		return err
	}
	if err := f.out.write(env, report, func(w io.Writer) { printReplay(w, report) }); err != nil {
		return err
	}
	if broken := report.Broken(); len(broken) > 0 {
		fmt.Fprintln(env.stderr, "sealstone: broken promise: "+strings.Join(broken, "; "))
		return exitStatus(exitError)
	}
	return nil
}

// replayChild is the hidden command that runs the store's side of a kill.
const replayChild = "replay-child"

func newReplayChild(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:    replayChild,
		Hidden: true,
		Short:  "The process that replay --kill-after kills",
		Args:   noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := replay.RunChild(cmd.Context(), env.stdin, env.stdout, replay.OpenEngine)
			if errors.Is(err, replay.ErrReported) {
				return exitStatus(exitError) // the parent says it
			}
			return err
		},
	}
}

func printReplay(w io.Writer, r *replay.Report) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	defer t.Flush()
	row := func(name, format string, args ...any) { fmt.Fprintf(t, name+"\t"+format+"\n", args...) }
	row("trace", "%s (%s)", shorten(r.Trace, 50), r.Format)
	row("requests", "%d with %d blocks of %s", r.Requests, r.Blocks, formatBytes(r.BlockBytes))
	row("hit rate", "%.2f %% (%.2f %% with an infinite cache)", 100*r.HitRate, 100*r.HitRateInfinite)
	row("verified", "%s, %d wrong bytes", formatBytes(r.VerifiedBytes), r.WrongBytes)
	row("put", "%s stored, %d blocks shed, %d evicted", formatBytes(r.PutBytes), r.Shed, r.Evicted)
	row("write amplification", "%.3f", r.WriteAmplification)
	row("disk, most", "%s of %s", formatBytes(r.DiskBytesMax), formatBytes(r.CapacityBytes))
	row("match", "p50 %.0f us, p99 %.0f us", r.MatchP50US, r.MatchP99US)
	row("get, a batch", "p50 %.0f us, p99 %.0f us", r.GetP50US, r.GetP99US)
	row("put, a batch", "p50 %.0f us, p99 %.0f us", r.PutP50US, r.PutP99US)
	row("statuses", "get %s; put %s", formatCounts(r.Statuses.Get), formatCounts(r.Statuses.Put))
	if k := r.KillReport; k != nil {
		row("killed", "after %d requests, %s", k.KilledAfter, inPut(k.KilledInPut))
		row("reopened", "in %.1f ms", k.ReopenMS)
		row("acknowledged", "%d: %d found, %d missing, %d wrong, %d evicted before", k.Acknowledged, k.ReopenFound, k.ReopenMissing, k.ReopenWrong, k.ReopenEvicted)
		row("dropped", "%d: %d came back", k.Dropped, k.Resurrected)
		row("not acknowledged", "%d found", k.UnacknowledgedFound)
	}
	row("took", "%.1f s", r.Seconds)
	for _, p := range r.Problems {
		row("problem", "%s", p)
	}
}

func inPut(yes bool) string {
	if yes {
		return "in the middle of a put"
	}
	return "between two puts"
}

// formatCounts is "Miss 3, OK 10" in the order of the names.
func formatCounts(m map[string]int64) string {
	var parts []string
	for _, k := range sortedKeys(m) {
		parts = append(parts, fmt.Sprintf("%s %d", k, m[k]))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// shorten keeps the end of a path, which tells more than its beginning.
func shorten(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return "…" + string(r[len(r)-most+1:])
	}
	return s
}
