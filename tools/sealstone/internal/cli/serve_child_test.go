package cli

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// hang only ends a test that would wait for ever.
const hang = 2 * time.Minute

// serverChild is a server in a process of its own.
type serverChild struct {
	t          *testing.T
	cmd        *exec.Cmd
	resp, http string // addresses
	errors     *safeBuffer
	lines      *bufio.Scanner
	waited     chan error
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// program is the command line as a process with nothing in its environment but
// what the test says.
func program(t *testing.T, environment []string, arguments ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, arguments...)
	cmd.Env = append([]string{asProgram + "=1", "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}, environment...)
	return cmd
}

// smallStore are flags of a store that needs little of the disk.
var smallStore = []string{"--capacity", "200MiB", "--max-block", "1MiB", "--host-cache", "4MiB", "--path", "buffered"}

// startServer starts a server at ports of its own and waits until it serves.
func startServer(t *testing.T, dir string, arguments ...string) *serverChild {
	t.Helper()
	all := append([]string{"serve", "--dir", dir, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"}, smallStore...)
	c := &serverChild{t: t, cmd: program(t, nil, append(all, arguments...)...), errors: &safeBuffer{}, waited: make(chan error, 1)}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.cmd.Stderr = c.errors
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.cmd.Process.Kill() })
	c.lines = bufio.NewScanner(out)
	line := c.line()
	m := regexp.MustCompile(`RESP at tcp (\S+?)(?: and unix \S+)?, page at https?://(\S+)/$`).FindStringSubmatch(line)
	if m == nil {
		t.Fatalf("the server says %q\n%s", line, c.errors)
	}
	c.resp, c.http = m[1], m[2]
	return c
}

func (c *serverChild) line() string {
	if !c.lines.Scan() {
		return ""
	}
	return c.lines.Text()
}

func (c *serverChild) signal(s os.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// end waits for the process and gives its status.
func (c *serverChild) end() int {
	c.t.Helper()
	go func() { c.waited <- c.cmd.Wait() }()
	select {
	case err := <-c.waited:
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			c.t.Fatal(err)
		}
		return c.cmd.ProcessState.ExitCode()
	case <-time.After(hang):
		c.t.Fatalf("the server does not end\n%s", c.errors)
		return -1
	}
}

// get asks the server by HTTP.
func (c *serverChild) get(path string) (int, string) {
	c.t.Helper()
	got, err := http.Get("http://" + c.http + path)
	if err != nil {
		c.t.Fatal(err)
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return got.StatusCode, string(body)
}

// peer is a client as simple as they come.
type peer struct {
	t *testing.T
	c net.Conn
	r *bufio.Reader
}

func dial(t *testing.T, network, address string, config *tls.Config) *peer {
	t.Helper()
	c, err := net.DialTimeout(network, address, hang)
	if err != nil {
		t.Fatal(err)
	}
	if config != nil {
		c = tls.Client(c, config)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(hang))
	return &peer{t: t, c: c, r: bufio.NewReader(c)}
}

// do sends one command and gives the answer: a simple answer or an error as it
// stands, a bulk string as its bytes, nothing as "(nil)".
func (p *peer) do(words ...string) string {
	p.t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	if _, err := io.WriteString(p.c, b.String()); err != nil {
		p.t.Fatal(err)
	}
	line, err := p.r.ReadString('\n')
	if err != nil {
		p.t.Fatalf("%.60q: %v", words, err)
	}
	line = strings.TrimSuffix(line, "\r\n")
	if !strings.HasPrefix(line, "$") {
		return line
	}
	var n int
	if _, err := fmt.Sscanf(line, "$%d", &n); err != nil {
		p.t.Fatal(err)
	}
	if n < 0 {
		return "(nil)"
	}
	value := make([]byte, n+2)
	if _, err := io.ReadFull(p.r, value); err != nil {
		p.t.Fatal(err)
	}
	return string(value[:n])
}

// socketDir is a directory whose name is short enough for sockets in it.
func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ss")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// refused runs a server that does not come to serve.
func refused(t *testing.T, environment []string, arguments ...string) (status int, stdout, stderr string) {
	t.Helper()
	cmd := program(t, environment, append([]string{"serve"}, arguments...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	stop := time.AfterFunc(hang, func() { _ = cmd.Process.Kill() })
	defer stop.Stop()
	_ = cmd.Run()
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}
