package access

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
	"github.com/sealstone/sealstone/tools/internal/bytesize"
)

// Bounds of what a file may say.
const (
	maxTokens      = 5000
	maxNameBytes   = 64
	maxTenantBytes = 256 // as the store's own limit
)

// file is the tokens file as it is written.
type file struct {
	Tenant map[string]struct {
		DiskQuota string `toml:"disk-quota"`
	} `toml:"tenant"`
	Token []struct {
		Name   string   `toml:"name"`
		Tenant string   `toml:"tenant"`
		Rights []string `toml:"rights"`
		SHA256 string   `toml:"sha256"`
	} `toml:"token"`
}

// parse reads a tokens file. What it does not know it refuses: a right that was
// misspelt must not be one that is quietly not there.
func parse(text []byte) (*content, error) {
	var f file
	d := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return nil, place(err)
	}
	if len(f.Token) == 0 {
		return nil, errors.New("no [[token]] in it; `sealstone token NAME` makes one")
	}
	if len(f.Token) > maxTokens {
		return nil, fmt.Errorf("%d tokens, more than %d", len(f.Token), maxTokens)
	}
	c := &content{quotas: map[string]int64{}}
	for tenant, t := range f.Tenant {
		if err := c.quota(tenant, t.DiskQuota); err != nil {
			return nil, fmt.Errorf("tenant %q: %w", tenant, err)
		}
	}
	for i, t := range f.Token {
		k := token{identity: Identity{Name: t.Name, Tenant: t.Tenant}, name: sha256.Sum256([]byte(t.Name))}
		if err := errors.Join(checkName(t.Name), checkTenant(t.Tenant), k.identity.grant(t.Rights), k.hash(t.SHA256)); err != nil {
			return nil, fmt.Errorf("token %d, %q: %w", i+1, t.Name, err)
		}
		if err := c.add(k); err != nil {
			return nil, fmt.Errorf("token %d, %q: %w", i+1, t.Name, err)
		}
	}
	return c, nil
}

// place says where in the file the decoder stopped.
func place(err error) error {
	var unknown *toml.StrictMissingError
	if errors.As(err, &unknown) && len(unknown.Errors) > 0 {
		line, _ := unknown.Errors[0].Position()
		return fmt.Errorf("line %d: unknown key %q", line, strings.Join(unknown.Errors[0].Key(), "."))
	}
	var bad *toml.DecodeError
	if errors.As(err, &bad) {
		line, column := bad.Position()
		return fmt.Errorf("line %d, column %d: %w", line, column, err)
	}
	return err
}

func (c *content) quota(tenant, quota string) error {
	if err := checkTenant(tenant); err != nil {
		return err
	}
	n, err := bytesize.Parse(quota)
	if err != nil {
		return fmt.Errorf("disk-quota: %w", err)
	}
	if n == 0 {
		return errors.New("disk-quota 0 would be none; leave the table out, or give the tenant's tokens no right to write")
	}
	c.quotas[tenant] = n
	return nil
}

// add refuses what would make two tokens one.
func (c *content) add(k token) error {
	for _, o := range c.tokens {
		if o.identity.Name == k.identity.Name {
			return errors.New("the name is taken by an earlier token")
		}
		if o.secret == k.secret {
			return fmt.Errorf("the secret is that of token %q", o.identity.Name)
		}
	}
	c.tokens = append(c.tokens, k)
	return nil
}

func (k *token) hash(s string) error {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != sha256.Size {
		return errors.New("sha256 is not 64 hexadecimal digits; `sealstone token NAME` makes a secret and its sum")
	}
	if k.secret = [sha256.Size]byte(b); k.secret == sha256.Sum256(nil) {
		return errors.New("sha256 is that of an empty secret")
	}
	return nil
}

func checkName(s string) error {
	if s == "" || len(s) > maxNameBytes {
		return fmt.Errorf("a name has 1 to %d bytes", maxNameBytes)
	}
	if s == DefaultUser {
		return fmt.Errorf("%q is what clients send that know of no users; choose another name", s)
	}
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r) {
			return errors.New("a name has letters, digits, '.', '_' and '-' only")
		}
	}
	return nil
}

func checkTenant(s string) error {
	if s == "" || len(s) > maxTenantBytes || !utf8.ValidString(s) {
		return fmt.Errorf("a tenant has 1 to %d bytes of UTF-8", maxTenantBytes)
	}
	for _, r := range s {
		if r < ' ' || r == 0x7f {
			return errors.New("a tenant has no control characters")
		}
	}
	return nil
}
