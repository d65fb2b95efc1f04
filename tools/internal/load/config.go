package load

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// ErrConfig marks a Config that can not be run.
var ErrConfig = errors.New("load: configuration")

// Config is what Run does. The zero value of a field with a default means it.
type Config struct {
	// Servers are ways to one server, "host:port" or "unix:" and the path of a
	// socket, which connections take in turn.
	Servers []string
	// User and Password log in on every connection, if there is a password.
	User, Password string
	// Connections are open at the same time. Workers of them, the default is
	// 64 or all if there are fewer, write and read; Slow read and write a few
	// KiB at a time with pauses; the others send a PING now and then.
	Connections, Workers, Slow int
	// Rude connections, beside the others, begin frames and vanish, or send
	// what is none, again and again.
	Rude int
	// Keys is the number of keys, each of which one worker writes. Default
	// 4096; blocks of KV.PUT come on top, as many.
	Keys int
	// ValueBytes are the sizes of values. Default 4 KiB, 64 KiB and 1 MiB.
	ValueBytes []int
	// Duration is how long it takes. Default 10 s.
	Duration time.Duration
	// Seed decides what the workers do.
	Seed uint64
	// Tenant's own keys live under Prefix; runs with different prefixes do not
	// meet. Default "load".
	Prefix string
	// Timeout ends a connection of which an answer does not come. Default 60 s.
	Timeout time.Duration
	// Reconnect goes on where a connection breaks, for servers that are
	// killed; without it a broken connection is an error of the report.
	Reconnect bool
	// History is what earlier runs have written. Default: nothing.
	History *History
	// Progress, if set, is called about five times a second.
	Progress func(done, total time.Duration)
}

func (c Config) withDefaults() (Config, error) {
	if c.Connections == 0 {
		c.Connections = 64
	}
	if c.Workers == 0 {
		c.Workers = min(64, c.Connections-c.Slow)
	}
	if c.Keys == 0 {
		c.Keys = 4096
	}
	if len(c.ValueBytes) == 0 {
		c.ValueBytes = []int{4 << 10, 64 << 10, 1 << 20}
	}
	if c.Duration == 0 {
		c.Duration = 10 * time.Second
	}
	if c.Timeout == 0 {
		c.Timeout = time.Minute
	}
	if c.Prefix == "" {
		c.Prefix = "load"
	}
	if c.History == nil {
		c.History = NewHistory(c.Keys)
	}
	return c, c.check()
}

func (c Config) check() error {
	for _, n := range c.ValueBytes {
		if n < headBytes || n > valueBytesMax {
			return fmt.Errorf("%w: values of %d bytes; from %d to %d are possible", ErrConfig, n, headBytes, valueBytesMax)
		}
	}
	switch {
	case c.Workers < 1 || c.Slow < 0 || c.Rude < 0 || c.Workers+c.Slow > c.Connections:
		return fmt.Errorf("%w: %d workers and %d slow connections of %d", ErrConfig, c.Workers, c.Slow, c.Connections)
	case c.Keys < c.Workers+c.Slow:
		return fmt.Errorf("%w: %d keys for %d connections that write; each needs one of its own", ErrConfig, c.Keys, c.writers())
	case len(c.History.keys) != c.Keys:
		return fmt.Errorf("%w: the history has %d keys, not %d", ErrConfig, len(c.History.keys), c.Keys)
	case c.Duration < 0 || c.Timeout < 0:
		return fmt.Errorf("%w: durations below 0", ErrConfig)
	}
	if len(c.Servers) == 0 {
		return fmt.Errorf("%w: no server", ErrConfig)
	}
	for _, s := range c.Servers {
		if _, _, err := splitAddress(s); err != nil {
			return err
		}
	}
	return nil
}

// splitAddress tells a Unix socket from TCP.
func splitAddress(server string) (network, address string, err error) {
	if path, ok := strings.CutPrefix(server, "unix:"); ok && path != "" {
		return "unix", path, nil
	}
	if _, port, err := net.SplitHostPort(server); err != nil || port == "" {
		return "", "", fmt.Errorf("%w: the server is %q; host:port or unix:PATH is wanted", ErrConfig, server)
	}
	return "tcp", server, nil
}
