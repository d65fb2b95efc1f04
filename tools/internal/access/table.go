package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"maps"
	"sync/atomic"
)

// DefaultUser is the name that stands for "the secret alone says who I am", as
// Redis clients send it that know of no users.
const DefaultUser = "default"

// Table holds the tokens of one file. All methods may be called from any
// goroutine; Reload replaces the whole content at once. A nil Table knows
// nobody.
type Table struct {
	path    string
	content atomic.Pointer[content]
}

// content is what one reading of the file gave; it is never changed.
type content struct {
	tokens     []token
	quotas     map[string]int64
	generation uint64
}

type token struct {
	identity Identity
	name     [sha256.Size]byte // of the token's name, so that all names compare alike
	secret   [sha256.Size]byte
}

// Login finds the token of a user and a password. The user is the token's name;
// with "" or DefaultUser the password alone says which token. The time it takes
// depends on the number of tokens and the length of what was sent, not on how
// much of it was right.
func (t *Table) Login(user, password string) (Identity, bool) {
	if t == nil {
		return Identity{}, false
	}
	name, secret := sha256.Sum256([]byte(user)), sha256.Sum256([]byte(password))
	anyName := 0
	if user == "" || user == DefaultUser {
		anyName = 1
	}
	tokens, at := t.content.Load().tokens, -1
	for i := range tokens {
		same := subtle.ConstantTimeCompare(tokens[i].secret[:], secret[:])
		same &= anyName | subtle.ConstantTimeCompare(tokens[i].name[:], name[:])
		at = subtle.ConstantTimeSelect(same, i, at)
	}
	if at < 0 {
		return Identity{}, false
	}
	return tokens[at].identity, true
}

// Current is the identity that the token of id has now. It is false when the
// file no longer holds that token, or holds it for another tenant: a connection
// that logged in by it is to be closed. What did not come from this table, such
// as Open, is not current either.
func (t *Table) Current(id Identity) (Identity, bool) {
	if t == nil || id.Name == "" {
		return Identity{}, false
	}
	for _, k := range t.content.Load().tokens {
		if k.identity.Name == id.Name && k.identity.Tenant == id.Tenant {
			return k.identity, true
		}
	}
	return Identity{}, false
}

// Generation counts the readings of the file: while it stays, so does what
// Current answers.
func (t *Table) Generation() uint64 {
	if t == nil {
		return 0
	}
	return t.content.Load().generation
}

// Quotas are the disk quotas in bytes of the tenants that have one.
func (t *Table) Quotas() map[string]int64 {
	if t == nil {
		return nil
	}
	return maps.Clone(t.content.Load().quotas)
}

// Len is the number of tokens.
func (t *Table) Len() int {
	if t == nil {
		return 0
	}
	return len(t.content.Load().tokens)
}

// Path is the file that the table was read from.
func (t *Table) Path() string { return t.path }

// Identities are those of all tokens, in the order of the file.
func (t *Table) Identities() []Identity {
	if t == nil {
		return nil
	}
	var all []Identity
	for _, k := range t.content.Load().tokens {
		all = append(all, k.identity)
	}
	return all
}
