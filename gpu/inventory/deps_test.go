package inventory

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestLibraryIsFreeOfNVML: nothing that an inference engine links may bring
// go-nvml, which cannot be loaded with all its symbols bound at once.
func TestLibraryIsFreeOfNVML(t *testing.T) {
	list := func(args ...string) []string {
		t.Helper()
		cmd := exec.Command("go", append([]string{"list"}, args...)...)
		cmd.Dir, cmd.Env = "../..", append(os.Environ(), "CGO_ENABLED=1", "GOOS=linux")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go list %v: %v", args, err)
		}
		return strings.Fields(string(out))
	}
	const here = "github.com/sealstone/sealstone/gpu/inventory"
	var packages []string
	for _, p := range list("./engine/...", "./gpu/...", "./wal/...", "./tiers/...") {
		if p != here {
			packages = append(packages, p)
		}
	}
	found := false
	for _, p := range list(append([]string{"-deps"}, packages...)...) {
		if strings.Contains(p, "go-nvml") || p == here {
			t.Errorf("the library brings %s", p)
		}
		found = found || p == "github.com/sealstone/sealstone/engine"
	}
	if !found {
		t.Errorf("looked at %d packages and not at the engine", len(packages))
	}
	// The test sees it where it is.
	if !strings.Contains(strings.Join(list("-deps", "./gpu/inventory"), " "), "go-nvml") {
		t.Error("not even this package brings go-nvml: the test looks for the wrong name")
	}
}
