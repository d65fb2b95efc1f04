package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/tools/internal/access"
)

// tokens makes a file of tokens, one for each identity, with their names as
// keys of the secrets.
func tokens(t *testing.T, ids ...access.Identity) (*access.Table, map[string]string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens")
	secrets := map[string]string{}
	var file strings.Builder
	for _, id := range ids {
		secret, entry, err := access.New(id)
		if err != nil {
			t.Fatal(err)
		}
		secrets[id.Name] = secret
		file.WriteString(entry + "\n")
	}
	if err := os.WriteFile(path, []byte(file.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	table, err := access.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return table, secrets
}

var (
	reader = access.Identity{Name: "reader", Tenant: "a", Read: true}
	writer = access.Identity{Name: "writer", Tenant: "a", Read: true, Write: true}
	owner  = access.Identity{Name: "owner", Tenant: "a", Read: true, Write: true, Drop: true}
	other  = access.Identity{Name: "other", Tenant: "b", Read: true, Write: true, Drop: true}
	admin  = access.Identity{Name: "admin", Tenant: "ops", Read: true, Write: true, Drop: true, Admin: true}
)

func authRig(t *testing.T) (*rig, map[string]string) {
	table, secrets := tokens(t, reader, writer, owner, other, admin)
	return newRig(t, Options{Tokens: table}), secrets
}

func (r *rig) dialAs(secrets map[string]string, id access.Identity) *peer {
	r.t.Helper()
	p := r.dial()
	p.want(ok, "AUTH", id.Name, secrets[id.Name])
	return p
}

func TestStranger(t *testing.T) {
	r, secrets := authRig(t)
	p := r.dial()
	for _, cmd := range []string{"PING", "GET k", "SET k v", "INFO", "KV.OPEN {}", "KV.HEALTH", "SCAN 0", "CLIENT ID", "NOSUCH", "CONFIG GET *", "COMMAND"} {
		p.fails("NOAUTH", strings.Fields(cmd)...)
	}
	p.fails("WRONGPASS", "AUTH", "nonsense")
	p.fails("WRONGPASS", "AUTH", "reader", secrets["writer"])
	p.fails("NOAUTH", "HELLO", "3")
	p.fails("WRONGPASS", "HELLO", "3", "AUTH", "default", "nonsense")
	p.fails("NOAUTH", "PING")
	if _, isMap := p.do("HELLO", "3", "AUTH", "default", secrets["reader"], "SETNAME", "me").(pairs); !isMap {
		t.Fatal("HELLO with AUTH failed")
	}
	p.want("me", "CLIENT", "GETNAME")
	p.want(status("RESET"), "RESET")
	p.fails("NOAUTH", "PING")
	p.want(ok, "QUIT")
	p.ended()
	if n := r.s.Stats().AuthFailures; n != 3 {
		t.Errorf("%d failures to log in counted, want 3", n)
	}
}

// TestStrangerLimits: who has not logged in may send just enough to do so.
func TestStrangerLimits(t *testing.T) {
	r, _ := authRig(t)
	for _, in := range []string{
		"*11\r\n" + strings.Repeat("$1\r\na\r\n", 11),
		fmt.Sprintf("*2\r\n$4\r\nAUTH\r\n$%d\r\n", strangerValue+1),
		"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000000\r\n",
	} {
		p := r.dial()
		p.send(in)
		if f, isFailure := p.answer().(failure); !isFailure || !strings.HasPrefix(string(f), "ERR Protocol error") {
			t.Errorf("%.40q: %#v", in, f)
		}
		p.ended()
	}
}

func TestRights(t *testing.T) {
	r, secrets := authRig(t)
	read, write, own := r.dialAs(secrets, reader), r.dialAs(secrets, writer), r.dialAs(secrets, owner)
	read.fails("NOPERM", "SET", "k", "v")
	read.fails("NOPERM", "DEL", "k")
	write.want(ok, "SET", "k", "v")
	write.want(ok, "SET", "k", "w") // to put another value in its place is to write
	write.fails("NOPERM", "DEL", "k")
	write.fails("NOPERM", "UNLINK", "k")
	read.want("w", "GET", "k")
	own.want(int64(1), "DEL", "k")
	for _, p := range []*peer{read, write, own} {
		p.fails("NOPERM", "KV.STATS")
	}
	if s, isText := r.dialAs(secrets, admin).do("KV.STATS").(string); !isText || !strings.HasPrefix(s, "{") {
		t.Errorf("KV.STATS: %.100q", s)
	}
}

// TestTenants: keys and handles of one tenant are not those of another.
func TestTenants(t *testing.T) {
	r, secrets := authRig(t)
	a, b, ops := r.dialAs(secrets, owner), r.dialAs(secrets, other), r.dialAs(secrets, admin)
	a.want(ok, "SET", "k", "of a")
	b.want(nil, "GET", "k")
	b.want(ok, "SET", "k", "of b")
	b.want(int64(1), "DEL", "k")
	a.want("of a", "GET", "k")
	h := a.open(testLayout(t, "m"))
	b.fails("BADHANDLE", "KV.MATCH", h, hashOf(1))
	b.fails("NOPERM", "KV.OPEN", testLayout(t, "m"), "TENANT", "a")
	if got := b.open(testLayout(t, "m")); got == h {
		t.Errorf("two tenants share handle %s", h)
	}
	if got := ops.open(testLayout(t, "m"), "TENANT", "a"); got != h {
		t.Errorf("equal opens give handles %s and %s", h, got)
	}
	ops.want([]any{int64(0), int64(0), int64(0)}, "KV.MATCH", h, hashOf(1))
}

// TestRevoked: a token that is gone from the file, or has another secret there,
// ends its connections at their next command, whatever that is; one with other
// rights has those.
func TestRevoked(t *testing.T) {
	table, secrets := tokens(t, reader, writer, owner, other)
	r := newRig(t, Options{Tokens: table})
	gone, changed, less, stays := r.dialAs(secrets, reader), r.dialAs(secrets, writer), r.dialAs(secrets, owner), r.dialAs(secrets, other)
	less.want(ok, "SET", "k", "v")
	changed.want("v", "GET", "k")
	file, err := os.ReadFile(table.Path())
	if err != nil {
		t.Fatal(err)
	}
	entries := strings.Split(string(file), "[[token]]")[1:]
	secret, entry, err := access.New(writer)
	if err != nil {
		t.Fatal(err)
	}
	entries[0], entries[1] = "", strings.TrimPrefix(entry, "[[token]]")
	entries[2] = strings.Replace(entries[2], `, "drop"`, "", 1)
	rest := strings.Join(entries[1:], "[[token]]")
	if err := os.WriteFile(table.Path(), []byte("[[token]]"+rest), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := table.Reload(); err != nil {
		t.Fatal(err)
	}
	stays.want(status("PONG"), "PING")
	gone.fails("NOAUTH", "PING")
	gone.ended()
	changed.fails("NOAUTH", "SET", "k", "of nobody")
	changed.ended()
	less.want("v", "GET", "k")
	less.fails("NOPERM", "DEL", "k")
	r.dial().fails("WRONGPASS", "AUTH", writer.Name, secrets[writer.Name])
	again := r.dial()
	again.want(ok, "AUTH", writer.Name, secret)
	again.want("v", "GET", "k")
}
