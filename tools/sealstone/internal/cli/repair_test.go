package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// maskRepair hides what differs from run to run.
func maskRepair(dir, out string) string {
	out = strings.ReplaceAll(out, dir, "*")
	out = regexp.MustCompile(`repaired in \S+ s`).ReplaceAllString(out, "repaired in * s")
	out = regexp.MustCompile(`repair-\d{8}T\d{6}Z`).ReplaceAllString(out, "repair-*")
	out = regexp.MustCompile(`[0-9.]+ KiB\s+in\s+`).ReplaceAllString(out, "* in ")
	out = regexp.MustCompile(`stored [0-9a-f]{16}, computed\s+[0-9a-f]{16}`).ReplaceAllString(out, "stored *, computed *")
	return normalise(out)
}

// TestRepair: block a shares its bytes with another. The plan, the work, and a sound store.
func TestRepair(t *testing.T) {
	dir := sampleStore(t)
	a := locate(t, dir, "a")
	flipAt(t, filepath.Join(dir, a.File), a.PayloadOffset+1)
	flipAt(t, filepath.Join(dir, a.File), 2000)

	status, out, errs := run(t, "repair", dir, "--dry-run")
	if status != exitDamaged || errs != "" {
		t.Errorf("dry run: status %d, %q", status, errs)
	}
	checkWidth(t, "repair --dry-run", out)
	golden(t, "repair_plan", maskSums(maskRepair(dir, out)))

	status, out, errs = run(t, "repair", dir)
	if status != exitOK || errs != "" || !strings.Contains(out, "repaired in") {
		t.Errorf("status %d, %q, %q", status, out, errs)
	}
	if status, r := verifyReportOf(t, dir); status != exitOK || r.Blocks != 1 {
		t.Errorf("after the repair: status %d, %d blocks, %v", status, r.Blocks, r.Damage)
	}
	kept, err := filepath.Glob(filepath.Join(dir, "repair-*", "MANIFEST.json"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("manifests %v, %v", kept, err)
	}
	if p, err := os.ReadFile(kept[0]); err != nil || !json.Valid(p) || !strings.Contains(string(p), `"state": "finished"`) {
		t.Errorf("manifest %s, %v", p, err)
	}
	if status, out, _ := run(t, "repair", dir); status != exitOK || out != "nothing to repair\n" {
		t.Errorf("again: status %d, %q", status, out)
	}
}

func TestRepairJSON(t *testing.T) {
	dir := sampleStore(t)
	flipAt(t, filepath.Join(dir, "STORE"), 99)
	status, out, _ := run(t, "repair", dir, "--json", "-")
	var r repairReport
	if err := json.Unmarshal([]byte(out), &r); err != nil || status != exitOK || !r.Repaired || len(r.Actions) != 1 || r.Kept == "" {
		t.Errorf("status %d, %s, %v", status, out, err)
	}
}

func TestRepairRefuses(t *testing.T) {
	dir := sampleStore(t)
	for _, name := range []string{"STORE", "STORE.2"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	empty := t.TempDir()
	for _, c := range []struct {
		args   []string
		status int
		text   string
	}{
		{[]string{"repair"}, exitUsage, "the store's directory; got 0"},
		{[]string{"repair", empty}, exitError, "no store"},
		{[]string{"repair", dir}, exitDamaged, "set-aside"},
	} {
		if status, _, errs := run(t, c.args...); status != c.status || !strings.Contains(errs, c.text) {
			t.Errorf("%v: status %d, %q", c.args, status, errs)
		}
	}
	if names, err := os.ReadDir(empty); err != nil || len(names) != 0 {
		t.Errorf("an empty directory holds %v, %v", names, err)
	}
}
