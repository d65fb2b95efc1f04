package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// maskSeconds hides how long something took.
func maskSeconds(out string) string {
	return regexp.MustCompile(`(?m)^(took +)\S+ s$`).ReplaceAllString(out, "${1}*")
}

func TestRebuild(t *testing.T) {
	dir := sampleStore(t)
	status, out, errs := run(t, "rebuild", dir)
	if status != exitOK || errs != "" {
		t.Errorf("status %d, %q", status, errs)
	}
	checkWidth(t, "rebuild", out)
	golden(t, "rebuild", maskSeconds(normalise(out)))
	if status, r := verifyReportOf(t, dir); status != exitOK || r.Blocks != 3 || r.Index.Rebuild != "" {
		t.Errorf("after the rebuild: status %d, %+v", status, r)
	}
	status, out, _ = run(t, "rebuild", dir, "-q", "--json", "-", "--rate", "1GiB/s")
	var r rebuildReport
	if err := json.Unmarshal([]byte(out), &r); err != nil || status != exitOK || r.Blocks != 3 || r.Notes == nil {
		t.Errorf("status %d, %+v, %v", status, r, err)
	}
}

// TestRebuildDamage: what a damaged sidecar costs is said, and is a status.
func TestRebuildDamage(t *testing.T) {
	dir := sampleStore(t)
	a := locate(t, dir, "a")
	flipAt(t, filepath.Join(dir, strings.TrimSuffix(a.File, ".seg")+".del"), 40)
	status, out, _ := run(t, "rebuild", dir)
	if status != exitDamaged || !strings.Contains(out, "beside damaged tombstones") {
		t.Errorf("status %d, %q", status, out)
	}
}

func TestRebuildRefuses(t *testing.T) {
	empty := t.TempDir()
	for _, c := range []struct {
		args   []string
		status int
		text   string
	}{
		{[]string{"rebuild"}, exitUsage, "the store's directory; got 0"},
		{[]string{"rebuild", empty}, exitError, "no store"},
		{[]string{"rebuild", empty, "--rate", "fast"}, exitUsage, "rate"},
	} {
		if status, _, errs := run(t, c.args...); status != c.status || !strings.Contains(errs, c.text) {
			t.Errorf("%v: status %d, %q", c.args, status, errs)
		}
	}
	if names, err := os.ReadDir(empty); err != nil || len(names) != 0 {
		t.Errorf("an empty directory holds %v, %v", names, err)
	}
}
