package cli

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestServe: a client sets and gets, on TCP and on the Unix socket, and SIGTERM
// ends the server in order.
func TestServe(t *testing.T) {
	socket := filepath.Join(socketDir(t), "s")
	c := startServer(t, filepath.Join(t.TempDir(), "store"), "--unix", socket)
	value := strings.Repeat("kv\x00\r\n", 40_000)
	tcp, unix := dial(t, "tcp", c.resp, nil), dial(t, "unix", socket, nil)
	for _, x := range []struct {
		peer *peer
		ask  []string
		want string
	}{
		{tcp, []string{"SET", "a", value}, "+OK"}, {tcp, []string{"GET", "a"}, value},
		{unix, []string{"GET", "a"}, value}, {unix, []string{"EXISTS", "a"}, ":1"}, {unix, []string{"GET", "b"}, "(nil)"},
	} {
		if got := x.peer.do(x.ask...); got != x.want {
			t.Errorf("%.20q is answered with %.40q", x.ask, got)
		}
	}
	for path, want := range map[string]string{
		"/livez": "ok", "/readyz": "ok", "/healthz": "ok", "/status": `"phase": "serving"`, "/": "<title>Sealstone</title>",
		"/metrics": `sealstone_server_values_total{kind="plain",operation="get",outcome="verified"} 2`,
	} {
		if status, body := c.get(path); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s is answered with %d, without %q:\n%.300s", path, status, want, body)
		}
	}
	c.signal(syscall.SIGTERM)
	if line := c.line(); !strings.Contains(line, "0 requests and 0 connections were cut off; all writes are synced") {
		t.Errorf("the last line is %q", line)
	}
	if status := c.end(); status != exitOK {
		t.Errorf("status %d\n%s", status, c.errors)
	}
	if _, err := os.Lstat(socket); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
}

// TestServeKeepsWhatItAcknowledged over kill -9, and replaces the dead server's
// socket.
func TestServeKeepsWhatItAcknowledged(t *testing.T) {
	dir, socket := filepath.Join(t.TempDir(), "store"), filepath.Join(socketDir(t), "s")
	c := startServer(t, dir, "--unix", socket)
	p := dial(t, "unix", socket, nil)
	value := func(i int) string { return strings.Repeat(fmt.Sprintf("value %d ", i), 1+i*97) }
	for i := range 40 {
		if got := p.do("SET", fmt.Sprint("key", i), value(i)); got != "+OK" {
			t.Fatalf("SET is answered with %q", got)
		}
	}
	c.signal(syscall.SIGKILL)
	if status := c.end(); status == exitOK {
		t.Error("a server that was killed ended with 0")
	}
	c = startServer(t, dir, "--unix", socket)
	p = dial(t, "unix", socket, nil)
	for i := range 40 {
		if got := p.do("GET", fmt.Sprint("key", i)); got != value(i) {
			t.Errorf("key%d is %.40q after the restart", i, got)
		}
	}
	c.signal(syscall.SIGINT)
	if status := c.end(); status != exitOK {
		t.Errorf("status %d after SIGINT\n%s", status, c.errors)
	}
}

// TestServeSecondSignalEndsAtOnce, while the first waits for a client that has
// begun a command.
func TestServeSecondSignalEndsAtOnce(t *testing.T) {
	c := startServer(t, filepath.Join(t.TempDir(), "store"), "--stop-timeout", "1h", "--read-timeout", "1h")
	p := dial(t, "tcp", c.resp, nil)
	if got := p.do("PING"); got != "+PONG" {
		t.Fatalf("PING is answered with %q", got)
	}
	if _, err := fmt.Fprint(p.c, "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$100000\r\nand no more"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the server has read the beginning", func() bool {
		_, body := c.get("/status")
		return !strings.Contains(body, `"received_bytes_total": 0`)
	})
	c.signal(syscall.SIGTERM)
	waitFor(t, "the server stops", func() bool {
		status, body := c.get("/readyz")
		return status == http.StatusServiceUnavailable && strings.HasPrefix(body, "stopping")
	})
	if status, _ := c.get("/livez"); status != http.StatusOK {
		t.Errorf("a server that stops is answered as %d by livez", status)
	}
	c.signal(syscall.SIGTERM)
	if status := c.end(); status != exitInterrupted || !strings.Contains(c.errors.String(), "second signal") {
		t.Errorf("status %d\n%s", status, c.errors)
	}
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(hang); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not so: %s", what)
		}
	}
}

// TestServeRefusals: each with its status, and a message that says what to do.
func TestServeRefusals(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	socket := filepath.Join(socketDir(t), "s")
	c := startServer(t, dir, "--unix", socket)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	damaged := filepath.Join(t.TempDir(), "damaged")
	startServer(t, damaged).stop()
	for _, name := range []string{"STORE", "NAMESPACES"} {
		for _, file := range matches(t, filepath.Join(damaged, name+"*")) {
			if err := os.WriteFile(file, make([]byte, 8192), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	later := filepath.Join(t.TempDir(), "later")
	startServer(t, later).stop()
	for _, file := range matches(t, filepath.Join(later, "STORE*")) {
		header, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		header[8]++ // the version, behind the magic
		if err := os.WriteFile(file, header, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	other := filepath.Join(t.TempDir(), "other")
	nowhere := []string{"--listen", "127.0.0.1:0", "--http", "off"}
	for _, x := range []struct {
		name      string
		arguments []string
		status    int
		says      string
	}{
		{"a locked store", append([]string{"--dir", dir}, nowhere...), exitLocked, fmt.Sprintf("pid %d", c.cmd.Process.Pid)},
		{"a locked store and a port", []string{"--dir", dir, "--listen", c.resp}, exitLocked, "address already in use"},
		{"a port", []string{"--dir", other, "--listen", taken.Addr().String(), "--http", "off"}, exitError, "address already in use"},
		{"a socket", []string{"--dir", other, "--unix", socket, "--listen", "off", "--http", "off"}, exitError, "the socket is in use"},
		{"a damaged store", append([]string{"--dir", damaged}, nowhere...), exitDamaged, "damaged"},
		{"a store of a later program", append([]string{"--dir", later}, nowhere...), exitUnsupported, "version"},
		{"off loopback", []string{"--dir", other, "--listen", "0.0.0.0:0"}, exitUsage, "make a token"},
		{"no directory", nowhere, exitUsage, "dir is not set"},
		{"a file that is not there", []string{"--config", other + ".toml"}, exitUsage, "configuration"},
		{"an argument", []string{"here"}, exitUsage, "unknown command or argument"},
	} {
		status, _, says := refused(t, nil, x.arguments...)
		if status != x.status || !strings.Contains(says, x.says) {
			t.Errorf("%s: status %d, want %d; it says\n%s", x.name, status, x.status, says)
		}
	}
	if _, err := os.Lstat(other); !os.IsNotExist(err) {
		t.Errorf("a server that was refused has made its store: %v", err)
	}
	c.stop()
}

// stop ends a server in order.
func (c *serverChild) stop() {
	c.t.Helper()
	c.signal(syscall.SIGTERM)
	if status := c.end(); status != exitOK {
		c.t.Errorf("status %d\n%s", status, c.errors)
	}
}

func matches(t *testing.T, pattern string) []string {
	t.Helper()
	all, err := filepath.Glob(pattern)
	if err != nil || len(all) == 0 {
		t.Fatalf("%s: %v, %v", pattern, all, err)
	}
	return all
}

func TestCheckConfig(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.WriteFile("s.toml", []byte("dir = \"/d\"\nhost-cache = \"1GiB\"\nlisten = \"0.0.0.0:6380\"\ntokens = \"t.toml\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, entry, secret := run(t, "token", "engine-1", "--tenant", "team-a")
	if err := os.WriteFile("t.toml", []byte(entry), 0o600); err != nil {
		t.Fatal(err)
	}
	status, out, says := refused(t, []string{"SEALSTONE_CAPACITY=1TiB", "SEALSTONE_CAPASITY=1"}, "--config", "s.toml", "--http", "off", "--check-config")
	if status != exitOK || says != "" {
		t.Errorf("status %d\n%s", status, says)
	}
	sum := strings.Split(entry, `"`)
	if strings.Contains(out, strings.TrimSpace(secret)) || strings.Contains(out, sum[len(sum)-2]) {
		t.Error("the secret or its sum is shown")
	}
	out = strings.ReplaceAll(out, "# "+asProgram+" is set in the environment and is no setting\n", "")
	t.Chdir(here)
	golden(t, "check_config", out)

	t.Chdir(dir)
	status, _, says = refused(t, []string{"SEALSTONE_CONFIG=s.toml", "SEALSTONE_TOKENS="}, "--check-config", "--value-max", "1GiB")
	if status != exitUsage || !strings.Contains(says, "value-max = 1GiB is over") || !strings.Contains(says, "make a token") {
		t.Errorf("status %d; not all that is wrong is told:\n%s", status, says)
	}
}
