package ctest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/tools/internal/server"
	_ "github.com/sealstone/sealstone/tools/libsealstone/internal/core" // what is in the library decides whether these tests are run again
)

// root is the repository's directory, from here.
const root = "../../.."

// serverEnv makes the test binary a server: "DIR SOCKET".
const serverEnv = "SEALSTONE_CTEST_SERVER"

func TestMain(m *testing.M) {
	if place := os.Getenv(serverEnv); place != "" {
		if err := serve(place); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// serve runs a server until its standard input ends.
func serve(place string) error {
	dir, socket, _ := strings.Cut(place, " ")
	store, err := engine.Open(dir, engine.Options{CapacityBytes: 256 << 20, MaxBlockBytes: 1 << 20, Path: engine.PathBuffered})
	if err != nil {
		return err
	}
	s, err := server.New(store, server.Options{})
	if err != nil {
		return err
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	go func() { _ = s.Serve(l) }()
	fmt.Println("ready")
	_, _ = os.Stdin.Read(make([]byte, 1))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := s.Shutdown(ctx); err != nil {
		return err
	}
	return store.Close(ctx)
}

// startServer gives the socket and the process of a server that ends with the
// test.
func startServer(t *testing.T, dir string) (socket string, pid int) {
	t.Helper()
	sockets, err := os.MkdirTemp("", "ctest") // short: the path of a socket has 107 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	socket = filepath.Join(sockets, "s")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serverEnv+"="+dir+" "+socket)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(sigCont) // a test that failed may have left it stopped
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("server: %v", err)
		}
		_ = os.RemoveAll(sockets)
	})
	if _, err := out.Read(make([]byte, 6)); err != nil {
		t.Fatalf("the server did not come up: %v", err)
	}
	return socket, cmd.Process.Pid
}

// buildLibrary is make lib, once. Where it is built already that takes a moment.
var buildLibrary = sync.OnceValues(func() (string, error) {
	// The go command runs tests again when a file that they read has changed.
	for _, pattern := range []string{"../*", "testdata/*/*"} {
		names, _ := filepath.Glob(pattern)
		for _, name := range names {
			_, _ = os.ReadFile(name)
		}
	}
	out, err := exec.Command("make", "-s", "-C", root, "lib").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("make lib: %w\n%s", err, out)
	}
	return filepath.Abs(root + "/bin")
})

// needTools skips a test where a tool is missing.
func needTools(t *testing.T, tools ...string) {
	t.Helper()
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed: a C program is built and run here", tool)
		}
	}
}

// bin is the directory with the library.
func bin(t *testing.T) string {
	t.Helper()
	needTools(t, "cc", "make")
	dir, err := buildLibrary()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// compile builds a C program from the sources of a folder, without a warning.
func compile(t *testing.T, cc string, sources []string, flags ...string) string {
	t.Helper()
	needTools(t, cc)
	lib, program := bin(t), filepath.Join(t.TempDir(), "program")
	args := append([]string{"-Wall", "-Wextra", "-Werror", "-O1", "-g", "-I" + lib, "-o", program}, flags...)
	args = append(append(args, sources...), "-L"+lib, "-lsealstone", "-Wl,-rpath,"+lib, "-lpthread", "-ldl")
	if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", cc, args, err, out)
	}
	return program
}

func sources(t *testing.T, folder string) []string {
	t.Helper()
	names, err := filepath.Glob("testdata/" + folder + "/*.c")
	if err != nil || len(names) == 0 {
		t.Fatalf("no source in %s: %v", folder, err)
	}
	return names
}

// storeOptions is the JSON that opens a store in dir.
func storeOptions(dir string) string {
	p, _ := json.Marshal(map[string]any{"dir": dir, "capacity_bytes": 256 << 20, "max_block_bytes": 1 << 20, "path": "buffered"})
	return string(p)
}

// run runs a program, which is to end with status 0 and to say ok a number of
// times.
func run(t *testing.T, oks int, env []string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if got := bytes.Count(out, []byte("ok ")); err != nil || got < oks {
		t.Fatalf("%s: %v, %d tests ok, want %d:\n%s", filepath.Base(name), err, got, oks, tail(out))
	}
	return string(out)
}

func tail(p []byte) []byte { return p[max(0, len(p)-8000):] }
