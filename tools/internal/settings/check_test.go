package settings

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/engine"
	"github.com/spf13/pflag"
)

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		arguments string
		want      []string
	}{
		{"--dir d", nil},
		{"--dir d --listen off --unix /s --http off", nil},
		{"--dir d --listen [::1]:0", nil},
		{"", []string{"dir is not set"}},
		{"--dir d --listen off", []string{"nothing would be served"}},
		{"--dir d --listen 6380 --http x", []string{`listen = "6380": write HOST:PORT`, `http = "x": write HOST:PORT`}},
		{"--dir d --tls-cert c", []string{"tls-cert and tls-key belong together"}},
		{"--dir d --tls-client-ca c", []string{"certificates of clients need TLS"}},
		{"--dir d --path fast --on-incompatible try --admission some --log-level loud --log-format xml --exists maybe",
			[]string{"path", "on-incompatible", "admission", "log-level", "log-format", `exists = "maybe"`}},
		{"--dir d --value-max 65MiB --max-block 1GiB", []string{"value-max = 65MiB is over", "max-block = 1GiB is over"}},
		{"--dir d --value-max 0", []string{"value-max must be more than 0"}},
		{"--dir d --pipelined-max 64MiB --value-memory 1MiB", []string{"pipelined-max = 64MiB has no room", "value-memory = 1MiB has no room"}},
		{"--dir d --connections-max 0 --handles-max 0 --read-workers -1", []string{"connections-max", "handles-max", "read-workers"}},
		{"--dir d --read-timeout 0 --write-timeout 0 --request-timeout 0 --stop-timeout 0 --wedged-after -1s",
			[]string{"read-timeout", "write-timeout", "request-timeout", "stop-timeout", "wedged-after"}},
		{"--dir d --idle-timeout -1s --sync-interval -1s --call-timeout -1s --lease-duration -1s",
			[]string{"idle-timeout", "sync-interval", "call-timeout", "lease-duration"}},
	} {
		fs, s := flags()
		if err := fs.Parse(strings.Fields(c.arguments)); err != nil {
			t.Fatal(err)
		}
		err := s.Check()
		if (err == nil) != (c.want == nil) {
			t.Errorf("%q: %v", c.arguments, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v\nlacks %q", c.arguments, err, want)
			}
		}
		if err != nil && len(strings.Split(err.Error(), "\n")) != len(c.want) {
			t.Errorf("%q: %d errors, want %d:\n%v", c.arguments, len(strings.Split(err.Error(), "\n")), len(c.want), err)
		}
	}
}

// TestDefaultsOpenAStore: what Check takes, the engine takes.
func TestDefaultsOpenAStore(t *testing.T) {
	fs, s := flags()
	if err := fs.Parse([]string{"--dir", "d", "--capacity", "300MiB", "--max-block", "1MiB", "--host-cache", "1MiB", "--path", "buffered", "--admission", "second-touch"}); err != nil {
		t.Fatal(err)
	}
	o, err := s.Store.Options()
	if err != nil || o.CapacityBytes != 300<<20 || o.HostCacheBytes != 1<<20 || o.Admission != engine.AdmitSecondTouch {
		t.Fatalf("%+v, %v", o, err)
	}
	store, err := engine.Open(filepath.Join(t.TempDir(), "store"), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestDocumentsListTheSettings: the table in docs/server.md and the flags are
// the same, names and defaults.
func TestDocumentsListTheSettings(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "server.md"))
	if err != nil {
		t.Fatal(err)
	}
	table := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| `?([^|`]*)`? \\| .* \\|$").FindAllStringSubmatch(string(text), -1) {
		table[m[1]] = strings.TrimSpace(m[2])
	}
	fs, _ := flags()
	fs.VisitAll(func(f *pflag.Flag) {
		want := f.DefValue
		if want == "" {
			want = "-"
		}
		got, ok := table[f.Name]
		if delete(table, f.Name); !ok || got != want {
			_, usage := pflag.UnquoteUsage(f)
			t.Errorf("want the row: | `%s` | `%s` | %s |", f.Name, want, usage)
		}
	})
	for name := range table {
		t.Errorf("%s is in the table and is no setting", name)
	}
}

// TestExampleFile: the packaged example is read, and says nothing that is not
// the default unless it is meant to.
func TestExampleFile(t *testing.T) {
	fs, s := flags()
	r, err := Resolve(fs, nil, filepath.Join("..", "..", "packaging", "sealstone.toml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	if s.Dir != "/var/lib/sealstone" || s.Unix != "/run/sealstone/sealstone.sock" || len(r.Unknown) > 0 {
		t.Errorf("the example has dir %q and unix %q", s.Dir, s.Unix)
	}
}
