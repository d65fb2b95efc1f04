package access

import (
	"fmt"
	"strings"
	"testing"
)

func TestParseRefuses(t *testing.T) {
	good := tokenText("a", "team", `"read"`, "alpha")
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "no [[token]]"},
		{"no toml", "[[token", "line 1"},
		{"a key that is unknown", good + "right = [\"write\"]\n", `line 6: unknown key "token.right"`},
		{"a table that is unknown", "[tenants.team]\ndisk-quota = \"1GiB\"\n" + good, "line 1: unknown key \"tenants"},
		{"a right that is unknown", tokenText("a", "team", `"read", "erase"`, "alpha"), `right "erase" is none of`},
		{"no rights", tokenText("a", "team", ``, "alpha"), "no rights"},
		{"a secret in the clear", "[[token]]\nname = \"a\"\ntenant = \"t\"\nrights = [\"read\"]\nsha256 = \"swordfish\"\n", "64 hexadecimal digits"},
		{"the empty secret", tokenText("a", "team", `"read"`, ""), "empty secret"},
		{"a name twice", good + tokenText("a", "team", `"read"`, "beta"), "token 2, \"a\": the name is taken"},
		{"a secret twice", good + tokenText("b", "team", `"read"`, "alpha"), `the secret is that of token "a"`},
		{"no name", tokenText("", "team", `"read"`, "alpha"), "a name has 1 to 64"},
		{"a name with spaces", tokenText("a b", "team", `"read"`, "alpha"), "letters, digits"},
		{"the name of all", tokenText("default", "team", `"read"`, "alpha"), "know of no users"},
		{"a long name", tokenText(strings.Repeat("n", 65), "team", `"read"`, "alpha"), "a name has 1 to 64"},
		{"no tenant", tokenText("a", "", `"read"`, "alpha"), "a tenant has 1 to 256"},
		{"a tenant of two lines", tokenText("a", "x\ny", `"read"`, "alpha"), "control characters"},
		{"a long tenant", tokenText("a", strings.Repeat("t", 257), `"read"`, "alpha"), "a tenant has 1 to 256"},
		{"a quota that is none", "[tenant.team]\ndisk-quota = \"much\"\n" + good, `tenant "team": disk-quota: "much" is not a size`},
		{"a quota of nothing", "[tenant.team]\ndisk-quota = \"0\"\n" + good, "would be none"},
		{"a tenant without quota", "[tenant.team]\n" + good, "disk-quota"},
		{"a value of another kind", "[[token]]\nname = 7\n", "line 2"},
	} {
		_, err := parse([]byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want an error with %q", c.name, err, c.want)
		}
	}
}

func TestParseBoundsTheNumber(t *testing.T) {
	var b strings.Builder
	for i := range maxTokens + 1 {
		fmt.Fprintf(&b, "[[token]]\nname = \"n%d\"\n", i)
	}
	if _, err := parse([]byte(b.String())); err == nil || !strings.Contains(err.Error(), "more than 5000") {
		t.Errorf("%d tokens: %v", maxTokens+1, err)
	}
}

// FuzzParse: whatever a file holds, it is refused in one piece or gives tokens
// that all have a name, a tenant, a right and a secret.
func FuzzParse(f *testing.F) {
	f.Add([]byte("[tenant.team]\ndisk-quota = \"2GiB\"\n" + tokenText("a", "team", `"read", "admin"`, "alpha")))
	f.Add([]byte(tokenText("a", "t", `"write"`, "x") + tokenText("b", "t", `"drop"`, "y")))
	f.Add([]byte("token = [{name = \"a\"}]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := parse(text)
		if err != nil {
			return
		}
		for tenant, quota := range c.quotas {
			if checkTenant(tenant) != nil || quota <= 0 {
				t.Errorf("tenant %q has the quota %d", tenant, quota)
			}
		}
		for _, k := range c.tokens {
			if checkName(k.identity.Name) != nil || checkTenant(k.identity.Tenant) != nil || k.identity.Rights() == "" || k.secret == [32]byte{} {
				t.Errorf("a token %+v", k.identity)
			}
		}
	})
}
