package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/sealstone/sealstone/tools/internal/daemon"
	"github.com/sealstone/sealstone/tools/internal/settings"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

type serveFlags struct {
	config string
	check  bool
	values *settings.Settings
	set    *pflag.FlagSet // those of values alone
}

func newServe(env *environment) *cobra.Command {
	f := &serveFlags{set: pflag.NewFlagSet("settings", pflag.ContinueOnError)}
	f.set.SortFlags = false
	f.values = settings.Register(f.set)
	cmd := &cobra.Command{
		Use:   "serve --dir DIR",
		Short: "Share a store with the engines of this host",
		Long: `serve opens the store in DIR, or makes one, and serves it until SIGTERM or
SIGINT: Redis commands and KV.* commands on TCP and a Unix socket, metrics,
health and a page over HTTP. Without --tokens it listens on loopback only.

Every flag may also be a variable of the environment (--host-cache is
SEALSTONE_HOST_CACHE) or a key of the TOML file that --config names
(host-cache = "1GiB"). A flag goes before the environment, that before the file.

The first signal stops it in order, with status 0: what was received is
answered, what was acknowledged is synced. The second one ends it at once, with
130. SIGHUP reads tokens and certificates again.

EXAMPLES
  sealstone serve --dir /var/lib/sealstone
  sealstone serve --dir /var/lib/sealstone --unix /run/sealstone.sock
  sealstone serve --config /etc/sealstone/sealstone.toml --check-config

` + exitHelp,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), env) },
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&f.config, "config", "", "read settings from `FILE`")
	cmd.Flags().BoolVar(&f.check, "check-config", false, "show the settings and where each came from, check them, and end")
	cmd.Flags().AddFlagSet(f.set)
	// So many flags need more words than a line of 80 columns has.
	cmd.SetUsageTemplate(strings.Replace(cmd.UsageTemplate(), ".FlagUsages", ".FlagUsagesWrapped 75", 1))
	return cmd
}

func (f *serveFlags) run(ctx context.Context, env *environment) error {
	file := f.config
	if file == "" {
		file = os.Getenv(settings.FileVariable)
	}
	from, err := settings.Resolve(f.set, os.Environ(), file)
	if err != nil {
		return usage{err}
	}
	plan, err := daemon.Check(ctx, f.values)
	if f.check {
		printSettings(env.stdout, f.set, from, plan)
	}
	if err != nil {
		return usage{err}
	}
	if f.check {
		return nil
	}
	logger := f.logger(env.stderr)
	for _, name := range from.Unknown {
		logger.Warn("sealstone: " + name + " is set in the environment and is no setting")
	}
	return serve(ctx, env, plan, logger)
}

// serve runs until ctx ends, at the first signal; a second one ends the process
// at once.
func serve(ctx context.Context, env *environment, plan *daemon.Plan, logger *slog.Logger) error {
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)
	ends := make(chan os.Signal, 2)
	signal.Notify(ends, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(ends)
	go func() {
		<-ends
		<-ends
		fmt.Fprintln(env.stderr, "sealstone: ended at once by a second signal; requests were cut off, and the next start replays the log")
		os.Exit(exitInterrupted)
	}()
	return daemon.Run(ctx, plan, daemon.Options{
		Version: currentVersions(env.version, debug.ReadBuildInfo).Version, Out: env.stdout, Logger: logger,
		Reload: reload, GPUs: env.serveGPUs(plan.Settings.Dir),
	})
}

func (f *serveFlags) logger(w io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(f.values.LogLevel)) // checked before
	o := &slog.HandlerOptions{Level: level}
	if f.values.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// printSettings shows each value and where it came from. No setting is a
// secret: tokens are known by their names, and their file holds sums.
func printSettings(w io.Writer, set *pflag.FlagSet, from *settings.Resolved, plan *daemon.Plan) {
	set.VisitAll(func(flag *pflag.Flag) {
		fmt.Fprintf(w, "%-16s = %-24s # %s\n", flag.Name, fmt.Sprintf("%q", flag.Value.String()), from.Source[flag.Name])
	})
	for _, name := range from.Unknown {
		fmt.Fprintf(w, "# %s is set in the environment and is no setting\n", name)
	}
	if plan == nil {
		return
	}
	for _, id := range plan.Tokens.Identities() {
		fmt.Fprintf(w, "# token %s: tenant %q, %s\n", id.Name, id.Tenant, id.Rights())
	}
	for _, warning := range plan.Warnings {
		fmt.Fprintln(w, "# "+warning)
	}
}
