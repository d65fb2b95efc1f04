package fsmatrix

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// full says whether the long versions are to run.
var full = os.Getenv("SEALSTONE_FULL") != ""

// TestMain runs the tests, or in a child process the part that was asked for.
func TestMain(m *testing.M) {
	if name := os.Getenv(childVariable); name != "" {
		os.Exit(runChild(name))
	}
	// FUSE servers of tests that abandoned requests end with their mounts.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/hanwen/go-fuse/v2/fuse.(*Server).loop"))
}
