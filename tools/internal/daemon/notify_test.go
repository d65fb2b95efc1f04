package daemon

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// manager is a service manager's socket: what it was told.
func manager(t *testing.T) (path string, next func() string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return path, func() string {
		t.Helper()
		_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
		p := make([]byte, 4096)
		n, err := c.Read(p)
		if err != nil {
			t.Fatalf("the manager was told nothing: %v", err)
		}
		return string(p[:n])
	}
}

func from(m map[string]string) func(string) string {
	return func(name string) string { return m[name] }
}

func TestNotifier(t *testing.T) {
	path, next := manager(t)
	n := NewNotifier(from(map[string]string{"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": strconv.Itoa(os.Getpid())}))
	for _, c := range []struct {
		tell func() error
		want string
	}{
		{n.Ready, "READY=1"}, {n.Stopping, "STOPPING=1"}, {n.Alive, "WATCHDOG=1"},
		{func() error { return n.Status("two\nlines") }, "STATUS=two lines"},
		{func() error { return n.Extend(time.Minute) }, "EXTEND_TIMEOUT_USEC=60000000"},
	} {
		if err := c.tell(); err != nil {
			t.Fatal(err)
		}
		if got := next(); got != c.want {
			t.Errorf("told %q, want %q", got, c.want)
		}
	}
	if n.WatchdogInterval != 1500*time.Millisecond {
		t.Errorf("the watchdog is told every %v", n.WatchdogInterval)
	}
}

func TestNotifierWithoutManager(t *testing.T) {
	n := NewNotifier(from(map[string]string{"WATCHDOG_USEC": "3000000"}))
	if err := n.Ready(); err != nil || n.WatchdogInterval != 0 {
		t.Errorf("%v, %v", err, n.WatchdogInterval)
	}
	if n := NewNotifier(from(map[string]string{"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"})); n.WatchdogInterval != 0 {
		t.Error("the watchdog of another process is fed")
	}
	if err := NewNotifier(from(map[string]string{"NOTIFY_SOCKET": filepath.Join(t.TempDir(), "none")})).Ready(); err == nil {
		t.Error("a manager that is not there was told")
	}
}
