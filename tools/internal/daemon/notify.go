package daemon

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// Notifier tells a service manager about the state of the process, by the
// protocol of sd_notify(3): datagrams to the socket in NOTIFY_SOCKET. Without
// the variable it does nothing.
type Notifier struct {
	address *net.UnixAddr
	// WatchdogInterval is how often Alive must be told; 0: the manager does not
	// ask for it.
	WatchdogInterval time.Duration
}

// NewNotifier reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID by getenv.
func NewNotifier(getenv func(string) string) *Notifier {
	n := &Notifier{}
	path := getenv("NOTIFY_SOCKET")
	if path == "" {
		return n
	}
	if strings.HasPrefix(path, "@") {
		path = "\x00" + path[1:] // the abstract namespace
	}
	n.address = &net.UnixAddr{Name: path, Net: "unixgram"}
	pid := getenv("WATCHDOG_PID")
	if us, err := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 64); err == nil && us > 0 && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		// Half of what the manager waits for, as it advises.
		n.WatchdogInterval = time.Duration(us) * time.Microsecond / 2
	}
	return n
}

func (n *Notifier) send(state string) error {
	if n.address == nil {
		return nil
	}
	c, err := net.DialUnix("unixgram", nil, n.address)
	if err != nil {
		return fmt.Errorf("tell the service manager %q: %w", state, err)
	}
	defer c.Close()
	_ = c.SetWriteDeadline(time.Now().Add(time.Second))
	if _, err := c.Write([]byte(state)); err != nil {
		return fmt.Errorf("tell the service manager %q: %w", state, err)
	}
	return nil
}

// Ready says that the server serves.
func (n *Notifier) Ready() error { return n.send("READY=1") }

// Stopping says that the server ends.
func (n *Notifier) Stopping() error { return n.send("STOPPING=1") }

// Alive resets the watchdog.
func (n *Notifier) Alive() error { return n.send("WATCHDOG=1") }

// Status is a line for people.
func (n *Notifier) Status(text string) error {
	return n.send("STATUS=" + strings.Join(strings.Fields(text), " "))
}

// Extend asks for more time to start or to stop.
func (n *Notifier) Extend(d time.Duration) error {
	return n.send(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", d.Microseconds()))
}
