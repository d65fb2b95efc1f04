package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/sealstone/sealstone/tools/internal/bench"
	"github.com/spf13/cobra"
)

type benchFlags struct {
	out                    outputFlags
	dir, path, plot        string
	workloads              []string
	block, bytes, capacity size
	batch, depth, workers  int
	rounds, planes         int
	duration               time.Duration
	fio, latency, bounce   bool
}

func newBench(env *environment) *cobra.Command {
	f := benchFlags{block: 1 << 20, bytes: 1 << 30}
	cmd := &cobra.Command{
		Use:   "bench --dir DIR",
		Short: "Measure a store, and fio beside it",
		Long: `bench measures a new store on the file system of DIR:

  offload  puts new blocks; the flush at the end belongs to the time
  onboard  gets them back, cold, in a shuffled order, verified
  mixed    seven calls of gets for three of puts
  match    looks up chains of 1,000 hashes, or of all blocks if there are fewer
  ranges   gets an eighth of the planes of each block

Every page of every block has bytes of its own. With --compare-fio fio does the
same in alternating rounds: reads of as many bytes in requests of the same size
and at the same depth, or a write of a new file and its sync, with the engine
of fio that is the fastest here. Figures are medians over the rounds; the ratio
is the median of the ratios of each round. A mean depth below 0.8 of the depth
asked for is a failure: the figures would not be what they say.

Stores are made with segments of 256 MiB, as one of 16 GiB would be, where there
is enough data for that and --capacity is not given.

DIR is made if it is not there, and removed at the end. In a DIR that exists a
new directory is made and removed; nothing else is touched.

EXAMPLES
  sealstone bench --dir /mnt/nvme
  sealstone bench --dir /mnt/nvme --workload onboard --batch 64 --bytes 4GiB \
      --compare-fio --json bench.json --plot bench.svg
  sealstone bench --dir /dev/shm/bench --workload offload,ranges --depth 16

` + exitHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.workloads = append(f.workloads, args...)
			return runBench(cmd.Context(), env, f)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.dir, "dir", "", "measure in `DIR`")
	flags.StringSliceVar(&f.workloads, "workload", nil, "`LIST` of workloads (default offload,onboard,match)")
	flags.Var(&f.block, "block-size", "bytes of each block")
	flags.IntVar(&f.batch, "batch", 64, "`N` blocks in one call")
	flags.Var(&f.bytes, "bytes", "bytes of each round")
	flags.DurationVar(&f.duration, "duration", 0, "end rounds after `TIME`; reads begin anew till then")
	flags.IntVar(&f.rounds, "rounds", 5, "measure `N` rounds")
	flags.IntVar(&f.depth, "depth", 0, "`N` requests in flight (default: batch, at most 64)")
	flags.IntVar(&f.workers, "concurrency", 0, "`N` calls at a time (default: what keeps the depth)")
	flags.StringVar(&f.path, "path", bench.PathAuto, "`NAME` of the I/O path")
	flags.BoolVar(&f.bounce, "bounce", false, "get by way of the store's buffers")
	flags.IntVar(&f.planes, "planes", 0, "`N` planes a block (default 1, of ranges 32)")
	flags.Var(&f.capacity, "capacity", "of the store (default: room for all)")
	flags.BoolVar(&f.fio, "compare-fio", false, "run fio in alternating rounds")
	flags.BoolVar(&f.latency, "latency", false, "onboard: also single gets, one at a time")
	flags.StringVar(&f.plot, "plot", "", "draw the rounds and latencies to `FILE`.svg")
	f.out.register(cmd)
	if err := cmd.MarkFlagRequired("dir"); err != nil {
		fmt.Fprintln(env.stderr, err)
	}
	return cmd
}

func runBench(ctx context.Context, env *environment, f benchFlags) (err error) {
	plot, err := newPlotFile(f.plot)
	if err != nil {
		return err
	}
	if err := f.out.create(); err != nil {
		return err
	}
	dir, remove, err := benchDir(f.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	bar := newProgress(env, f.out.quiet, "bench")
	report, err := bench.Run(ctx, bench.Config{
		Dir: dir, Workloads: f.workloads, BlockBytes: int64(f.block), Bytes: int64(f.bytes),
		BatchBlocks: f.batch, Depth: f.depth, Concurrency: f.workers, Rounds: f.rounds, Duration: f.duration,
		Planes: f.planes, Path: f.path, Bounce: f.bounce, CapacityBytes: int64(f.capacity),
		CompareFio: f.fio, Latency: f.latency,
		Progress: func(p bench.Progress) {
			bar.describe(describeRound(p))
			bar.set(p.Done, p.Total)
		},
	})
	bar.end()
	if report == nil {
		return err
	}
	// The report of a run that was too shallow is written as well; that it
	// fails is said last.
	if failed := errors.Join(f.out.write(env, report, func(w io.Writer) { printBench(w, report) }), plot.write(report)); failed != nil {
		return errors.Join(failed, err)
	}
	for _, r := range report.Results {
		if r.Wrong > 0 {
			fmt.Fprintf(env.stderr, "sealstone: broken promise: %d blocks with wrong bytes in %s\n", r.Wrong, r.Workload)
			return errors.Join(exitStatus(exitError), err)
		}
	}
	return err
}

func describeRound(p bench.Progress) string {
	if p.Round == 0 {
		return p.What
	}
	return fmt.Sprintf("%s %d/%d", p.What, p.Round, p.Rounds)
}

// benchDir is a directory to work in, below or at dir, and what removes it.
func benchDir(dir string) (work string, remove func() error, err error) {
	switch err := os.Mkdir(dir, 0o700); {
	case err == nil:
		return dir, func() error { return os.RemoveAll(dir) }, nil
	case !errors.Is(err, os.ErrExist):
		return "", nil, fmt.Errorf("bench: %w", err)
	}
	if _, err := os.Lstat(dir + "/STORE"); err == nil {
		return "", nil, fmt.Errorf("%s is a store; name another directory of its file system", strings.TrimSuffix(dir, "/"))
	}
	work, err = os.MkdirTemp(dir, "sealstone-bench-")
	if err != nil {
		return "", nil, fmt.Errorf("bench: %w", err)
	}
	return work, func() error { return os.RemoveAll(work) }, nil
}
