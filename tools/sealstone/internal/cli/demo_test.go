package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/tools/internal/demo"
)

func TestDemo(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	status, out, errs := run(t, "demo", "--json", "-")
	var r demo.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || status != exitOK || r.Broken != 0 || r.Held < 10 {
		t.Errorf("status %d, %v, %d held, %d broken, %s", status, err, r.Held, r.Broken, errs)
	}
	for _, p := range r.Promises {
		if !p.Held {
			t.Errorf("broken: %s: %s", p.Name, p.Outcome)
		}
	}
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestDemoRefuses: what the demonstration does not use it does not remove.
func TestDemoRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "mine")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{dir, file} {
		status, _, errs := run(t, "demo", "--dir", d)
		if status != exitError || !strings.Contains(errs, "directory cannot be used") {
			t.Errorf("demo in %s: status %d, %q", d, status, errs)
		}
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

func TestPrintDemo(t *testing.T) {
	var b bytes.Buffer
	printDemo(&b, &demo.Report{Held: 1, Broken: 1, Seconds: 4.4, Promises: []demo.Promise{
		{Name: "a flipped bit is a miss", How: "one bit of block 5 flipped in its segment", Held: true,
			Outcome: "block 5: Corrupt: chunk 1 of 3: sum 067ae933f21a39b3, the header says da487820c6f99afa; 11 of 12 blocks right"},
		{Name: "a cut segment costs only what it held", How: "the segment cut in the middle of block 8",
			Outcome: "block 8: served, though damaged or dropped"},
	}})
	golden(t, "demo", b.String())
}
