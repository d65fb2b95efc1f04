package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/engine"
)

func TestExportImport(t *testing.T) {
	dir, file := sampleStore(t), filepath.Join(t.TempDir(), "a.slexport")
	status, out, errs := run(t, "export", dir, file)
	if status != exitOK || errs != "" {
		t.Fatalf("status %d, %q", status, errs)
	}
	checkWidth(t, "export", out)
	golden(t, "export", out)
	left, err := filepath.Glob(file + "*")
	if err != nil || len(left) != 1 {
		t.Errorf("files %v, %v", left, err)
	}
	status, out, errs = run(t, "import", dir, file, "--dry-run")
	if status != exitOK || errs != "" {
		t.Errorf("status %d, %q", status, errs)
	}
	golden(t, "import_dry", out)
	status, out, errs = run(t, "import", dir, file, "--tenant", "another", "--capacity", "256MiB")
	if status != exitOK || errs != "" {
		t.Errorf("status %d, %q", status, errs)
	}
	checkWidth(t, "import", out)
	golden(t, "import", out)
	if status, r := verifyReportOf(t, dir); status != exitOK || r.Blocks != 6 {
		t.Errorf("after the import: status %d, %+v", status, r)
	}
	status, out, _ = run(t, "import", dir, file, "-q", "--json")
	var r engine.ImportReport
	if err := json.Unmarshal([]byte(out), &r); err != nil || status != exitOK || r.Existed != 3 || r.Stored != 0 || !r.Complete {
		t.Errorf("imported already: status %d, %+v, %v", status, r, err)
	}
}

// TestExportToStdout: what goes through a pipe is what goes to a file.
func TestExportToStdout(t *testing.T) {
	dir, file := sampleStore(t), filepath.Join(t.TempDir(), "a.slexport")
	if status, _, errs := run(t, "export", dir, file, "-q"); status != exitOK {
		t.Fatalf("status %d, %q", status, errs)
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	status, out, errs := run(t, "export", dir, "-")
	if status != exitOK || errs != "" || out != string(want) {
		t.Errorf("status %d, %q, %d bytes for %d", status, errs, len(out), len(want))
	}
	var stdout, stderr bytes.Buffer
	if status := Main("v1.2.3", []string{"import", dir, "-"}, strings.NewReader(out), &stdout, &stderr); status != exitOK || !strings.Contains(stdout.String(), "existed      3") {
		t.Errorf("status %d, %q, %q", status, stdout.String(), stderr.String())
	}
}

// TestExportDamaged: a block that is left out is a status of its own, and so
// is a file that is not whole.
func TestExportDamaged(t *testing.T) {
	dir, file := sampleStore(t), filepath.Join(t.TempDir(), "a.slexport")
	c := locate(t, dir, "c")
	flipAt(t, filepath.Join(dir, c.File), c.PayloadOffset+8192+70000/4)
	status, out, errs := run(t, "export", dir, file)
	if status != exitDamaged || !strings.Contains(out, "DAMAGED, left out") || !strings.Contains(errs, "1 block left out") {
		t.Errorf("status %d, %q, %q", status, out, errs)
	}
	checkWidth(t, "export", out)
	if err := os.Truncate(file, 10000); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"import", dir, file}, {"import", dir, file, "--dry-run"}} {
		status, out, errs := run(t, args...)
		if status != exitDamaged || !strings.Contains(out, "not complete") || !strings.Contains(errs, "cut short") {
			t.Errorf("%v: status %d, %q, %q", args, status, out, errs)
		}
	}
}

func TestExportRefuses(t *testing.T) {
	dir, file := sampleStore(t), filepath.Join(t.TempDir(), "a.slexport")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   []string
		status int
		text   string
	}{
		{[]string{"export", dir}, exitUsage, "the file"},
		{[]string{"export", dir, file}, exitError, "exists; give another name, or --overwrite"},
		{[]string{"export", dir, file, "--hash", "xyz"}, exitUsage, "not hexadecimal"},
		{[]string{"export", dir, "-", "--json"}, exitUsage, "can not both"},
		{[]string{"export", t.TempDir(), file + "2"}, exitError, "no store"},
		{[]string{"import", dir, file + "3"}, exitError, "no such file"},
		{[]string{"import", dir, file}, exitDamaged, "cut short"},
	} {
		if status, _, errs := run(t, c.args...); status != c.status || !strings.Contains(errs, c.text) {
			t.Errorf("%v: status %d, %q", c.args, status, errs)
		}
	}
	left, err := filepath.Glob(file + "?*")
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
