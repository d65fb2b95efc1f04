package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// listReport writes a JSON report with a list that is too long for memory: the
// list comes first, an item a line, then the fields of the report. Whatever
// happens it is left as whole JSON.
type listReport struct {
	w     *bufio.Writer
	close func() error
	items int64
}

// list begins the report where --json says, with a list of that name. It
// returns nil where no JSON is wanted.
func (o *outputFlags) list(env *environment, name string) (*listReport, error) {
	var w io.Writer = env.stdout
	done := func() error { return nil }
	switch {
	case o.json == "":
		return nil, nil
	case !o.toStdout():
		f, err := os.Create(o.json)
		if err != nil {
			return nil, fmt.Errorf("report: %w", err)
		}
		w, done = f, f.Close
	}
	l := &listReport{w: bufio.NewWriterSize(w, 64<<10), close: done}
	fmt.Fprintf(l.w, "{\n  %q: [", name)
	return l, nil
}

// add writes one item of the list.
func (l *listReport) add(item any) error {
	b, err := json.Marshal(item)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	separator := ",\n    "
	if l.items == 0 {
		separator = "\n    "
	}
	l.items++
	l.w.WriteString(separator) //nolint:errcheck // the writer keeps its error for the next call
	if _, err := l.w.Write(b); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// end ends the list and adds the report, a struct or a map, to it.
func (l *listReport) end(report any) error {
	b, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if l.items > 0 {
		l.w.WriteString("\n  ") //nolint:errcheck // see add
	}
	l.w.WriteString("]") //nolint:errcheck // see add
	if fields := bytes.TrimPrefix(b, []byte("{")); len(bytes.TrimSpace(fields)) > 1 {
		l.w.WriteString(",") //nolint:errcheck // see add
		l.w.Write(fields)    //nolint:errcheck // see add
	} else {
		l.w.WriteString("\n}") //nolint:errcheck // see add
	}
	l.w.WriteString("\n") //nolint:errcheck // see add
	err = l.w.Flush()
	if cerr := l.close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// fail ends the report of a command that failed.
func (l *listReport) fail(err error) error {
	return l.end(map[string]string{"error": oneLine(err.Error())})
}
