package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	const good = `{"test":"TestFaultA","faults":3,"survived":3,"seeds":2,"kills":1}
{"test":"canary ./e law1","canaries":1,"canaries_caught":1}
`
	for name, c := range map[string]struct {
		log    string
		status int
		out    string
		said   string
	}{
		"all is well": {good, 0,
			`{"faults":3,"survived":3,"wrong_bytes":0,"canaries":1,"canaries_caught":1,"seeds":2,"kills":1}` + "\n", "TestFaultA"},
		"subtests": {strings.Replace(good, "TestFaultA", "TestFaultA/x", 1) + strings.Replace(good, "TestFaultA", "TestFaultA/y", 1), 0,
			`{"faults":6,"survived":6,"wrong_bytes":0,"canaries":2,"canaries_caught":2,"seeds":4,"kills":2}` + "\n", "6         6      4      2         0       0        TestFaultA"},
		"a fault was not survived": {good + `{"test":"b","faults":1}`, 1,
			`{"faults":4,"survived":3,"wrong_bytes":0,"canaries":1,"canaries_caught":1,"seeds":2,"kills":1}` + "\n", "NOT everything"},
		"wrong bytes":       {good + `{"test":"b","wrong_bytes":1}`, 1, "", "NOT everything"},
		"a canary got away": {good + `{"test":"b","canaries":1}`, 1, "", "NOT everything"},
		"a test failed":     {good + `{"test":"b","failed":true}`, 1, "", "b FAILED"},
		"nothing was tried": {"", 1, "", "no fault or no canary"},
		"no log":            {"{", 2, "", "record 1 of the log"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(file, []byte(c.log), 0o600); err != nil {
				t.Fatal(err)
			}
			var out, said strings.Builder
			if got := run([]string{file}, &out, &said); got != c.status {
				t.Errorf("exit status %d, want %d", got, c.status)
			}
			if c.out != "" && out.String() != c.out {
				t.Errorf("printed %q, want %q", out.String(), c.out)
			}
			if !strings.Contains(said.String(), c.said) {
				t.Errorf("said %q, want %q in it", said.String(), c.said)
			}
		})
	}
	for _, args := range [][]string{nil, {"a", "b"}, {filepath.Join(t.TempDir(), "absent")}} {
		if got := run(args, &strings.Builder{}, &strings.Builder{}); got != 2 {
			t.Errorf("%q: exit status %d, want 2", args, got)
		}
	}
}
