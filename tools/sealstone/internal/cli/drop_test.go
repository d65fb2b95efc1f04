package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/engine"
)

func TestDrop(t *testing.T) {
	dir := sampleStore(t)
	status, out, errs := run(t, "drop", dir, "--tenant", "tenant", "--dry-run")
	if status != exitOK || errs != "" {
		t.Errorf("status %d, %q", status, errs)
	}
	checkWidth(t, "drop", out)
	golden(t, "drop_dry", out)
	if status, r := verifyReportOf(t, dir); status != exitOK || r.Blocks != 3 {
		t.Errorf("after a dry run: status %d, %+v", status, r)
	}
	if status, out, _ = run(t, "drop", dir, "--older-than", "72h"); status != exitOK || !strings.Contains(out, "dropped  0 blocks") {
		t.Errorf("young blocks: status %d, %q", status, out)
	}
	status, out, errs = run(t, "drop", dir, "--namespace", "1", "--yes")
	if status != exitOK || errs != "" {
		t.Errorf("status %d, %q", status, errs)
	}
	checkWidth(t, "drop", out)
	golden(t, "drop", out)
	status, out, _ = run(t, "drop", dir, "--tenant", "tenant", "-q", "--json")
	var r engine.DropReport
	if err := json.Unmarshal([]byte(out), &r); err != nil || status != exitOK || r.Blocks != 0 || r.Namespaces == nil {
		t.Errorf("dropped already: status %d, %q, %v", status, out, err)
	}
	if status, out, _ := run(t, "compact", dir, "-q", "--json"); status != exitOK || !strings.Contains(out, `"live_bytes": 0`) {
		t.Errorf("compact: status %d, %q", status, out)
	}
}

func TestDropQuarantined(t *testing.T) {
	dir := sampleStore(t)
	path := filepath.Join(dir, "quarantine", "0000000000000001-5.bad")
	if err := os.WriteFile(path, []byte("namespace 1 hash 00 sequence 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, out, errs := run(t, "drop", dir, "--quarantined", "--dry-run"); status != exitOK || !strings.Contains(out, "1 file of evidence") || errs != "" {
		t.Errorf("status %d, %q, %q", status, out, errs)
	}
	if status, out, errs := run(t, "drop", dir, "--quarantined", "--namespace", "1"); status != exitOK || !strings.Contains(out, "removed    1 file") && !strings.Contains(out, "removed  1 file") || errs != "" {
		t.Errorf("status %d, %q, %q", status, out, errs)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the evidence is there")
	}
}

func TestDropRefuses(t *testing.T) {
	dir := sampleStore(t)
	for _, c := range []struct {
		args   []string
		status int
		text   string
	}{
		{[]string{"drop", dir}, exitUsage, "say what to drop"},
		{[]string{"drop", dir, "--namespace", "0"}, exitUsage, "--namespace 0"},
		{[]string{"drop", dir, "--older-than", "-1h"}, exitUsage, "negative"},
		{[]string{"drop", dir, "--namespace", "7"}, exitError, "no namespace 7"},
		{[]string{"drop", dir, "--tenant", "nobody"}, exitError, `tenant "nobody"`},
		{[]string{"drop", t.TempDir(), "--quarantined"}, exitError, "no store"},
	} {
		if status, _, errs := run(t, c.args...); status != c.status || !strings.Contains(errs, c.text) {
			t.Errorf("%v: status %d, %q", c.args, status, errs)
		}
	}
}
