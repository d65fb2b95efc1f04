package cli

import (
	"context"
	"errors"
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
	gpu            gpuEnvironment
}

// Main runs the command line and returns the exit status. The version is that
// of the release; without one, that of the module counts. The first interrupt
// ends the context of the command, which stops at the next safe place; the
// second one ends the process at once.
func Main(version string, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return mainContext(ctx, &environment{version: version, stdin: stdin, stdout: stdout, stderr: stderr}, args)
}

func mainContext(ctx context.Context, env *environment, args []string) int {
	root := newRoot(env)
	root.SetArgs(joinJSON(args))
	// What fails before a command has begun is an error of the command line.
	began := false
	eachCommand(root, func(cmd *cobra.Command) {
		if run := cmd.RunE; run != nil {
			cmd.RunE = func(cmd *cobra.Command, args []string) error {
				began = true
				return run(cmd, args)
			}
		}
	})
	err := root.ExecuteContext(ctx)
	if err != nil && !began && !errors.Is(err, errUsage) {
		err = usage{err}
	}
	return finish(err, env.stderr)
}

func eachCommand(cmd *cobra.Command, do func(*cobra.Command)) {
	do(cmd)
	for _, c := range cmd.Commands() {
		eachCommand(c, do)
	}
}

// usage is an error of the command line.
type usage struct{ error }

func (u usage) Is(target error) bool { return target == errUsage }
func (u usage) Unwrap() error        { return u.error }

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
	newServe,
	newLoad,
	newToken,
	newDemo,
	newReplay,
	newReplayChild,
	newVerify,
	newRepair,
	newRebuild,
	newCompact,
	newStats,
	newLayouts,
	newDrop,
	newExport,
	newImport,
	newInspect,
	newProbe,
	newGPUCanary,
	newBench,
	newVersion,
}

// usageError says what is wrong with the command line and where to read on.
func usageError(cmd *cobra.Command, err error) error {
	return usage{fmt.Errorf("%w; see %q", err, cmd.CommandPath()+" --help")}
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
