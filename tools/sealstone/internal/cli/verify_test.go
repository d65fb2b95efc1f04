package cli

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/engine"
)

func verifyReportOf(t *testing.T, dir string) (status int, r verifyReport) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.json")
	status, out, errs := run(t, "verify", dir, "--quiet", "--json", path)
	if out != "" {
		t.Errorf("quiet, and %q", out)
	}
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		t.Fatalf("status %d, %v, %s", status, err, errs)
	}
	return status, r
}

func TestVerify(t *testing.T) {
	dir := sampleStore(t)
	status, out, errs := run(t, "verify", dir)
	if status != exitOK || errs != "" {
		t.Errorf("status %d, %q", status, errs)
	}
	checkWidth(t, "verify", out)
	golden(t, "verify", normalise(out))
	if status, r := verifyReportOf(t, dir); status != exitOK || r.Damaged != 0 || r.Blocks != 3 || r.Damage == nil {
		t.Errorf("status %d, %+v", status, r)
	}
}

// TestVerifyDamage: one flipped byte is one finding, and the block is named.
func TestVerifyDamage(t *testing.T) {
	dir := sampleStore(t)
	a, c := locate(t, dir, "a"), locate(t, dir, "c")
	flipAt(t, filepath.Join(dir, c.File), c.PayloadOffset+8192+70000/4)
	status, r := verifyReportOf(t, dir)
	if status != exitDamaged || r.Damaged != 1 || r.Damage[0].Hash != hex.EncodeToString(sampleHash("c")) || r.Damage[0].Kind != engine.DamageBlock {
		t.Errorf("status %d, %d damaged: %v", status, r.Damaged, r.Damage)
	}
	flipAt(t, filepath.Join(dir, a.File), a.PayloadOffset+1)
	flipAt(t, filepath.Join(dir, "STORE.2"), 100)
	status, out, _ := run(t, "verify", dir, "--workers", "1")
	if status != exitDamaged {
		t.Errorf("status %d", status)
	}
	checkWidth(t, "verify", out)
	golden(t, "verify_damage", maskSums(normalise(out)))
}

// maskSums hides sums that the store's secret keys.
func maskSums(out string) string {
	lines := strings.Split(out, "\n")
	for i, l := range lines {
		if strings.Contains(l, "sum ") && strings.Contains(l, "in place of") {
			lines[i] = "  sum * in place of *"
		}
	}
	return strings.Join(lines, "\n")
}

func TestVerifyRefuses(t *testing.T) {
	dir := sampleStore(t)
	s, err := engine.Open(dir, engine.Options{CapacityBytes: 256 << 20, MaxBlockBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"verify", dir}, {"inspect", "store", dir}} {
		status, out, errs := run(t, args...)
		if status != exitLocked || out != "" || !strings.Contains(errs, "is held by") {
			t.Errorf("%v of a store in use: status %d, %q, %q", args, status, out, errs)
		}
	}
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   []string
		status int
		text   string
	}{
		{[]string{"verify"}, exitUsage, "the store's directory; got 0"},
		{[]string{"verify", t.TempDir()}, exitError, "no store"},
		{[]string{"verify", dir, "--workers", "-1"}, exitError, "-1 workers"},
	} {
		if status, _, errs := run(t, c.args...); status != c.status || !strings.Contains(errs, c.text) {
			t.Errorf("%v: status %d, %q", c.args, status, errs)
		}
	}
	for _, name := range []string{"STORE", "STORE.2"} {
		flipAt(t, filepath.Join(dir, name), 60)
	}
	if status, out, _ := run(t, "verify", dir); status != exitDamaged || !strings.Contains(out, "2 damaged") {
		t.Errorf("both copies of STORE: status %d, %q", status, out)
	}
	if status, _, errs := run(t, "inspect", "store", dir); status != exitDamaged || !strings.Contains(errs, "STORE") {
		t.Errorf("both copies of STORE: status %d, %q", status, errs)
	}
}

func TestPrintVerifyMany(t *testing.T) {
	r := verifyReport{VerifyReport: &engine.VerifyReport{Damaged: 25, Notes: []string{"a note"}}}
	for i := range 25 {
		r.Damage = append(r.Damage, engine.Damage{Kind: engine.DamageTombstones, File: "segments/01/0000000000000001.del", Offset: int64(i), Reason: "rot"})
	}
	var b strings.Builder
	printVerify(&b, r)
	if out := b.String(); !strings.Contains(out, "... and 5 more") || strings.Count(out, "DAMAGED") != 20 || !strings.Contains(out, "note: a note\n") {
		t.Errorf("%s", out)
	}
}

// TestVerifyJSON: every block is listed, in the form that the help names.
func TestVerifyJSON(t *testing.T) {
	dir := sampleStore(t)
	c := locate(t, dir, "c")
	flipAt(t, filepath.Join(dir, c.File), c.PayloadOffset)
	status, out, errs := run(t, "verify", dir, "--json")
	var r struct {
		Extents []engine.BlockVerdict `json:"extents"`
		verifyReport
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil || status != exitDamaged || errs != "" {
		t.Fatalf("status %d, %v, %q, %s", status, err, errs, out)
	}
	var got []string
	for _, x := range r.Extents {
		for _, name := range []string{"a", "b", "c", "d"} {
			if x.Hash == hex.EncodeToString(sampleHash(name)) {
				got = append(got, fmt.Sprintf("%s %s %s", name, x.Role, x.Verdict))
			}
		}
	}
	slices.Sort(got)
	if s := strings.Join(got, ", "); s != "a block ok, b none orphan, c block damaged, d alias ok, d block ok" {
		t.Error(s)
	}
	if r.Damaged != 1 || len(r.Namespaces) != 1 || r.Namespaces[0].LostBlocks != 1 {
		t.Errorf("%+v", r)
	}
	if _, out, _ = run(t, "verify", dir, "--json", "--extents=false"); strings.Contains(out, `"role"`) || !json.Valid([]byte(out)) {
		t.Errorf("--extents=false: %s", out)
	}
	if status, out, _ = run(t, "verify", t.TempDir(), "--json"); status != exitError || !json.Valid([]byte(out)) || !strings.Contains(out, "no store") {
		t.Errorf("no store: %d, %s", status, out)
	}
}

func TestVerifySample(t *testing.T) {
	dir := sampleStore(t)
	for _, c := range []struct{ flags, text string }{
		{"--sample 1/2", "part 1 of 2, seed 0"},
		{"--sample 1MiB --seed 3 --rate 1GiB/s", "about 1.0 MiB, seed 3"},
		{"--sample 5% --seed 9", "5 % of the extents, seed 9"},
	} {
		status, out, errs := run(t, append([]string{"verify", dir}, strings.Fields(c.flags)...)...)
		if status != exitOK || !strings.Contains(out, c.text) || !strings.Contains(out, "no damage in the sample") {
			t.Errorf("%s: status %d, %s%s", c.flags, status, out, errs)
		}
		checkWidth(t, c.flags, out)
	}
	if status, _, errs := run(t, "verify", dir, "--sample", "3/2"); status != exitUsage || !strings.Contains(errs, "is not a part") {
		t.Errorf("status %d, %q", status, errs)
	}
}

func TestPrintVerifyInterrupted(t *testing.T) {
	var b strings.Builder
	printVerify(&b, verifyReport{VerifyReport: &engine.VerifyReport{Damaged: 1, Interrupted: true, NotReadBytes: 5 << 30}})
	if out := b.String(); !strings.Contains(out, "1 damaged in what was read before the interrupt") || !strings.Contains(out, "5.0 GiB of segments") {
		t.Error(out)
	}
}
