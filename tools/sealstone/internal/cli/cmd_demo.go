package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/sealstone/sealstone/tools/internal/demo"
	"github.com/spf13/cobra"
)

type demoFlags struct {
	out  outputFlags
	dir  string
	keep bool
}

func newDemo(env *environment) *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show each promise kept, on stores that are killed and damaged",
		Long: `demo needs no arguments. It replays a part of a real chat service's trace into a
temporary store, kills the owner in the middle of a put, and compares every byte
that comes back. Then it damages closed stores from outside: flips a bit, swaps
blocks, forges a block with all its sums, cuts a segment, deletes the index.
Each damaged block must end as a miss with a reason, never as a wrong byte.

The end is a table of promises, each held or broken.

EXAMPLES
  sealstone demo
  sealstone demo --dir /mnt/nvme/demo --keep
  sealstone demo --quiet --json

` + exitHelp,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDemo(cmd.Context(), env, f) },
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&f.dir, "dir", "", "work in `DIR`, which must be empty (default: a temporary one)")
	cmd.Flags().BoolVar(&f.keep, "keep", false, "keep the stores for a look at them")
	f.out.register(cmd)
	return cmd
}

func runDemo(ctx context.Context, env *environment, f demoFlags) (err error) {
	if err := f.out.create(); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the own program for the child: %w", err)
	}
	dir := f.dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "sealstone-demo-"); err != nil {
			return fmt.Errorf("make a temporary directory: %w", err)
		}
	}
	bar := newProgress(env, f.out.quiet, "demo")
	report, err := demo.Run(ctx, demo.Config{
		Dir: dir, Child: []string{self, replayChild},
		Progress: func(done, total int, _ string) { bar.set(int64(done), int64(total)) },
	})
	bar.end()
	// What a run has filled is removed; what it refused is somebody else's.
	if !f.keep && !errors.Is(err, demo.ErrDir) {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	if err != nil {
		return err
	}
	if f.keep && !f.out.quiet {
		fmt.Fprintln(env.stderr, "sealstone: the stores are in "+dir)
	}
	if err := f.out.write(env, report, func(w io.Writer) { printDemo(w, report) }); err != nil {
		return err
	}
	if report.Broken > 0 {
		return exitStatus(exitError)
	}
	return nil
}

func printDemo(w io.Writer, r *demo.Report) {
	const width = 79
	for _, p := range r.Promises {
		verdict := "held"
		if !p.Held {
			verdict = "broken"
		}
		fmt.Fprintf(w, "%-*s %s\n", width-len(verdict)-1, p.Name, verdict)
		for _, line := range wrap(p.How, width-2) {
			fmt.Fprintln(w, "  "+line)
		}
		for i, line := range wrap(p.Outcome, width-5) {
			lead := "     "
			if i == 0 {
				lead = "  -> "
			}
			fmt.Fprintln(w, lead+line)
		}
	}
	fmt.Fprintf(w, "\n%d promises held, %d broken, in %.1f s\n", r.Held, r.Broken, r.Seconds)
}

// wrap breaks s at spaces into lines of at most width characters; a longer
// word has a line of its own.
func wrap(s string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(s) {
		if line != "" && len([]rune(line))+1+len([]rune(word)) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
