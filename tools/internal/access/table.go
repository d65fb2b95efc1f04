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
	tokens []token
	quotas map[string]int64
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
	k, ok := t.content.Load().find(user, password)
	return k.identity, ok
}

func (c *content) find(user, password string) (token, bool) {
	name, secret := sha256.Sum256([]byte(user)), sha256.Sum256([]byte(password))
	anyName := 0
	if user == "" || user == DefaultUser {
		anyName = 1
	}
	at := -1
	for i := range c.tokens {
		same := subtle.ConstantTimeCompare(c.tokens[i].secret[:], secret[:])
		same &= anyName | subtle.ConstantTimeCompare(c.tokens[i].name[:], name[:])
		at = subtle.ConstantTimeSelect(same, i, at)
	}
	if at < 0 {
		return token{}, false
	}
	return c.tokens[at], true
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
