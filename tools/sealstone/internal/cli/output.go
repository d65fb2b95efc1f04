package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// outputFlags are the flags of every command that makes a report.
type outputFlags struct {
	json  string
	quiet bool
}

func (o *outputFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.json, "json", "", "report as JSON to `FILE` (none: standard output)")
	cmd.Flags().BoolVarP(&o.quiet, "quiet", "q", false, "print neither progress nor the table")
}

// create makes the report's file before the work begins, so that a path that
// cannot be written is told at once and not after an hour.
func (o *outputFlags) create() error {
	if o.json == "" || o.toStdout() {
		return nil
	}
	f, err := os.OpenFile(o.json, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return f.Close()
}

// toStdout reports whether standard output is JSON.
func (o *outputFlags) toStdout() bool { return o.json == "-" }

// messages is where a command prints what it is about to do: standard output,
// or standard error where that is JSON, or nowhere.
func (o *outputFlags) messages(env *environment) io.Writer {
	switch {
	case o.quiet:
		return io.Discard
	case o.toStdout():
		return env.stderr
	}
	return env.stdout
}

// write prints the table unless it is unwanted, and the report where --json
// says. A --json to standard output keeps the table away.
func (o *outputFlags) write(env *environment, report any, table func(io.Writer)) error {
	if !o.quiet && !o.toStdout() {
		table(env.stdout)
	}
	if o.json == "" {
		return nil
	}
	b, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	b = append(b, '\n')
	if o.toStdout() {
		_, err = env.stdout.Write(b)
	} else {
		err = os.WriteFile(o.json, b, 0o644)
	}
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}
