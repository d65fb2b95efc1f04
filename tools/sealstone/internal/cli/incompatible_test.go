package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReplayIncompatible: a store that cannot be opened is refused, and set
// aside where that is asked for.
func TestReplayIncompatible(t *testing.T) {
	trace := writeTrace(t, 10)
	dir := sampleStore(t)
	for _, name := range []string{"STORE", "STORE.2"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"replay", trace, "--dir", dir, "--block-size", "4KiB", "--capacity", "1GiB", "-q"}
	if status, _, errs := run(t, args...); status != exitDamaged || !strings.Contains(errs, "--on-incompatible set-aside") {
		t.Errorf("status %d, %q", status, errs)
	}
	if status, _, errs := run(t, append(args, "--on-incompatible", "guess")...); status != exitUsage {
		t.Errorf("status %d, %q", status, errs)
	}
	if status, _, errs := run(t, append(args, "--on-incompatible", "set-aside")...); status != exitOK {
		t.Errorf("status %d, %q", status, errs)
	}
	if kept, err := filepath.Glob(filepath.Join(dir, "set-aside-*", "segments")); err != nil || len(kept) != 1 {
		t.Errorf("set aside: %v, %v", kept, err)
	}
}
