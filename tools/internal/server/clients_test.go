package server

import (
	"context"
	"net"
	"os/exec"
	"strings"
	"testing"
)

// tool runs a program of Redis against the rig, or skips the test.
func (r *rig) tool(name string, args ...string) string {
	r.t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		r.t.Skipf("%s is not installed", name)
	}
	_, port, err := net.SplitHostPort(r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, append([]string{"-p", port}, args...)...).CombinedOutput()
	if err != nil {
		r.t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestRedisCLI(t *testing.T) {
	r := newRig(t, Options{})
	for _, c := range []struct{ args, want string }{
		{"set a b", "OK"}, {"get a", "b"}, {"get no", ""}, {"set a c", "OK"}, {"get a", "c"}, {"strlen a", "1"}, {"exists a no", "1"}, {"ttl a", "-1"}, {"type a", "string"},
		{"mget a no", "c\n"}, {"--scan", "a"}, {"dbsize", "1"}, {"config get save", "save\n"}, {"-3 config get save", "save"}, {"nosuch", "ERR unknown command"}, {"del a", "1"}, {"del a", "0"},
		{"-3 ping", "PONG"}, {"info server", "# Server"},
	} {
		out := r.tool("redis-cli", strings.Fields(c.args)...)
		if !strings.HasPrefix(out, strings.TrimSpace(c.want)) || c.want == "" && out != "" {
			t.Errorf("redis-cli %s: %q, want %q", c.args, out, c.want)
		}
	}
}

// TestRedisBenchmark: it ends without an error, and what it put is there.
func TestRedisBenchmark(t *testing.T) {
	r := newRig(t, Options{})
	for _, args := range []string{
		"-t ping,set,get -d 1048576 -n 40 -c 4", "-t set,get -d 4096 -n 400 -c 20 -P 8 -r 50", "-t set,get,mset -d 10 -n 200 -c 5", "-3 -t get -n 100 -c 2",
	} {
		out := r.tool("redis-benchmark", append(strings.Fields(args), "--csv")...)
		if !strings.Contains(out, `"GET"`) || strings.Contains(out, "rror") || strings.Contains(out, "WARN") {
			t.Errorf("redis-benchmark %s:\n%s", args, out)
		}
	}
	st := r.s.Stats()
	if k := st.Kinds["plain"]; k.Hits == 0 || k.Corrupt != 0 || k.Failed != 0 || k.PutFailed != 0 {
		t.Errorf("%+v", k)
	}
	for name, c := range st.Commands {
		if c.Errors > 0 {
			t.Errorf("%s: %d errors", name, c.Errors)
		}
	}
}
