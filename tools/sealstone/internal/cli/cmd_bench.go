package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/sealstone/sealstone/tools/internal/bench"
	"github.com/sealstone/sealstone/tools/internal/replay"
	"github.com/spf13/cobra"
)

type benchFlags struct {
	out                    outputFlags
	dir                    string
	block, bytes, capacity size
	batch, workers, rounds int
}

func newBench(env *environment) *cobra.Command {
	f := benchFlags{block: 1 << 20, bytes: 1 << 30}
	cmd := &cobra.Command{
		Use:   "bench [offload|onboard|match]... --dir DIR",
		Short: "Measure puts, gets and matches, and what they cost",
		Long: `bench measures a new store in DIR, which must not exist, and removes it at the
end: offload puts new blocks, onboard gets them back in another order, match
looks up chains of stored blocks. Every block has bytes of its own. A flush at
the end of each round belongs to the measured time. Figures are medians.

EXAMPLES
  sealstone bench --dir /mnt/nvme/bench
  sealstone bench onboard --dir /mnt/nvme/bench --block-size 256KiB --batch 64
  sealstone bench --dir /dev/shm/bench --concurrency 4 --json bench.json

` + exitHelp,
		RunE: func(cmd *cobra.Command, args []string) error { return runBench(cmd.Context(), env, f, args) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.dir, "dir", "", "make the store in `DIR`")
	flags.Var(&f.block, "block-size", "bytes of each block")
	flags.Var(&f.bytes, "bytes", "bytes of each round")
	flags.Var(&f.capacity, "capacity", "of the store (default: room for all rounds)")
	flags.IntVar(&f.batch, "batch", 16, "`N` blocks in one call")
	flags.IntVar(&f.workers, "concurrency", 1, "`N` calls at a time")
	flags.IntVar(&f.rounds, "rounds", 3, "measure `N` rounds")
	f.out.register(cmd)
	if err := cmd.MarkFlagRequired("dir"); err != nil {
		fmt.Fprintln(env.stderr, err)
	}
	return cmd
}

func runBench(ctx context.Context, env *environment, f benchFlags, workloads []string) (err error) {
	if err := f.out.create(); err != nil {
		return err
	}
	if _, err := os.Lstat(f.dir); err == nil {
		return fmt.Errorf("%s exists; name a new directory, it is removed at the end", f.dir)
	}
	if f.capacity == 0 {
		// Half as much again: headers, and blocks that fill no segment to its
		// end; and what the log and the index reserve.
		f.capacity = f.bytes*size(f.rounds+1)*3/2 + 512<<20
	}
	s, err := replay.OpenEngine(ctx, replay.Config{Dir: f.dir, BlockBytes: int64(f.block), CapacityBytes: int64(f.capacity)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close(context.WithoutCancel(ctx)), os.RemoveAll(f.dir)) }()
	bar := newProgress(env, f.out.quiet, "bench")
	report, err := bench.Run(ctx, s, bench.Config{
		Workloads: workloads, BlockBytes: int64(f.block), BatchBlocks: f.batch, Bytes: int64(f.bytes),
		Concurrency: f.workers, Rounds: f.rounds, Progress: bar.set,
	})
	bar.end()
	if err != nil {
		return err
	}
	if err := f.out.write(env, report, func(w io.Writer) { printBench(w, report) }); err != nil {
		return err
	}
	for _, r := range report.Results {
		if r.Wrong > 0 {
			fmt.Fprintf(env.stderr, "sealstone: broken promise: %d blocks with wrong bytes in %s\n", r.Wrong, r.Workload)
			return exitStatus(exitError)
		}
	}
	return nil
}

func printBench(w io.Writer, r *bench.Report) {
	fmt.Fprintf(w, "blocks of %s, %d a call, %d calls at a time; median of %d rounds of %s\n\n",
		formatBytes(r.BlockBytes), r.BatchBlocks, r.Concurrency, r.Rounds, formatBytes(r.RoundBytes))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	defer t.Flush()
	fmt.Fprintln(t, "workload\tGiB/s\tCPU s/GiB\tcalls/s\tp50 us\tp99 us\tfailed\twrong\t")
	for _, x := range r.Results {
		fmt.Fprintf(t, "%s\t%.2f\t%.3f\t%.0f\t%.0f\t%.0f\t%d\t%d\t\n",
			x.Workload, x.GiBPerSecond, x.CPUSecondsPerGiB, x.CallsPerSecond, x.P50US, x.P99US, x.Failed, x.Wrong)
	}
}
