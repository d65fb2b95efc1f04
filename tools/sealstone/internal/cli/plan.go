package cli

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// planFlags are the flags of every command that changes a store.
type planFlags struct {
	dryRun bool
	yes    bool
}

func (p *planFlags) register(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&p.dryRun, "dry-run", false, "print what would be done, and change nothing")
	cmd.Flags().BoolVarP(&p.yes, "yes", "y", false, "do not ask on a terminal")
}

// confirm prints what will be done and reports whether to do it: never in a
// dry run. On a terminal it asks, unless --yes was given; elsewhere nobody
// could answer, and giving the command was the decision.
func (p *planFlags) confirm(env *environment, out *outputFlags, plan func(io.Writer)) (bool, error) {
	w := out.messages(env)
	plan(w)
	if p.dryRun {
		fmt.Fprintln(w, "\ndry run: nothing was changed")
		return false, nil
	}
	if p.yes || !isTerminal(env.stdin) {
		return true, nil
	}
	return ask(env, "go on? [y/N] ")
}

// ask puts a question on standard error and reads the answer; anything but a
// yes is a no, the end of the input included.
func ask(env *environment, question string) (bool, error) {
	fmt.Fprint(env.stderr, question)
	answer, err := bufio.NewReader(env.stdin).ReadString('\n')
	if err != nil && err != io.EOF {
		return false, fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true, nil
	}
	fmt.Fprintln(env.stderr, "sealstone: nothing was changed")
	return false, nil
}

func isTerminal(r io.Reader) bool {
	f, ok := r.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
