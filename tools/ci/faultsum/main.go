// Command faultsum sums up the log of a run of the fault matrix: a table of the
// tests on standard error, one line of JSON on standard output.
//
// Usage: faultsum LOG
//
// Exit status 0 means that every fault was survived, no wrong byte was served
// and every canary was caught; 1 that it was not so, or that nothing was tried;
// 2 that the log can not be read.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/sealstone/sealstone/internal/faults"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	if len(args) != 1 {
		fmt.Fprintln(stderr, "usage: faultsum LOG")
		return 2
	}
	in, err := os.Open(args[0])
	if err != nil {
		fmt.Fprintln(stderr, "faultsum:", err)
		return 2
	}
	defer in.Close()
	records, err := faults.ReadLog(in)
	if err != nil {
		fmt.Fprintln(stderr, "faultsum:", err)
		return 2
	}
	table(stderr, byTest(records))
	return verdict(stdout, stderr, faults.Sum(records))
}

// byTest adds up what one test and its subtests did.
func byTest(records []faults.Record) []faults.Record {
	tests := map[string][]faults.Record{}
	for _, r := range records {
		name := r.Test
		if strings.HasPrefix(name, "Test") {
			name, _, _ = strings.Cut(name, "/")
		}
		tests[name] = append(tests[name], r)
	}
	var out []faults.Record
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		sum := faults.Sum(tests[name])
		sum.Test = name
		out = append(out, sum)
	}
	return out
}

// table prints a line a test, in the order of their names.
func table(w io.Writer, records []faults.Record) {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "faults\tsurvived\tseeds\tkills\tcanaries\tcaught\t test\t")
	for _, r := range records {
		note := ""
		if r.Failed {
			note = " FAILED"
		}
		fmt.Fprintf(out, "%d\t%d\t%d\t%d\t%d\t%d\t %s%s\t\n",
			r.Faults, r.Survived, r.Seeds, r.Kills, r.Canaries, r.CanariesCaught, r.Test, note)
	}
	_ = out.Flush() // it is for people; the line of JSON is what counts
}

// summary is the line of JSON that ends a run.
type summary struct {
	Faults         int64 `json:"faults"`
	Survived       int64 `json:"survived"`
	WrongBytes     int64 `json:"wrong_bytes"`
	Canaries       int64 `json:"canaries"`
	CanariesCaught int64 `json:"canaries_caught"`
	Seeds          int64 `json:"seeds"`
	Kills          int64 `json:"kills"`
}

func verdict(stdout, stderr io.Writer, sum faults.Record) int {
	line, err := json.Marshal(summary{
		sum.Faults, sum.Survived, sum.WrongBytes, sum.Canaries, sum.CanariesCaught, sum.Seeds, sum.Kills,
	})
	if err == nil {
		_, err = fmt.Fprintf(stdout, "%s\n", line)
	}
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "faultsum:", err)
	case sum.Faults == 0 || sum.Canaries == 0:
		fmt.Fprintln(stderr, "faultsum: no fault or no canary was tried")
	case sum.Failed || sum.Survived != sum.Faults || sum.WrongBytes != 0 || sum.CanariesCaught != sum.Canaries:
		fmt.Fprintln(stderr, "faultsum: NOT everything was survived and caught")
	default:
		return 0
	}
	return 1
}
