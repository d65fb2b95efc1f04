// Package canarytest lets a test binary be the child of a canary, and sets up
// canaries on the doubles of the GPU libraries, on a machine that passes for a
// bare one.
package canarytest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sealstone/sealstone/gpu/canary"
	"github.com/sealstone/sealstone/gpu/gputest"
)

// variable makes a test binary the child of a canary.
const variable = "SEALSTONE_CANARY_CHILD"

// Main must come first in TestMain. In the child of a canary it does the trial
// and ends the process.
func Main() {
	if os.Getenv(variable) == "" {
		return
	}
	out := os.NewFile(canary.AnswerFD, "answer")
	err := canary.Child(context.Background(), os.Stdin, out)
	_ = out.Close() // a thread that hangs would keep it open
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Options are those of a canary whose child is this test binary and loads these
// doubles, with the faults and settings that they have now. It reads little.
func Options(t testing.TB, d *gputest.Doubles) canary.Options {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return canary.Options{
		Program:  []string{exe},
		CUDAPath: d.CUDAPath, CuFilePath: d.CuFilePath,
		Root: Root(t), IOBytesMax: canary.MinIOBytesMax,
		// The race detector waits for a second at the end of a process.
		Env: slices.Concat(d.Env(), []string{variable + "=1", "GORACE=atexit_sleep_ms=0"}),
	}
}

// Root is a folder that stands for "/" of a machine that is no virtual one and
// has udev.
func Root(t testing.TB) string {
	t.Helper()
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "run", "udev"), 0o755); err != nil {
		t.Fatal(err)
	}
	return root
}
