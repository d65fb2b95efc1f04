package ctest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

const sigCont = syscall.SIGCONT

// callTests is how many tests testdata/calls has.
const callTests = 15

// TestEmbedded uses every call on a store of the process, under
// AddressSanitizer and UndefinedBehaviorSanitizer.
func TestEmbedded(t *testing.T) {
	sanitizers := []string{"-std=c11", "-pedantic", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"}
	program := compile(t, "cc", sources(t, "calls"), sanitizers...)
	supp, err := filepath.Abs("testdata/lsan.supp")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	run(t, callTests, []string{"LSAN_OPTIONS=print_suppressions=0:suppressions=" + supp}, program, storeOptions(dir), dir)
}

// TestServer uses every call on a store behind a server. In one of them the
// server is stopped, and a million operations are submitted.
func TestServer(t *testing.T) {
	program := compile(t, "cc", sources(t, "calls"), "-std=c11", "-pedantic")
	dir := t.TempDir()
	socket, pid := startServer(t, dir)
	run(t, callTests, nil, program, fmt.Sprintf(`{"server":"unix:%s"}`, socket), dir, fmt.Sprint(pid))
}

// TestValgrind: what the library answers was written, byte for byte, and the
// caller's side touches nothing that is not its own.
func TestValgrind(t *testing.T) {
	if testing.Short() {
		t.Skip("valgrind is slow: not with -short")
	}
	needTools(t, "valgrind")
	program := compile(t, "cc", sources(t, "calls"), "-std=c11", "-pedantic")
	env, tests := []string{"CTEST_ONLY=blocks corrupt"}, 2
	if os.Getenv("SEALSTONE_FULL") == "1" {
		env, tests = nil, callTests
	}
	dir := t.TempDir()
	out := run(t, tests, env, "valgrind", "-q", "--suppressions=testdata/valgrind.supp", program, storeOptions(dir), dir)
	for _, e := range valgrindErrors(out) {
		t.Errorf("valgrind:\n%s", e)
	}
}

// valgrindErrors are the errors in valgrind's output, but for system calls of
// Go: those have buffers on goroutine stacks, and a suppression would need to
// name every system call.
func valgrindErrors(out string) (errs []string) {
	blank := regexp.MustCompile(`(?m)^==\d+== *\n`)
	for _, e := range blank.Split(out, -1) {
		if regexp.MustCompile(`(?m)^==\d+== +at 0x`).MatchString(e) && !strings.Contains(e, "runtime/syscall/linux.Syscall6") {
			errs = append(errs, e)
		}
	}
	return errs
}

// TestValgrindErrors: an error of the caller is found among those of Go.
func TestValgrindErrors(t *testing.T) {
	out := "ok blocks\n==7== Thread 2:\n==7== Syscall param read(buf) points to unaddressable byte(s)\n" +
		"==7==    at 0x4A: internal/runtime/syscall/linux.Syscall6 (asm_linux_amd64.s:36)\n==7== \n" +
		"==7== Invalid write of size 1\n==7==    at 0x10: block_init (check.c:80)\n==7== \nok corrupt\n"
	if errs := valgrindErrors(out); len(errs) != 1 || !strings.Contains(errs[0], "check.c:80") {
		t.Errorf("%q", errs)
	}
}
