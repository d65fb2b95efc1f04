package engine

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// childVariable names, in a child process, the test that it was made for.
const childVariable = "SEALSTONE_TEST_CHILD_OF"

// inChild runs body in a process of its own, made from the test binary: for
// what would hurt the other tests, as a limit of the process. The child is the
// same test, run alone; what it counts goes to the log of faults itself.
func inChild(t *testing.T, body func(t *testing.T), env ...string) {
	t.Helper()
	if os.Getenv(childVariable) == t.Name() {
		body(t)
		return
	}
	cmd := childOf(t, env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("in the child process: %v\n%s", err, out)
	}
}

// childOf is a child process that runs the same test alone.
func childOf(t *testing.T, env ...string) *exec.Cmd {
	args := []string{"-test.run=^" + t.Name() + "$", "-test.count=1", "-test.timeout=" + (9 * time.Minute).String()}
	if testing.Short() {
		args = append(args, "-test.short")
	}
	if strings.Contains(t.Name(), "/") {
		t.Fatal("a child is made of a whole test")
	}
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(append(os.Environ(), childVariable+"="+t.Name()), env...)
	return cmd
}
