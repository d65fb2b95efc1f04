package daemon

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/tools/internal/access"
	"github.com/sealstone/sealstone/tools/internal/settings"
	"github.com/spf13/pflag"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	flag.Parse()
	goleak.VerifyTestMain(m)
}

func TestOnLoopback(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:1": true, "127.8.8.8:1": true, "[::1]:1": true, "localhost:1": true,
		":1": false, "0.0.0.0:1": false, "[::]:1": false, "10.0.0.1:1": false, "[fe80::1]:1": false, "192.0.2.7:1": false,
	} {
		if got, err := OnLoopback(t.Context(), address); err != nil || got != want {
			t.Errorf("%s is on loopback: %v, %v; want %v", address, got, err, want)
		}
	}
	if _, err := OnLoopback(t.Context(), "nobody.invalid:1"); err == nil {
		t.Error("a name that does not exist has an address")
	}
}

// planned parses flags and checks them.
func planned(t *testing.T, arguments ...string) (*Plan, error) {
	t.Helper()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	s := settings.Register(fs)
	if err := fs.Parse(arguments); err != nil {
		t.Fatal(err)
	}
	return Check(t.Context(), s)
}

// tokensFile makes a file with one token for each identity, and their secrets.
func tokensFile(t *testing.T, ids ...access.Identity) (file string, secrets []string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "tokens.toml")
	text := ""
	for _, id := range ids {
		secret, entry, err := access.New(id)
		if err != nil {
			t.Fatal(err)
		}
		secrets, text = append(secrets, secret), text+entry
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, secrets
}

// TestNothingOffLoopbackWithoutTokens, by RESP or by HTTP, whatever else is set.
func TestNothingOffLoopbackWithoutTokens(t *testing.T) {
	tokens, _ := tokensFile(t, access.Identity{Name: "a", Tenant: "t", Read: true})
	cert, key := certificateFiles(t)
	for _, c := range []struct {
		arguments []string
		refused   string
		warnings  int
	}{
		{nil, "", 0},
		{[]string{"--listen", "0.0.0.0:1"}, "listen = 0.0.0.0:1 can be reached from other hosts", 0},
		{[]string{"--http", ":1"}, "http = :1 can be reached from other hosts", 0},
		{[]string{"--listen", "0.0.0.0:1", "--tls-cert", cert, "--tls-key", key}, "make a token", 0},
		{[]string{"--listen", "0.0.0.0:1", "--tokens", tokens}, "", 1},
		{[]string{"--listen", "0.0.0.0:1", "--http", "0.0.0.0:2", "--tokens", tokens}, "", 2},
		{[]string{"--listen", "0.0.0.0:1", "--tokens", tokens, "--tls-cert", cert, "--tls-key", key}, "", 0},
		{[]string{"--tokens", tokens}, "", 0},
		{[]string{"--tokens", tokens + ".none"}, "open the tokens file", 0},
		{[]string{"--tls-cert", cert, "--tls-key", cert}, "load certificate", 0},
		{[]string{"--tls-cert", cert, "--tls-key", key, "--tls-client-ca", key}, "holds no certificate", 0},
		{[]string{"--listen", "nobody.invalid:1"}, "nobody.invalid", 0},
	} {
		p, err := planned(t, append([]string{"--dir", "d"}, c.arguments...)...)
		if c.refused == "" && (err != nil || len(p.Warnings) != c.warnings) {
			t.Errorf("%v: %v, %+v", c.arguments, err, p)
		}
		if c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("%v: %v; want a refusal with %q", c.arguments, err, c.refused)
		}
	}
}
