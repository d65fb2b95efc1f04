package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sealstone/sealstone/tools/internal/load"
	"github.com/spf13/cobra"
)

type loadFlags struct {
	out    outputFlags
	c      load.Config
	values []string
}

func newLoad(env *environment) *cobra.Command {
	var f loadFlags
	cmd := &cobra.Command{
		Use:   "load --server ADDR",
		Short: "Put load on a server and look at every byte that comes back",
		Long: `load opens many connections to a server that runs. Workers set, get and delete
keys and put and get blocks, alone and in pipelines; slow connections take their
time with every byte; rude ones vanish in the middle of frames, or send what is
none. The others stay open.

Values follow from key and version, so every byte is compared, and a value that
is older than what was acknowledged is noticed. A server that evicts may answer
that there is nothing. Keys begin with --prefix; they stay when it is over, and
nobody else may write them.

EXAMPLES
  sealstone load --server 127.0.0.1:6380
  sealstone load --server unix:/run/sealstone.sock --server 127.0.0.1:6380 \
      --connections 1000 --slow 16 --rude 8 --duration 10m --json load.json

` + exitHelp,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return runLoad(cmd.Context(), env, f) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringArrayVar(&f.c.Servers, "server", nil, "`ADDR` is host:port or unix:PATH; may be repeated")
	flags.StringVar(&f.c.User, "user", "default", "log in as `NAME`")
	flags.StringVar(&f.c.Password, "password", "", "log in with `TOKEN`")
	flags.IntVar(&f.c.Connections, "connections", 64, "open `N` connections")
	flags.IntVar(&f.c.Workers, "workers", 0, "`N` of them work (default: 64, or all there are)")
	flags.IntVar(&f.c.Slow, "slow", 0, "`N` of them work slowly")
	flags.IntVar(&f.c.Rude, "rude", 0, "`N` beside them break the protocol")
	flags.IntVar(&f.c.Keys, "keys", 4096, "write `N` keys, and as many blocks")
	flags.StringSliceVar(&f.values, "value-size", []string{"4KiB", "64KiB", "1MiB"}, "sizes of values")
	flags.DurationVar(&f.c.Duration, "duration", 10*time.Second, "go on for `TIME`")
	flags.Uint64Var(&f.c.Seed, "seed", 0, "what the workers do follows from `N`")
	flags.StringVar(&f.c.Prefix, "prefix", "load", "of the keys")
	flags.BoolVar(&f.c.Reconnect, "reconnect", false, "go on where connections break")
	f.out.register(cmd)
	if err := cmd.MarkFlagRequired("server"); err != nil {
		fmt.Fprintln(env.stderr, err)
	}
	return cmd
}

func runLoad(ctx context.Context, env *environment, f loadFlags) error {
	for _, s := range f.values {
		n, err := parseSize(s)
		if err != nil {
			return usage{err}
		}
		f.c.ValueBytes = append(f.c.ValueBytes, int(n))
	}
	if err := f.out.create(); err != nil {
		return err
	}
	bar := newProgress(env, f.out.quiet, "load")
	f.c.Progress = func(done, total time.Duration) { bar.set(int64(done.Seconds()), int64(total.Seconds())) }
	report, err := load.Run(ctx, f.c)
	bar.end()
	if errors.Is(err, load.ErrConfig) {
		return usage{err}
	}
	if err != nil {
		return err
	}
	if err := f.out.write(env, report, func(w io.Writer) { report.Print(w) }); err != nil {
		return err
	}
	if report.Bad() > 0 || report.RudeUntold > 0 {
		return exitStatus(exitError)
	}
	return ctx.Err()
}
