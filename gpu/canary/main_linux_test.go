package canary

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// scriptVariable makes this test binary a child of a canary: one that follows
// the script of that name.
const scriptVariable = "SEALSTONE_CANARY_SCRIPT"

func TestMain(m *testing.M) {
	if script := os.Getenv(scriptVariable); script != "" {
		os.Exit(runScript(script))
	}
	goleak.VerifyTestMain(m)
}
