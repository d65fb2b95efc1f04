package client

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"go.uber.org/goleak"
)

// childAddress is set for the test binary as a client that is to be killed.
const childAddress = "SEALSTONE_TEST_CLIENT_OF"

func TestMain(m *testing.M) {
	if address := os.Getenv(childAddress); address != "" {
		fmt.Fprintln(os.Stderr, runChild(address))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

func startChild(t *testing.T, address string) *exec.Cmd {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^$")
	child.Env = append(os.Environ(), childAddress+"="+address)
	child.Stderr = os.Stderr
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	return child
}
