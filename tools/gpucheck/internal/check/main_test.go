package check

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// The test binary is the child of its own steps too.
func TestMain(m *testing.M) {
	if isChild, err := Child(context.Background(), os.Args[1:], os.Stdin, os.Stdout); isChild {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
