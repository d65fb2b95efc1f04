package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/sealstone/sealstone/engine"
	"github.com/spf13/cobra"
)

func newInspectWAL(env *environment) *cobra.Command {
	var out outputFlags
	var records, frames bool
	cmd := &cobra.Command{
		Use:   "wal DIR",
		Short: "The write-ahead log: files, position, records",
		Long: `wal shows the files of the log, how far it is durable and applied, and how each
file ends. A torn tail is normal after a crash.

EXAMPLES
  sealstone inspect wal /var/lib/sealstone
  sealstone inspect wal /var/lib/sealstone --records
  sealstone inspect wal /var/lib/sealstone --frames

` + exitHelp,
		Args: oneArgument("the store's directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return look(cmd.Context(), env, &out, args[0], func(_ context.Context, i *engine.Inspector) (shown, error) {
				return inspectWAL(i, records, frames)
			})
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().BoolVar(&records, "records", false, "list the records")
	cmd.Flags().BoolVar(&frames, "frames", false, "list frames and groups, not decoded")
	out.register(cmd)
	return cmd
}

type walReport struct {
	Log     engine.LogState        `json:"log"`
	Files   []engine.LogFileView   `json:"files"`
	Records []engine.LogRecordView `json:"records,omitempty"`
	frames  string
}

func inspectWAL(i *engine.Inspector, records, frames bool) (shown, error) {
	var r walReport
	r.Log, r.Files = i.Log()
	if records {
		err := i.Records(func(v engine.LogRecordView) error {
			r.Records = append(r.Records, v)
			return nil
		})
		if err != nil {
			return shown{}, err
		}
	}
	if frames {
		var text strings.Builder
		if err := i.DumpLog(&text); err != nil {
			return shown{}, err
		}
		r.frames = text.String()
	}
	s := shown{report: r, table: func(w io.Writer) { printWAL(w, r) }}
	for _, f := range r.Files {
		s.damaged = s.damaged || f.Corrupt != ""
	}
	return s, nil
}

func printWAL(w io.Writer, r walReport) {
	t := newRows(w)
	t.row("position", "%d to %d", r.Log.First, r.Log.End)
	t.row("durable to", "%d", r.Log.DurableMark)
	t.row("records", "%d in %d groups", r.Log.Records, r.Log.Groups)
	t.row("pending", "%d not in the index yet, %d unproven", r.Log.Pending, r.Log.Unproven)
	t.flush()
	for _, f := range r.Files {
		fmt.Fprintf(w, "%s: %s, %d to %d, %d records\n", f.File, formatBytes(f.SizeBytes), f.Base, f.End, f.Records)
		for _, verdict := range []string{f.Torn, f.Corrupt} {
			if verdict != "" {
				printList(w, "  ", []string{verdict})
			}
		}
	}
	if len(r.Records) > 0 {
		fmt.Fprintln(w)
	}
	for _, v := range r.Records {
		fmt.Fprintf(w, "%d %s %s\n", v.Position, v.Kind, recordState(v))
		if v.Hash != "" {
			fmt.Fprintf(w, "  block %s of namespace %d, sequence %d\n", shortHash(v.Hash), v.Namespace, v.Sequence)
		}
		fmt.Fprintln(w, "  "+v.Detail)
	}
	fmt.Fprint(w, r.frames)
}

func recordState(v engine.LogRecordView) string {
	switch {
	case v.Applied:
		return "(applied)"
	case v.Durable:
		return "(durable)"
	}
	return "(behind the durable mark)"
}

func newInspectIndex(env *environment) *cobra.Command {
	var out outputFlags
	cmd := &cobra.Command{
		Use:   "index DIR",
		Short: "The index: its records, held against one another",
		Long: `index reads all records of the index and compares them with one another. Whether
they agree with the segments is for verify to say.

EXAMPLES
  sealstone inspect index /var/lib/sealstone
  sealstone inspect index /var/lib/sealstone --json

` + exitHelp,
		Args: oneArgument("the store's directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return look(cmd.Context(), env, &out, args[0], func(ctx context.Context, i *engine.Inspector) (shown, error) {
				st, problems, err := i.Index(ctx)
				r := indexReport{st, problems}
				return shown{report: r, table: func(w io.Writer) { printIndex(w, r) }, damaged: len(problems) > 0}, err
			})
		},
	}
	out.register(cmd)
	return cmd
}

type indexReport struct {
	engine.IndexState
	Problems []string `json:"problems"`
}

func printIndex(w io.Writer, r indexReport) {
	t := newRows(w)
	t.row("keys", "%d, %d of them aliases", r.Keys, r.Aliases)
	t.row("references", "%d", r.References)
	t.row("contents", "%d", r.Contents)
	t.row("on disk", "%s", formatBytes(r.DiskBytes))
	t.row("applied to", "%d", r.Applied)
	t.flush()
	if r.Rebuild != "" {
		printList(w, "will be rebuilt: ", []string{r.Rebuild})
	}
	printList(w, "problem: ", r.Problems)
}

func printLayouts(w io.Writer, list []engine.NamespaceView) {
	for n, v := range list {
		if n > 0 {
			fmt.Fprintln(w)
		}
		t := newRows(w)
		t.row("namespace", "%d", v.Number)
		t.row("tenant", "%q", v.Tenant)
		t.row("fingerprint", "%s", v.Fingerprint)
		t.row("epoch", "%d, sequences below %d are dead", v.Epoch, v.Floor)
		t.row("created", "%s", v.Created.Format("2006-01-02 15:04:05 MST"))
		t.flush()
		printLayout(w, v.Layout)
	}
}

// printLayout lists the fields that are set, by the names that they have in
// configuration files.
func printLayout(w io.Writer, l engine.Layout) {
	b, err := json.Marshal(l)
	fields := map[string]json.RawMessage{}
	if err == nil {
		err = json.Unmarshal(b, &fields)
	}
	if err != nil {
		fmt.Fprintln(w, err)
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, name := range sortedKeys(fields) {
		for i, line := range wrap(strings.ReplaceAll(string(fields[name]), ",", ", "), 52) {
			if i > 0 {
				name = ""
			}
			fmt.Fprintf(t, "  %s\t%s\n", name, line)
		}
	}
	t.Flush()
}
