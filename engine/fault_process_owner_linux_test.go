package engine

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sealstone/sealstone/engine/meta"
	"github.com/sealstone/sealstone/internal/faults/faulttest"
)

// TestFaultOwnerInherited: programs that a process starts while it has a store
// open get none of its descriptors, be they of files, locks or rings.
func TestFaultOwnerInherited(t *testing.T) {
	tally := faulttest.New(t)
	for _, path := range PathChoices() {
		t.Run(string(path), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			o := dirOptions()
			o.Path = path
			s, err := Open(dir, o)
			if errors.Is(err, ErrPathRefused) {
				t.Skip("the path is refused in the temporary directory: ", err)
			}
			mustDo(t, err)
			defer mustClose(t, s)
			n := mustSpace(t, s)
			mustPut(t, n, blockOf(0, 0, raceSize))
			mustDrop(t, n, 0)
			mustPut(t, n, blockOf(1, 0, raceSize))
			wantBlock(t, n, 1, 0, raceSize)
			fault := tally.Try("a child is started beside a store, path " + string(path))
			out, err := exec.Command("ls", "-l", "/proc/self/fd").CombinedOutput()
			mustDo(t, err)
			fault.Fire()
			for _, bad := range []string{dir, "io_uring", "eventfd"} {
				if strings.Contains(string(out), bad) {
					t.Errorf("the child has inherited %q:\n%s", bad, out)
				}
			}
			if !t.Failed() {
				fault.Survive()
			}
		})
	}
}

// TestFaultOwnerChildOutlives: a program that the owner started lives on after
// the owner was killed. The store is free all the same.
func TestFaultOwnerChildOutlives(t *testing.T) {
	if os.Getenv(childVariable) == t.Name() {
		s, err := Open(os.Getenv("SEALSTONE_TEST_DIR"), dirOptions())
		mustDo(t, err)
		mustPut(t, mustSpace(t, s), blockOf(0, 0, raceSize))
		sleeper := exec.Command("sleep", "600")
		mustDo(t, sleeper.Start())
		fmt.Printf("\nsleeper %d\n", sleeper.Process.Pid)
		select {}
	}
	tally := faulttest.New(t)
	fault := tally.Try("the owner is killed and a program that it started lives on")
	dir := filepath.Join(t.TempDir(), "store")
	owner := childOf(t, "SEALSTONE_TEST_DIR="+dir)
	out, err := owner.StdoutPipe()
	mustDo(t, err, owner.Start())
	defer owner.Wait()
	defer owner.Process.Kill()
	sleeper := 0
	for lines := bufio.NewScanner(out); sleeper == 0 && lines.Scan(); {
		_, _ = fmt.Sscanf(lines.Text(), "sleeper %d", &sleeper)
	}
	if sleeper == 0 {
		t.Fatal("the owner did not open the store")
	}
	defer syscall.Kill(sleeper, syscall.SIGKILL)
	if _, err := Open(dir, dirOptions()); !errors.Is(err, ErrLocked) {
		t.Fatalf("beside the owner: %v", err)
	}
	mustDo(t, owner.Process.Kill())
	_ = owner.Wait()
	tally.Kills(1)
	mustDo(t, syscall.Kill(sleeper, 0)) // it lives
	fault.Fire()
	s, err := Open(dir, dirOptions())
	if err != nil {
		t.Fatalf("after the owner's end: %v", err)
	}
	wantBlock(t, mustSpace(t, s), 0, 0, raceSize)
	mustClose(t, s)
	fault.Survive()
}

// TestFaultOwnerTwo opens a store that has an owner in every other way. Each
// is refused, names the owner, and changes nothing, also where LOCK was
// deleted or replaced by the text of somebody else.
func TestFaultOwnerTwo(t *testing.T) {
	tally := faulttest.New(t)
	readOnly := dirOptions()
	readOnly.ReadOnly = true
	ways := map[string]func(dir string) error{
		"open":      func(dir string) error { _, err := Open(dir, dirOptions()); return err },
		"read-only": func(dir string) error { _, err := Open(dir, readOnly); return err },
		"verify":    func(dir string) error { _, err := Verify(t.Context(), dir, VerifyOptions{}); return err },
		"inspect":   func(dir string) error { _, err := Inspect(dir); return err },
		"locate":    func(dir string) error { _, err := Locate(dir, 1, hashOf(0)); return err },
	}
	self := meta.CurrentOwner()
	for _, c := range []struct {
		name  string
		owner func(o Options) Options
		lock  func(file string) error
		says  string
	}{
		{"a writer", nil, nil, fmt.Sprintf("pid %d", self.PID)},
		{"a reader", func(o Options) Options { o.ReadOnly = true; return o }, nil, "LOCK"},
		{"LOCK deleted", nil, os.Remove, "deleted or replaced"},
		{"LOCK replaced by that of a dead process", nil, func(file string) error {
			mustDo(t, os.Remove(file))
			return os.WriteFile(file, []byte(`{"host":"`+self.Host+`","pid":999999999}`), 0o600)
		}, "deleted or replaced"},
		{"the text is of another host", nil, func(file string) error {
			return os.WriteFile(file, []byte(`{"host":"elsewhere","pid":7}`), 0o600)
		}, "another host"},
		{"the text is of another PID namespace", nil, func(file string) error {
			return os.WriteFile(file, []byte(`{"host":"`+self.Host+`","boot_id":"`+self.BootID+`","pid":7,"pid_namespace":1}`), 0o600)
		}, "another PID namespace"},
		{"the text is none", nil, func(file string) error { return os.WriteFile(file, []byte("{"), 0o600) }, "has not said its name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			s, err := Open(dir, dirOptions())
			mustDo(t, err)
			n := mustSpace(t, s)
			mustPut(t, n, blockOf(0, 0, raceSize))
			if c.owner != nil {
				mustClose(t, s)
				s, err = Open(dir, c.owner(dirOptions()))
				mustDo(t, err)
				n = mustSpace(t, s)
			}
			if c.lock != nil {
				mustDo(t, c.lock(filepath.Join(dir, "LOCK")))
			}
			for name, way := range ways {
				fault := tally.Try(name + " beside " + c.name)
				fault.Fire()
				if err := way(dir); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s: %v, want it to say %q", name, err, c.says)
				} else {
					fault.Survive()
				}
			}
			wantBlock(t, n, 0, 0, raceSize)
			mustClose(t, s)
			if s, err = Open(dir, dirOptions()); err != nil {
				t.Fatalf("after its end: %v", err)
			}
			wantBlock(t, mustSpace(t, s), 0, 0, raceSize)
			mustClose(t, s)
		})
	}
}
