package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestJoinJSON(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "old.json")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"", ""},
		{"verify d", "verify d"},
		{"verify d --json", "verify d --json=-"},
		{"verify d --json -", "verify d --json=-"},
		{"verify d --json --quiet", "verify d --json=- --quiet"},
		{"verify d --json -q", "verify d --json=- -q"},
		{"verify d --json out", "verify d --json=out"},
		{"verify d --json=out", "verify d --json=out"},
		{"verify d --json " + file, "verify d --json=" + file},
		{"verify --json " + dir, "verify --json=- " + dir},
		{"verify --json -- d", "verify --json=- -- d"},
		{"verify -- --json", "verify -- --json"},
	} {
		if got := joinJSON(strings.Fields(c.args)); !slices.Equal(got, strings.Fields(c.want)) {
			t.Errorf("%q became %q, want %q", c.args, got, c.want)
		}
	}
}
