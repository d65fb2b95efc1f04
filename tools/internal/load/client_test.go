package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

func read(s string) (answer, error) {
	k := &client{in: bufio.NewReader(strings.NewReader(s)), out: bufio.NewWriter(io.Discard)}
	return k.read()
}

func TestAnswers(t *testing.T) {
	for s, want := range map[string]answer{
		"+OK\r\n":            {kind: '+', text: []byte("OK")},
		"-ERR no\r\n":        {kind: '-', text: []byte("ERR no")},
		":-7\r\n":            {kind: ':', n: -7},
		"$3\r\na\r\n\r\n":    {kind: '$', text: []byte("a\r\n")},
		"$0\r\n\r\n":         {kind: '$', text: []byte{}},
		"$-1\r\n":            {kind: '_'},
		"_\r\n":              {kind: '_'},
		"*-1\r\n":            {kind: '_'},
		"*2\r\n:1\r\n_\r\n":  {kind: '*', list: []answer{{kind: ':', n: 1}, {kind: '_'}}},
		"*1\r\n*1\r\n+x\r\n": {kind: '*', list: []answer{{kind: '*', list: []answer{{kind: '+', text: []byte("x")}}}}},
	} {
		got, err := read(s)
		if err != nil || !same(got, want) {
			t.Errorf("%q: %+v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "+OK\n", "+OK", "\r\n", "$x\r\n", "$-2\r\n", "$3\r\nab\r\n", "$3\r\nabcd\r\n", "*1\r\n", "?\r\n", "$99999999999\r\n", "*99999999999\r\n"} {
		if got, err := read(s); err == nil {
			t.Errorf("%q is no answer, got %+v", s, got)
		}
	}
}

func same(a, b answer) bool {
	if a.kind != b.kind || a.n != b.n || !bytes.Equal(a.text, b.text) || len(a.list) != len(b.list) {
		return false
	}
	for i := range a.list {
		if !same(a.list[i], b.list[i]) {
			return false
		}
	}
	return true
}

// FuzzAnswer: whatever a server sends ends in an answer or an error, and costs
// no more memory than it sent bytes.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{"+OK\r\n", "*2\r\n$1\r\na\r\n:3\r\n", "$-1\r\n", "*1048576\r\n", "$100\r\nab"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 4<<10 {
			return
		}
		a, err := read(s)
		if err == nil && a.kind == 0 {
			t.Errorf("%q: neither answer nor error", s)
		}
	})
}

// serveOnce answers every connection with the same bytes after each command.
func serveOnce(t *testing.T, answer string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer nc.Close()
				p := make([]byte, 64<<10)
				for {
					if _, err := nc.Read(p); err != nil {
						return
					}
					if _, err := io.WriteString(nc, answer); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// TestRunSeesALyingServer: a harness that finds nothing wrong with nonsense
// would show nothing.
func TestRunSeesALyingServer(t *testing.T) {
	v := values{"load", []int{30}}
	for name, c := range map[string]struct {
		answer string
		sees   func(*Report) bool
	}{
		"the bytes of another key": {"$30\r\n" + string(values{"other", v.sizes}.fill(nil, 9999, 1)) + "\r\n", func(r *Report) bool { return r.Foreign > 0 }},
		"a short value":            {"$3\r\nabc\r\n", func(r *Report) bool { return r.Short > 0 }},
		"an error line":            {"-ERR something\r\n", func(r *Report) bool { return r.Commands["GET"].Errors > 0 }},
		"no answer":                {"nonsense\r\n", func(r *Report) bool { return r.Broken > 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{Servers: []string{serveOnce(t, c.answer)}, Connections: 4, Workers: 4, Keys: 16, ValueBytes: v.sizes, Timeout: 200 * time.Millisecond}
			// Reads alone: an endless run until something is seen.
			ctx, cancel := context.WithTimeout(t.Context(), hang)
			defer cancel()
			for {
				cfg.Duration = 50 * time.Millisecond
				r, err := Run(ctx, cfg)
				if name == "no answer" && err != nil {
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if c.sees(r) {
					return
				}
			}
		})
	}
}

func TestConfig(t *testing.T) {
	good := Config{Servers: []string{"127.0.0.1:1"}}
	if _, err := good.withDefaults(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Config){
		"no server":        func(c *Config) { c.Servers = nil },
		"no port":          func(c *Config) { c.Servers = []string{"localhost"} },
		"no path":          func(c *Config) { c.Servers = []string{"unix:"} },
		"too many workers": func(c *Config) { c.Workers, c.Connections = 9, 8 },
		"too few keys":     func(c *Config) { c.Keys = 3 },
		"a small value":    func(c *Config) { c.ValueBytes = []int{8} },
		"a large value":    func(c *Config) { c.ValueBytes = []int{1 << 30} },
		"another history":  func(c *Config) { c.History = NewHistory(1) },
		"a negative time":  func(c *Config) { c.Duration = -1 },
	} {
		c := good
		change(&c)
		if _, err := c.withDefaults(); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Run(t.Context(), Config{Servers: []string{"127.0.0.1:1"}, Timeout: time.Second}); err == nil {
		t.Error("no server is there, and Run says nothing")
	}
}
