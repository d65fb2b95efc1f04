package ctest

import (
	"errors"
	"os/exec"
	"syscall"
	"testing"
)

func hostProgram(t *testing.T) (program, library string) {
	t.Helper()
	return compile(t, "cc", sources(t, "host"), "-std=gnu11"), bin(t) + "/libsealstone.so.1"
}

// TestFork: in a child every call answers Forked at once and the lock's
// descriptors are closed; the parent goes on, and its directory is free when it
// closed the store though the child lives.
func TestFork(t *testing.T) {
	program, library := hostProgram(t)
	run(t, 0, nil, program, "fork", library, storeOptions(t.TempDir()))
}

// TestSignals: the handlers that the host had set work as before, in all
// threads, and so do those that it sets later.
func TestSignals(t *testing.T) {
	program, library := hostProgram(t)
	run(t, 0, nil, program, "signals", library, storeOptions(t.TempDir()))
}

// TestSignalDefaults: a host without handlers dies of the signals of which it
// would die without the library, and nothing is printed.
func TestSignalDefaults(t *testing.T) {
	program, library := hostProgram(t)
	for _, sig := range []syscall.Signal{syscall.SIGPIPE, syscall.SIGSEGV, syscall.SIGTERM, syscall.SIGINT} {
		number := map[syscall.Signal]string{syscall.SIGPIPE: "13", syscall.SIGSEGV: "11", syscall.SIGTERM: "15", syscall.SIGINT: "2"}[sig]
		out, err := exec.Command(program, number, library, storeOptions(t.TempDir())).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			t.Errorf("%v: the host lives: %v", sig, err)
			continue
		}
		if ws := exit.Sys().(syscall.WaitStatus); !ws.Signaled() || ws.Signal() != sig || len(out) > 0 {
			t.Errorf("%v: ended by %v, printed %q", sig, err, out)
		}
	}
}
