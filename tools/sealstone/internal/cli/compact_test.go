package cli

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestCompact(t *testing.T) {
	dir := sampleStore(t)
	// A first run settles what the store's last owner left, so that sizes are
	// the same in every run.
	status, out, errs := run(t, "compact", dir, "--target", "0.01")
	if status != exitOK || errs != "" {
		t.Fatalf("status %d, %q, %q", status, out, errs)
	}
	status, out, errs = run(t, "compact", dir, "--dry-run", "--target", "1")
	if status != exitOK || errs != "" {
		t.Errorf("status %d, %q", status, errs)
	}
	checkWidth(t, "compact", out)
	golden(t, "compact_dry", maskSeconds(normalise(out)))
	status, out, errs = run(t, "compact", dir, "--target", "1", "--rate", "1GiB/s")
	if status != exitOK || errs != "" {
		t.Errorf("status %d, %q", status, errs)
	}
	checkWidth(t, "compact", out)
	golden(t, "compact", maskSeconds(normalise(out)))
	if status, r := verifyReportOf(t, dir); status != exitOK || r.Blocks != 3 {
		t.Errorf("after the compaction: status %d, %+v", status, r)
	}
	status, out, _ = run(t, "compact", dir, "-q", "--json")
	var r compactReport
	if err := json.Unmarshal([]byte(out), &r); err != nil || status != exitOK || r.Kept == nil || r.Planned != 0 {
		t.Errorf("status %d, %+v, %v", status, r, err)
	}
}

func TestCompactRefuses(t *testing.T) {
	empty := t.TempDir()
	for _, c := range []struct {
		args   []string
		status int
		text   string
	}{
		{[]string{"compact"}, exitUsage, "the store's directory; got 0"},
		{[]string{"compact", empty}, exitError, "no store"},
		{[]string{"compact", empty, "--dry-run"}, exitError, "no store"},
		{[]string{"compact", empty, "--target", "1.5"}, exitUsage, "--target 1.5"},
		{[]string{"compact", empty, "--target", "0"}, exitUsage, "--target 0"},
	} {
		if status, _, errs := run(t, c.args...); status != c.status || !strings.Contains(errs, c.text) {
			t.Errorf("%v: status %d, %q", c.args, status, errs)
		}
	}
}
