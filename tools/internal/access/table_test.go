package access

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func sum(secret string) string {
	s := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(s[:])
}

// tokenText is one entry of a tokens file.
func tokenText(name, tenant, rights, secret string) string {
	return fmt.Sprintf("[[token]]\nname = %q\ntenant = %q\nrights = [%s]\nsha256 = %q\n", name, tenant, rights, sum(secret))
}

func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "tokens.toml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func load(t *testing.T, text string) *Table {
	t.Helper()
	table, err := Load(write(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestLogin(t *testing.T) {
	table := load(t, tokenText("a", "team", `"read", "write"`, "alpha")+tokenText("b", "other", `"drop", "admin"`, "beta"))
	a := Identity{Name: "a", Tenant: "team", Read: true, Write: true}
	b := Identity{Name: "b", Tenant: "other", Drop: true, Admin: true}
	for _, c := range []struct {
		user, password string
		want           Identity
	}{
		{"", "alpha", a},
		{"default", "alpha", a},
		{"a", "alpha", a},
		{"", "beta", b},
		{"b", "beta", b},
		{"b", "alpha", Identity{}},
		{"a", "beta", Identity{}},
		{"a", "", Identity{}},
		{"", "", Identity{}},
		{"A", "alpha", Identity{}},
		{"", sum("alpha"), Identity{}},
		{"", "alpha\x00", Identity{}},
	} {
		got, ok := table.Login(c.user, c.password)
		if ok != (c.want != Identity{}) || got != c.want {
			t.Errorf("Login(%q, %q) = %+v, %v; want %+v", c.user, c.password, got, ok, c.want)
		}
	}
	if _, ok := (*Table)(nil).Login("", "alpha"); ok {
		t.Error("no table knows somebody")
	}
}

func TestRightsAreReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := Identity{Name: "n", Tenant: "t"}
		for _, r := range rights {
			*r.of(&id) = rapid.Bool().Draw(t, r.name)
		}
		got := Identity{Name: "n", Tenant: "t"}
		err := got.ParseRights(id.Rights())
		if none := id.Rights() == ""; none != (err != nil) || got != id {
			t.Fatalf("%q is read as %+v, %v", id.Rights(), got, err)
		}
	})
}

func TestOpenHasAllRights(t *testing.T) {
	if got := Open(); got.Rights() != "read,write,drop,admin" || got.Tenant != DefaultTenant || got.Name != "" {
		t.Errorf("without tokens a peer is %+v", got)
	}
}

func TestNewMakesWhatLoadTakes(t *testing.T) {
	seen := map[string]bool{}
	for range 20 {
		want := Identity{Name: "engine-1", Tenant: `team "a"`, Read: true, Drop: true}
		secret, entry, err := New(want)
		if err != nil || len(secret) < 26 || seen[secret] || strings.Contains(entry, secret) {
			t.Fatalf("New gives %q, %q, %v", secret, entry, err)
		}
		seen[secret] = true
		if got, ok := load(t, entry).Login("engine-1", secret); !ok || got != want {
			t.Fatalf("the new token is %+v, %v; want %+v\n%s", got, ok, want, entry)
		}
	}
	for _, id := range []Identity{{Name: "n", Tenant: "t"}, {Name: "default", Tenant: "t", Read: true}, {Name: "n", Read: true}} {
		if _, _, err := New(id); err == nil {
			t.Errorf("New(%+v) makes a token", id)
		}
	}
}

func TestQuotas(t *testing.T) {
	table := load(t, "[tenant.team]\ndisk-quota = \"2GiB\"\n[tenant.\"other one\"]\ndisk-quota = \"1000\"\n"+tokenText("a", "team", `"read"`, "alpha"))
	if diff := cmp.Diff(map[string]int64{"team": 2 << 30, "other one": 1000}, table.Quotas()); diff != "" {
		t.Error(diff)
	}
	table.Quotas()["team"] = 1
	if table.Quotas()["team"] != 2<<30 {
		t.Error("the table can be changed from outside")
	}
}

func TestReload(t *testing.T) {
	table := load(t, tokenText("same", "team", `"read"`, "alpha")+tokenText("gone", "team", `"read"`, "beta")+
		tokenText("moved", "team", `"read"`, "gamma")+tokenText("changed", "team", `"read"`, "delta")+tokenText("renamed", "team", `"read"`, "epsilon"))
	replace := func(text string) error {
		if err := os.WriteFile(table.Path(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return table.Reload()
	}
	sessions := map[string]*Session{}
	for _, secret := range []string{"alpha", "beta", "gamma", "delta", "epsilon"} {
		s := table.Begin("", secret)
		if s == nil {
			t.Fatalf("no login by %q", secret)
		}
		sessions[secret] = s
	}
	if table.Begin("", "zeta") != nil || (*Table)(nil).Begin("", "alpha") != nil {
		t.Error("a stranger logs in")
	}
	same := sessions["alpha"]
	before, _ := same.Current()
	if err := replace("nonsense"); err == nil || !strings.Contains(err.Error(), "stay valid") {
		t.Errorf("a bad file is read: %v", err)
	}
	if got, ok := same.Current(); !ok || got != before || got.Name != "same" || table.Len() != 5 {
		t.Errorf("after a reload that failed: %+v, %v", got, ok)
	}
	if err := replace(tokenText("same", "team", `"read", "write"`, "alpha") + tokenText("moved", "other", `"read"`, "gamma") +
		tokenText("changed", "team", `"read"`, "new") + tokenText("otherwise", "team", `"read"`, "epsilon")); err != nil {
		t.Fatal(err)
	}
	if _, ok := table.Login("", "delta"); ok {
		t.Error("a replaced secret still logs in")
	}
	if got, ok := same.Current(); !ok || !got.Write {
		t.Errorf("a token with more rights is now %+v, %v", got, ok)
	}
	for secret, s := range sessions {
		if got, ok := s.Current(); s != same && ok {
			t.Errorf("the session by %q is still current, as %+v", secret, got)
		}
	}
}

// TestReloadBesideLogin is for the race detector.
func TestReloadBesideLogin(t *testing.T) {
	table := load(t, tokenText("a", "team", `"read"`, "alpha"))
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			lasting := table.Begin("a", "alpha")
			for range 100 {
				for _, s := range []*Session{lasting, table.Begin("a", "alpha")} {
					if _, current := s.Current(); !current {
						t.Error("a token that each reading has is not there")
					}
				}
			}
		})
	}
	for range 50 {
		if err := table.Reload(); err != nil {
			t.Error(err)
		}
	}
	wait.Wait()
}

func TestFileThatOthersMayReadIsRefused(t *testing.T) {
	name := write(t, tokenText("a", "team", `"read"`, "alpha"))
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o602, 0o666, 0o610} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(name); !errors.Is(err, ErrFileMode) || !strings.Contains(err.Error(), "chmod 600 "+name) {
			t.Errorf("mode %04o: %v", mode, err)
		}
	}
	for _, mode := range []os.FileMode{0o600, 0o400} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(name); err != nil {
			t.Errorf("mode %04o: %v", mode, err)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(name, link); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(link); err != nil {
		t.Errorf("by a link: %v", err)
	}
}

func TestFilesThatAreNone(t *testing.T) {
	dir := t.TempDir()
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a directory: %v", err)
	}
	if _, err := Load(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	big := write(t, "#"+strings.Repeat(" ", MaxFileBytes))
	if _, err := Load(big); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("a file that is too large: %v", err)
	}
}
