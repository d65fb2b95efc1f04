package fsmatrix

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/sealstone/sealstone/engine"
	"golang.org/x/sys/unix"
)

// Environment of a child process: what it is to do, and where.
const (
	childVariable     = "FSMATRIX_CHILD"
	childDirVariable  = "FSMATRIX_DIR"
	childPathVariable = "FSMATRIX_PATH"
)

// nobody is the user and group of children that give up being root.
const nobody = 65534

// children prepare the process as a container would, before the store is
// opened.
var children = map[string]func() error{
	"seccomp-eperm":  func() error { return refuseUring(unix.EPERM) },
	"seccomp-enosys": func() error { return refuseUring(unix.ENOSYS) },
	"memlock":        func() error { return errors.Join(limit(unix.RLIMIT_MEMLOCK, 64<<10), becomeNobody()) },
	"nofile":         func() error { return limit(unix.RLIMIT_NOFILE, 64) },
	"nobody":         becomeNobody,
}

// becomeNobody gives up root, in all threads.
func becomeNobody() error {
	return errors.Join(syscall.Setgroups(nil), syscall.Setresgid(nobody, nobody, nobody), syscall.Setresuid(nobody, nobody, nobody))
}

// limit sets a limit for good: the Go runtime raises the one on open files to
// the hard limit.
func limit(resource int, n uint64) error {
	return unix.Setrlimit(resource, &unix.Rlimit{Cur: n, Max: n})
}

// runChild prepares and exercises, prints a report and returns the exit status
// of the process.
func runChild(name string) int {
	r := &report{}
	prepare, ok := children[name]
	if !ok {
		r.Err = "there is no child " + name
	} else if err := prepare(); err != nil {
		r.Err = fmt.Sprintf("prepare %s: %v", name, err)
	} else {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		got, err := exercise(ctx, os.Getenv(childDirVariable), engine.PathChoice(os.Getenv(childPathVariable)), full)
		if got != nil {
			r = got
		}
		if err != nil {
			r.Err = err.Error()
			r.PathRefused = errors.Is(err, engine.ErrPathRefused)
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		return 1
	}
	return 0
}

// inChild exercises a store in dir, by a path, in a process prepared by one of
// children.
func inChild(t *testing.T, name, dir string, path engine.PathChoice) *report {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childVariable+"="+name, childDirVariable+"="+dir, childPathVariable+"="+string(path))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	r := &report{}
	if err != nil || json.Unmarshal(out, r) != nil {
		t.Fatalf("child %s: %v: %s %s", name, err, out, stderr.Bytes())
	}
	return r
}
