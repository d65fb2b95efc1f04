package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// environment is what a command may use of the process.
type environment struct {
	version        string // of the release, or ""
	stdin          io.Reader
	stdout, stderr io.Writer
}

// Main runs the command line and returns the exit status. The version is that
// of the release; without one, that of the module counts.
func Main(version string, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := newRoot(&environment{version, stdin, stdout, stderr})
	root.SetArgs(args)
	return finish(root.ExecuteContext(ctx), stderr)
}

func newRoot(env *environment) *cobra.Command {
	root := &cobra.Command{
		Use:   "sealstone",
		Short: "Verified disk tier for LLM KV caches",
		Long: `sealstone works on Sealstone stores: directories that hold the KV-cache blocks
of LLM inference engines and give them back only after their bytes were
verified.

EXAMPLES
  sealstone demo
  sealstone replay trace.jsonl --dir /var/tmp/store
  sealstone verify /var/lib/sealstone

` + exitHelp,
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		Args:              noArguments,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(env.stdin)
	root.SetOut(env.stdout)
	root.SetErr(env.stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usageError(cmd, err) })
	for _, add := range commands {
		root.AddCommand(add(env))
	}
	return root
}

// commands makes each subcommand; the order is that of the help.
var commands = []func(*environment) *cobra.Command{
	newDemo,
	newReplay,
	newReplayChild,
	newVerify,
	newInspect,
	newProbe,
	newBench,
	newVersion,
}

// usageError says what is wrong with the command line and where to read on.
func usageError(cmd *cobra.Command, err error) error {
	return fmt.Errorf("%w; see %q", err, cmd.CommandPath()+" --help")
}

// noArguments refuses arguments of a command that takes none.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usageError(cmd, fmt.Errorf("unknown command or argument %q", args[0]))
}

// oneArgument wants exactly one argument, named what.
func oneArgument(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			return nil
		}
		return usageError(cmd, fmt.Errorf("want exactly one argument, %s; got %d", what, len(args)))
	}
}
