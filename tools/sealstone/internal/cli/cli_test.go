package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/engine/meta"
	"github.com/spf13/cobra"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// asProgram in the environment makes this binary the program, with whatever
// arguments.
const asProgram = "SEALSTONE_TEST_AS_PROGRAM"

// TestMain lets the test binary stand in for the program: commands run it
// again as their child.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == replayChild || os.Getenv(asProgram) != "" {
		os.Exit(Main("", os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// run executes a command line.
func run(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = Main("v1.2.3", args, strings.NewReader(""), &out, &errs)
	return status, out.String(), errs.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; run with -update and read the difference. Got:\n%s", path, got)
	}
}

// visible are the commands that the help shows.
func visible() []*cobra.Command {
	var all []*cobra.Command
	for _, c := range newRoot(&environment{}).Commands() {
		if !c.Hidden {
			all = append(all, c)
		}
	}
	return all
}

func TestHelp(t *testing.T) {
	status, out, _ := run(t, "--help")
	if status != exitOK {
		t.Errorf("exit status %d", status)
	}
	golden(t, "help", out)
	for _, c := range visible() {
		status, out, _ := run(t, c.Name(), "--help")
		if status != exitOK {
			t.Errorf("%s: exit status %d", c.Name(), status)
		}
		golden(t, "help_"+c.Name(), out)
	}
}

// TestHelpIsComplete: examples, exit statuses, no line that a terminal wraps.
func TestHelpIsComplete(t *testing.T) {
	for _, c := range append(visible(), newRoot(&environment{})) {
		if !strings.Contains(c.Long, "\nEXAMPLES\n  sealstone ") || !strings.Contains(c.Long, exitHelp) {
			t.Errorf("%s: the help lacks EXAMPLES or EXIT STATUS", c.Name())
		}
		_, help, _ := run(t, append(strings.Fields(c.CommandPath())[1:], "--help")...)
		for line := range strings.Lines(help) {
			if line = strings.TrimSuffix(line, "\n"); utf8.RuneCountInString(line) > 80 {
				t.Errorf("%s: over 80 columns: %q", c.Name(), line)
			}
		}
		// A server and a new token make no report.
		if c.HasSubCommands() || c.Name() == "serve" || c.Name() == "token" {
			continue
		}
		for _, name := range []string{"json", "quiet"} {
			if c.Flags().Lookup(name) == nil {
				t.Errorf("%s has no --%s", c.Name(), name)
			}
		}
	}
}

func TestUsageErrors(t *testing.T) {
	for _, c := range []struct {
		args []string
		text string
	}{
		{[]string{"dance"}, `unknown command or argument "dance"`},
		{[]string{"version", "now"}, `unknown command or argument "now"; see "sealstone version --help"`},
		{[]string{"version", "--loud"}, "unknown flag: --loud"},
		{[]string{"replay"}, "the trace; got 0"},
		{[]string{"replay", "a", "b", "--dir", "d"}, "the trace; got 2"},
		{[]string{"replay", "a"}, `required flag(s) "dir" not set`},
		{[]string{"replay", "a", "--dir", "d", "--block-size", "many"}, `"many" is not a size`},
		{[]string{"replay", "a", "--dir", "d", "--capacity", "64K"}, `"64K" is not a size`},
		{[]string{"replay", "a", "--dir", "d", "--requests", "x"}, "--requests"},
		{[]string{"bench"}, `required flag(s) "dir" not set`},
	} {
		status, out, errs := run(t, c.args...)
		if status != exitUsage || out != "" || !strings.Contains(errs, c.text) {
			t.Errorf("%v: status %d, %q, %q; want 4 and %q", c.args, status, out, errs, c.text)
		}
		if strings.Count(errs, "\n") != 1 || !strings.HasPrefix(errs, "sealstone: ") {
			t.Errorf("%v: not one line: %q", c.args, errs)
		}
	}
}

func TestFinish(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		stderr string
	}{
		{nil, exitOK, ""},
		{exitStatus(exitDamaged), exitDamaged, ""},
		{fmt.Errorf("store: %w", exitStatus(exitDamaged)), exitDamaged, ""},
		{errors.New("two\n  lines"), exitError, "sealstone: two lines\n"},
		{fmt.Errorf("open: %w", meta.ErrLocked), exitLocked, "sealstone: open: " + meta.ErrLocked.Error() + "\n"},
		{usage{errors.New("what?")}, exitUsage, "sealstone: what?\n"},
		{fmt.Errorf("open: %w", engine.ErrUnsupported), exitUnsupported, "sealstone: open: " + engine.ErrUnsupported.Error() + "\n"},
		{fmt.Errorf("open: %w", engine.ErrDamaged), exitDamaged, "sealstone: open: " + engine.ErrDamaged.Error() + "\n"},
		{fmt.Errorf("read: %w", context.Canceled), exitInterrupted, "sealstone: interrupted\n"},
		{errors.Join(exitStatus(exitDamaged), context.Canceled), exitDamaged, ""},
	} {
		var b bytes.Buffer
		if got := finish(c.err, &b); got != c.status || b.String() != c.stderr {
			t.Errorf("finish(%v) = %d, %q; want %d, %q", c.err, got, b.String(), c.status, c.stderr)
		}
	}
}

// TestExitStatusTable: README.md has the table of the help.
func TestExitStatusTable(t *testing.T) {
	readme, err := os.ReadFile("../../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, line := range strings.Split(exitHelp, "\n")[1:] {
		status, meaning, ok := strings.Cut(strings.TrimSpace(line), " ")
		if row := "| " + status + " | " + strings.TrimSpace(meaning) + " |"; !ok || !strings.Contains(string(readme), row) {
			t.Errorf("README.md lacks %q", row)
		}
		rows++
	}
	if rows != 8 {
		t.Errorf("%d statuses in the help, 8 constants", rows)
	}
}

// TestInterrupted: a command whose context has ended says so by its status.
func TestInterrupted(t *testing.T) {
	dir := sampleStore(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out, errs bytes.Buffer
	env := &environment{stdin: strings.NewReader(""), stdout: &out, stderr: &errs}
	if status := mainContext(ctx, env, []string{"verify", dir}); status != exitInterrupted {
		t.Errorf("status %d, %q, %q", status, out.String(), errs.String())
	}
}

func TestReportFails(t *testing.T) {
	status, out, errs := run(t, "version", "--json", "/nonexistent/x.json")
	if status != exitError || out != "" || !strings.Contains(errs, "report: open /nonexistent/x.json") {
		t.Errorf("status %d, %q, %q", status, out, errs)
	}
}

func TestVersion(t *testing.T) {
	status, out, _ := run(t, "version")
	if status != exitOK {
		t.Fatalf("exit status %d", status)
	}
	// What the machine decides is left out of the golden file.
	out = regexp.MustCompile(`(?m)^(revision|go|platform|pebble)( +)\S+$`).ReplaceAllString(out, "$1$2*")
	golden(t, "version", out)

	status, out, _ = run(t, "version", "--json", "-")
	var v versions
	if err := json.Unmarshal([]byte(out), &v); err != nil || status != exitOK || v.Version != "v1.2.3" || len(v.Formats) == 0 {
		t.Errorf("status %d, %+v, %v", status, v, err)
	}

	path := filepath.Join(t.TempDir(), "v.json")
	if status, out, _ = run(t, "version", "-q", "--json", path); status != exitOK || out != "" {
		t.Errorf("quiet: status %d, %q", status, out)
	}
	if b, err := os.ReadFile(path); err != nil || !json.Valid(b) {
		t.Errorf("report %q, %v", b, err)
	}
}

func TestWrapAndShorten(t *testing.T) {
	if got := wrap("one two  three\nfour", 9); strings.Join(got, "|") != "one two|three|four" {
		t.Errorf("wrap: %q", got)
	}
	if got := wrap("unbreakable", 3); len(got) != 1 || got[0] != "unbreakable" {
		t.Errorf("wrap: %q", got)
	}
	if got := shorten("a/long/path/to/a/trace.jsonl", 10); got != "…ace.jsonl" {
		t.Errorf("shorten: %q", got)
	}
	if got := formatCounts(map[string]int64{"OK": 2, "Miss": 1}); got != "Miss 1, OK 2" {
		t.Errorf("formatCounts: %q", got)
	}
}
