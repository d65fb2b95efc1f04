package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// step is a command and its answer.
type step struct {
	args string // words between blanks; ~ is an empty one
	want any
}

func (s step) words() []string {
	words := strings.Fields(s.args)
	for i, w := range words {
		if w == "~" {
			words[i] = ""
		}
	}
	return words
}

const (
	ok   = status("OK")
	none = "(none)"
)

// dialogueKeys are those that the dialogues of TestCommands use.
var dialogueKeys = []string{"a", "b", "c", "d", "k", "m", "no"}

// TestCommands plays dialogues, each over a connection of its own to a store
// without keys. An error is compared by its beginning.
func TestCommands(t *testing.T) {
	r := newRig(t, Options{})
	for name, steps := range map[string][]step{
		"ping": {{"PING", status("PONG")}, {"ping hello", "hello"}, {"PING a b", failure("ERR wrong number")}, {"ECHO x", "x"}, {"ECHO", failure("ERR wrong number")}},
		"set and get": {{"GET k", nil}, {"SET k v", ok}, {"GET k", "v"}, {"get k", "v"}, {"STRLEN k", int64(1)}, {"STRLEN no", int64(0)},
			{"SET k v", ok}, {"GET", failure("ERR wrong number")}, {"SET k", failure("ERR wrong number")}},
		"overwrite": {{"SET k one", ok}, {"SET k two", ok}, {"GET k", "two"}, {"SET k two", ok}, {"SET k one", ok}, {"GET k", "one"}, {"EXISTS k", int64(1)}},
		"nx and xx": {{"SET k v NX", ok}, {"SET k w NX", nil}, {"SET k v nx", nil}, {"GET k", "v"}, {"SET no v XX", nil}, {"GET no", nil},
			{"SET k w XX", ok}, {"GET k", "w"}, {"SET k w NX XX", failure("ERR syntax")}, {"SETNX k z", int64(0)}, {"SETNX m z", int64(1)}, {"GET m", "z"}},
		"set get": {{"SET k v GET", nil}, {"SET k w GET", "v"}, {"GET k", "w"}, {"SET k x NX GET", "w"}, {"GET k", "w"}, {"SET no x XX GET", nil}, {"EXISTS no", int64(0)}},
		"times to live": {{"SET k v EX 10", failure("ERR values have no time to live")}, {"SET k v PX 10", failure("ERR values have")}, {"SET k v EXAT 10", failure("ERR values have")},
			{"SET k v KEEPTTL", ok}, {"SET k v WHAT", failure("ERR syntax")}, {"TTL k", int64(-1)}, {"PTTL k", int64(-1)}, {"TTL no", int64(-2)}, {"PTTL no", int64(-2)}},
		"empty values": {{"SET k ~", ok}, {"GET k", ""}, {"EXISTS k", int64(1)}, {"STRLEN k", int64(0)}, {"SET k v", ok}, {"GET k", "v"}, {"SET k ~", ok}, {"GET k", ""},
			{"SET k ~ NX", nil}, {"MGET k no", []any{"", nil}}, {"DEL k", int64(1)}, {"GET k", nil}},
		"empty key": {{"SET ~ v", ok}, {"GET ~", nil}, {"EXISTS ~", int64(0)}, {"DEL ~", int64(0)}, {"TTL ~", int64(-2)}, {"STRLEN ~", int64(0)}},
		"many keys": {{"MSET a 1 b 2 c 3", ok}, {"MGET a no b c a", []any{"1", nil, "2", "3", "1"}}, {"MSET a 1 b", failure("ERR wrong number")}, {"EXISTS a no b a", int64(3)},
			{"DEL a no b", int64(2)}, {"UNLINK c", int64(1)}, {"EXISTS a b c", int64(0)}, {"DEL a", int64(0)}, {"MSET d 1 d 2", ok}, {"GET d", "2"}, {"DEL d d", int64(1)}},
		"type":     {{"TYPE k", status("none")}, {"SET k v", ok}, {"TYPE k", status("string")}},
		"select":   {{"SELECT 0", ok}, {"SELECT 1", failure("ERR DB index")}, {"SELECT x", failure("ERR value is not")}},
		"unknown":  {{"FLUSHALL", failure("ERR unknown command 'FLUSHALL'")}, {"NO\x01SUCH", failure("ERR unknown command 'NO?SUCH'")}, {strings.Repeat("X", 300), failure("ERR unknown command")}, {"PING", status("PONG")}},
		"client":   {{"CLIENT GETNAME", nil}, {"CLIENT SETNAME me", ok}, {"CLIENT GETNAME", "me"}, {"CLIENT SETINFO lib-name x", ok}, {"CLIENT NO-EVICT on", ok}, {"CLIENT NO-TOUCH OFF", ok}, {"CLIENT KILL x", failure("ERR unknown subcommand")}, {"CLIENT SETNAME a\x01b", failure("ERR Client names")}},
		"config":   {{"CONFIG GET save", []any{"save", ""}}, {"CONFIG GET append* SAVE", []any{"appendonly", "no", "save", ""}}, {"CONFIG GET nothing", []any{}}, {"CONFIG SET save x", failure("ERR CONFIG SET is not")}, {"CONFIG GET", failure("ERR wrong")}, {"CONFIG WHAT", failure("ERR unknown sub")}},
		"command":  {{"COMMAND DOCS get", []any{}}, {"COMMAND INFO get no", []any{[]any{"get", int64(2), []any{status("readonly"), status("fast")}, int64(1), int64(1), int64(1)}, nil}}, {"COMMAND WHAT", failure("ERR unknown sub")}},
		"reset":    {{"CLIENT SETNAME me", ok}, {"RESET", status("RESET")}, {"CLIENT GETNAME", nil}},
		"hello":    {{"HELLO 4", failure("NOPROTO")}, {"HELLO x", failure("NOPROTO")}, {"HELLO 2 WHAT", failure("ERR Syntax")}, {"HELLO 2 SETNAME me", none}, {"CLIENT GETNAME", "me"}, {"HELLO 2 AUTH user pw", none}},
		"no login": {{"AUTH pw", ok}, {"AUTH user pw", ok}, {"AUTH a b c", failure("ERR wrong")}},
	} {
		t.Run(name, func(t *testing.T) {
			p := r.dial()
			p.t = t
			defer p.do(append([]string{"DEL"}, dialogueKeys...)...)
			for i, s := range steps {
				got := p.do(s.words()...)
				if f, isFailure := got.(failure); isFailure {
					want, _ := s.want.(failure)
					if want == "" || !strings.HasPrefix(string(f), string(want)) {
						t.Fatalf("step %d, %s: %q, want %#v", i, s.args, f, s.want)
					}
					continue
				}
				if s.want != none && fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", s.want) {
					t.Fatalf("step %d, %s: %#v, want %#v", i, s.args, got, s.want)
				}
			}
		})
	}
}

// TestDBSize: it counts the keys of the tenant that are there, written a moment
// ago or before a restart, and nothing else.
func TestDBSize(t *testing.T) {
	r := newRig(t, Options{})
	p := r.dial()
	p.want(int64(0), "DBSIZE")
	for _, key := range []string{"a", "b", "c"} {
		p.want(ok, "SET", key, "v")
	}
	p.want(int64(3), "DBSIZE")
	p.want(ok, "SET", "a", "another")
	p.want(ok, "SET", "b", "v", "XX")
	p.want(nil, "GET", "no")
	p.want(int64(3), "DBSIZE")
	p.want(int64(1), "DEL", "c", "no")
	p.want(int64(2), "DBSIZE")
	p.open(testLayout(t, "m")) // blocks of a layout are no keys
	p.want(int64(2), "DBSIZE")
	r.reopen()
	p = r.dial()
	p.want(int64(2), "DBSIZE")
	p.want(ok, "SET", "c", "v")
	p.want(int64(3), "DBSIZE")
	p.want(int64(3), "DEL", "a", "b", "c")
	p.want(int64(0), "DBSIZE")
}

// TestEmptyMark: the values next to the mark of the empty one are themselves.
func TestEmptyMark(t *testing.T) {
	p := newRig(t, Options{}).dial()
	mark := string(emptyMark)
	for i, v := range []string{"", mark, mark + "\x00", mark + "\x00\x00", mark + "x", mark[:15], "\x00", "\x00\x00", mark + strings.Repeat("y", 70_000)} {
		key := fmt.Sprint("key ", i)
		p.want(ok, "SET", key, v)
		p.want(v, "GET", key)
		p.want(int64(len(v)), "STRLEN", key)
		p.want(ok, "SET", "same", v) // each over the one before
		p.want(v, "GET", "same")
	}
}

func TestProtocolVersions(t *testing.T) {
	p := newRig(t, Options{Version: "v9"}).dial()
	two, ok2 := p.do("HELLO", "2").([]any)
	if !ok2 || len(two) != 14 || two[0] != "server" || two[1] != "sealstone" || two[5] != int64(2) {
		t.Fatalf("HELLO 2: %#v", two)
	}
	three, ok3 := p.do("HELLO", "3").(pairs)
	if !ok3 || len(three) != 14 || three[5] != int64(3) {
		t.Fatalf("HELLO 3: %#v", three)
	}
	p.send(frame("GET", "k"))
	p.exact("_\r\n")
	p.send(frame("CONFIG", "GET", "save"))
	p.exact("%1\r\n$4\r\nsave\r\n$0\r\n\r\n")
	if s, isText := p.do("INFO").(string); !isText || !strings.HasPrefix(s, "txt:# Server\r\n") {
		t.Errorf("INFO: %#v", s)
	}
	p.do("HELLO", "2")
	p.send(frame("GET", "k"))
	p.exact("$-1\r\n")
}

func TestInfo(t *testing.T) {
	p := newRig(t, Options{Version: "v9"}).dial()
	p.want(ok, "SET", "k", "v")
	info := func(args ...string) string {
		s, _ := p.do(append([]string{"INFO"}, args...)...).(string)
		return s
	}
	for _, want := range []string{"# Server\r\n", "sealstone_version:v9\r\n", "connected_clients:1\r\n", "# Keyspace\r\n"} {
		if s := info(); !strings.Contains(s, want) {
			t.Errorf("INFO lacks %q: %s", want, s)
		}
	}
	if s := info("clients"); !strings.HasPrefix(s, "# Clients\r\n") || strings.Contains(s, "# Server") {
		t.Errorf("INFO clients: %s", s)
	}
	if s := info("all"); !strings.Contains(s, "health:ok\r\n") || !strings.Contains(s, "cmdstat_set:calls=1,") {
		t.Errorf("INFO all: %s", s)
	}
	if s := info("nothing"); s != "" {
		t.Errorf("INFO nothing: %q", s)
	}
}

// TestCommandTable: COMMAND lists what there is, and the counters have room.
func TestCommandTable(t *testing.T) {
	p := newRig(t, Options{}).dial()
	n, _ := p.do("COMMAND", "COUNT").(int64)
	all, _ := p.do("COMMAND").([]any)
	list, _ := p.do("COMMAND", "LIST").([]any)
	if int(n) != len(table) || len(all) != len(table) || len(list) != len(table) {
		t.Errorf("%d, %d and %d of %d commands", n, len(all), len(list), len(table))
	}
	if len(table) >= commandsMax {
		t.Errorf("%d commands: raise commandsMax", len(table))
	}
	for _, want := range []any{"get", "set", "kv.put", "kv.get", "scan"} {
		if !slices.Contains(list, want) {
			t.Errorf("%v is not listed", want)
		}
	}
}

// TestScan: every key is found exactly once, whatever the pages.
func TestScan(t *testing.T) {
	p := newRig(t, Options{}).dial()
	const keys = 57
	var want []string
	for i := range keys {
		k := fmt.Sprintf("key:%03d", i)
		want = append(want, k)
		p.want(ok, "SET", k, k)
	}
	for _, count := range []string{"1", "7", "1000000"} {
		if got := p.scan("COUNT", count); !slices.Equal(got, want) {
			t.Errorf("COUNT %s: %d keys", count, len(got))
		}
	}
	if got := p.scan("MATCH", "key:00?"); len(got) != 10 {
		t.Errorf("MATCH: %v", got)
	}
	if got := p.scan("TYPE", "string"); len(got) != keys {
		t.Errorf("TYPE string: %d keys", len(got))
	}
	if got := p.scan("TYPE", "hash"); len(got) != 0 {
		t.Errorf("TYPE hash: %v", got)
	}
	for _, args := range [][]string{{"SCAN", "x"}, {"SCAN", "-1"}, {"SCAN", "0", "COUNT", "0"}, {"SCAN", "0", "COUNT"}, {"SCAN", "0", "WHAT", "x"}} {
		p.fails("ERR", args...)
	}
	p.want([]any{"0", []any{}}, "SCAN", "18446744073709551615")
}

func (p *peer) scan(args ...string) []string {
	p.t.Helper()
	var keys []string
	for cursor := "0"; ; {
		a, _ := p.do(append([]string{"SCAN", cursor}, args...)...).([]any)
		if len(a) != 2 {
			p.t.Fatalf("SCAN: %#v", a)
		}
		for _, k := range a[1].([]any) {
			keys = append(keys, k.(string))
		}
		if cursor = a[0].(string); cursor == "0" {
			slices.Sort(keys)
			return keys
		}
	}
}

// TestGlob: patterns as Redis has them.
func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "abc", true}, {"a*", "abc", true}, {"*c", "abc", true}, {"a*c", "abc", true}, {"a*d", "abc", false},
		{"a*b*c", "aXbYbZc", true}, {"**", "x", true}, {"?", "a", true}, {"?", "", false}, {"a?c", "abc", true}, {"[a-c]x", "bx", true}, {"[c-a]x", "bx", true}, {"[^a-c]x", "bx", false},
		{"[^a-c]x", "dx", true}, {"[abc]", "b", true}, {"[abc", "b", true}, {"[", "x", false}, {"[]", "x", false}, {"[a-]", "-", true}, {`\*`, "*", true}, {`\*`, "a", false}, {`a\`, `a\`, true},
		{`[\]]`, "]", true}, {"abc", "abd", false}, {"abc", "ab", false}, {"*a*a*a*a*a*b", strings.Repeat("a", 200), false},
	} {
		if got := glob([]byte(c.pattern), []byte(c.s)); got != c.want {
			t.Errorf("glob(%q, %q) = %v", c.pattern, c.s, got)
		}
	}
}
