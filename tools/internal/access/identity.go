package access

import (
	"fmt"
	"strings"
)

// DefaultTenant is the tenant of peers without a token.
const DefaultTenant = "default"

// Identity is an authenticated peer: its token's name, the tenant whose blocks
// it sees, and its rights.
type Identity struct {
	// Name is that of the token, "" for a peer without one.
	Name string
	// Tenant is whose blocks the peer sees; no right leads to those of another,
	// but for Admin.
	Tenant string
	// Read: look up and get. Write: put, and begin a new epoch. Drop: remove
	// blocks. Admin: name other tenants, and read the server's own state.
	Read, Write, Drop, Admin bool
}

// Open is what a peer is where no tokens are configured: all rights on the
// default tenant. A server must not listen off loopback then.
func Open() Identity {
	return Identity{Tenant: DefaultTenant, Read: true, Write: true, Drop: true, Admin: true}
}

// Rights lists the rights as the tokens file writes them, joined by commas.
func (id Identity) Rights() string {
	var have []string
	for _, r := range rights {
		if *r.of(&id) {
			have = append(have, r.name)
		}
	}
	return strings.Join(have, ",")
}

// rights are the words of the tokens file.
var rights = []struct {
	name string
	of   func(*Identity) *bool
}{
	{"read", func(id *Identity) *bool { return &id.Read }},
	{"write", func(id *Identity) *bool { return &id.Write }},
	{"drop", func(id *Identity) *bool { return &id.Drop }},
	{"admin", func(id *Identity) *bool { return &id.Admin }},
}

// grant sets the rights that words name.
func (id *Identity) grant(words []string) error {
	if len(words) == 0 {
		return fmt.Errorf("no rights; write rights = [\"read\"], or more of read, write, drop, admin")
	}
	for _, w := range words {
		found := false
		for _, r := range rights {
			if r.name == w {
				*r.of(id), found = true, true
			}
		}
		if !found {
			return fmt.Errorf("right %q is none of read, write, drop, admin", w)
		}
	}
	return nil
}
