package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/engine/layout"
	"github.com/spf13/cobra"
)

func newLayouts(env *environment) *cobra.Command {
	var out outputFlags
	cmd := &cobra.Command{
		Use:   "layouts DIR",
		Short: "The namespaces of a closed store, and how two layouts differ",
		Long: `layouts lists the namespaces of the store in DIR: number, tenant, epoch, and all
fields of the layout that decides what their blocks' bytes mean. It is the same
as inspect layouts. layouts diff compares two of them field by field.

EXAMPLES
  sealstone layouts /var/lib/sealstone
  sealstone layouts diff /var/lib/sealstone:1 /var/lib/sealstone:2

` + exitHelp,
		Args: oneArgument("the store's directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return look(cmd.Context(), env, &out, args[0], func(_ context.Context, i *engine.Inspector) (shown, error) {
				v := i.Namespaces()
				return shown{report: v, table: func(w io.Writer) { printLayouts(w, v) }}, nil
			})
		},
	}
	out.register(cmd)
	cmd.AddCommand(newLayoutsDiff(env))
	return cmd
}

func newLayoutsDiff(env *environment) *cobra.Command {
	var out outputFlags
	dir := ""
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Compare two layouts field by field",
		Long: `diff shows the fields in which two layouts differ, with both values, and ends
with status 5 if there are any. A and B are each one of

  N         the namespace of this number in the store of --dir
  DIR:N     the namespace of this number in the closed store in DIR
  FILE      a layout in JSON, alone or as "layout" of an object; - is standard
            input. As layouts --json and the engine's configuration have it

EXAMPLES
  sealstone layouts diff --dir /var/lib/sealstone 1 2
  sealstone layouts diff /mnt/a/store:1 /mnt/b/store:1
  sealstone layouts diff /var/lib/sealstone:1 engine-layout.json --json

` + exitHelp,
		Args: arguments("A", "B"),
		RunE: func(cmd *cobra.Command, args []string) error { return runLayoutsDiff(env, &out, dir, args[0], args[1]) },
	}
	cmd.Flags().StringVar(&dir, "dir", "", "the closed store in `DIR` is meant by a number alone")
	out.register(cmd)
	return cmd
}

// layoutsDiff is the report of layouts diff.
type layoutsDiff struct {
	A            string              `json:"a"`
	B            string              `json:"b"`
	FingerprintA string              `json:"fingerprint_a"` // hexadecimal; empty where the layout is not valid
	FingerprintB string              `json:"fingerprint_b"`
	Equal        bool                `json:"equal"`
	Differences  []layout.Difference `json:"differences"`
	// Problems say why a layout is not one that a store takes.
	Problems []string `json:"problems"`
}

func runLayoutsDiff(env *environment, out *outputFlags, dir, nameA, nameB string) error {
	if err := out.create(); err != nil {
		return err
	}
	a, errA := readLayout(env, dir, nameA)
	b, errB := readLayout(env, dir, nameB)
	if err := errors.Join(errA, errB); err != nil {
		return err
	}
	r := layoutsDiff{A: nameA, B: nameB, Differences: layout.Diff(a, b), Problems: []string{}}
	if r.Differences == nil {
		r.Differences = []layout.Difference{}
	}
	r.Equal = len(r.Differences) == 0
	r.FingerprintA = r.fingerprint(nameA, a)
	r.FingerprintB = r.fingerprint(nameB, b)
	if err := out.write(env, r, func(w io.Writer) { printLayoutsDiff(w, r) }); err != nil {
		return err
	}
	if !r.Equal {
		return exitStatus(exitDifferent)
	}
	return nil
}

func (r *layoutsDiff) fingerprint(name string, l layout.Layout) string {
	if err := l.Validate(); err != nil {
		r.Problems = append(r.Problems, fmt.Sprintf("%s: %v", name, err))
		return ""
	}
	f := l.Fingerprint()
	return fmt.Sprintf("%x", f[:])
}

// readLayout finds a layout by what the command line calls it.
func readLayout(env *environment, dir, name string) (layout.Layout, error) {
	at := strings.LastIndexByte(name, ':')
	if n, err := strconv.ParseUint(name[at+1:], 10, 32); err == nil {
		if at >= 0 {
			dir = name[:at]
		}
		if dir == "" {
			return layout.Layout{}, usage{fmt.Errorf("%q is a namespace's number: name its store with --dir", name)}
		}
		return storedLayout(dir, uint32(n))
	}
	var p []byte
	var err error
	if name == "-" {
		p, err = io.ReadAll(io.LimitReader(env.stdin, maxLayoutBytes))
	} else {
		p, err = os.ReadFile(name)
	}
	if err != nil {
		return layout.Layout{}, fmt.Errorf("read the layout: %w", err)
	}
	l, err := parseLayout(p)
	if err != nil {
		return layout.Layout{}, fmt.Errorf("%s: %w", name, err)
	}
	return l, nil
}

// maxLayoutBytes is far beyond what a layout in JSON can take.
const maxLayoutBytes = 4 << 20

func storedLayout(dir string, number uint32) (l layout.Layout, err error) {
	i, err := engine.Inspect(dir)
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, i.Close()) }()
	for _, n := range i.Namespaces() {
		if n.Number == number {
			return n.Layout, nil
		}
	}
	return l, fmt.Errorf("the store in %s has no namespace %d", dir, number)
}

// parseLayout reads a layout, or an object that has one.
func parseLayout(p []byte) (l layout.Layout, err error) {
	var in struct {
		Layout *json.RawMessage `json:"layout"`
	}
	if json.Unmarshal(p, &in) == nil && in.Layout != nil {
		p = *in.Layout
	}
	return l, json.Unmarshal(bytes.TrimSpace(p), &l)
}

func printLayoutsDiff(w io.Writer, r layoutsDiff) {
	t := newRows(w)
	t.row("A", "%s %s", shorten(r.A, 40), r.FingerprintA)
	t.row("B", "%s %s", shorten(r.B, 40), r.FingerprintB)
	t.flush()
	for _, d := range r.Differences {
		fmt.Fprintf(w, "\n%s\n", d.Field)
		printList(w, "  A: ", []string{d.A})
		printList(w, "  B: ", []string{d.B})
	}
	printList(w, "problem: ", r.Problems)
	if r.Equal {
		fmt.Fprintln(w, "\nno difference")
		return
	}
	fmt.Fprintf(w, "\n%s differ\n", plural(int64(len(r.Differences)), "field"))
}
