package cli

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestConfirm(t *testing.T) {
	plan := func(w io.Writer) { fmt.Fprintln(w, "remove all") }
	for name, c := range map[string]struct {
		flags       planFlags
		out         outputFlags
		do          bool
		stdout, err string
	}{
		"no terminal": {do: true, stdout: "remove all\n"},
		"yes":         {flags: planFlags{yes: true}, do: true, stdout: "remove all\n"},
		"dry run":     {flags: planFlags{dryRun: true, yes: true}, stdout: "remove all\n\ndry run: nothing was changed\n"},
		"json":        {out: outputFlags{json: "-"}, do: true, err: "remove all\n"},
		"quiet":       {out: outputFlags{quiet: true}, do: true},
	} {
		var out, errs bytes.Buffer
		env := &environment{stdin: strings.NewReader(""), stdout: &out, stderr: &errs}
		do, err := c.flags.confirm(env, &c.out, plan)
		if do != c.do || err != nil || out.String() != c.stdout || errs.String() != c.err {
			t.Errorf("%s: %v, %v, %q, %q", name, do, err, out.String(), errs.String())
		}
	}
}

func TestAsk(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, " YES\n": true, "yes": true, "n\n": false, "\n": false, "": false, "ya\n": false} {
		var errs bytes.Buffer
		got, err := ask(&environment{stdin: strings.NewReader(answer), stderr: &errs}, "sure? ")
		if got != want || err != nil || !strings.HasPrefix(errs.String(), "sure? ") || strings.Contains(errs.String(), "nothing was changed") == want {
			t.Errorf("%q: %v, %v, %q", answer, got, err, errs.String())
		}
	}
}

func TestByteRate(t *testing.T) {
	for text, want := range map[string]string{"200MiB/s": "200MiB/s", "1GB": "1000000000/s", "0": "", " 5 MiB /s ": "5MiB/s"} {
		var r byteRate
		if err := r.Set(text); err != nil || r.String() != want {
			t.Errorf("%q: %q, %v", text, r.String(), err)
		}
	}
	for _, text := range []string{"", "/s", "fast", "-1", "1MiB/m"} {
		var r byteRate
		if err := r.Set(text); err == nil {
			t.Errorf("%q was taken for %d", text, r)
		}
	}
}
