package access

import "crypto/sha256"

// Session is a login that lasts, as that of a connection does: the file may be
// read again meanwhile. Its methods are for one goroutine at a time.
type Session struct {
	table    *Table
	seen     *content // what identity was last compared with
	identity Identity
	secret   [sha256.Size]byte
}

// Begin is Login for a connection. It returns nil for a peer that Login would
// not know.
func (t *Table) Begin(user, password string) *Session {
	if t == nil {
		return nil
	}
	c := t.content.Load()
	k, ok := c.find(user, password)
	if !ok {
		return nil
	}
	return &Session{table: t, seen: c, identity: k.identity, secret: k.secret}
}

// Current is the identity that the token has now, with the rights that the last
// reading of the file gave it. It is false when the file no longer holds that
// token, or holds it with another secret or for another tenant: the connection
// is to be closed.
func (s *Session) Current() (Identity, bool) {
	now := s.table.content.Load()
	if now == s.seen {
		return s.identity, true
	}
	for i := range now.tokens {
		k := &now.tokens[i]
		if k.identity.Name == s.identity.Name && k.identity.Tenant == s.identity.Tenant && k.secret == s.secret {
			s.seen, s.identity = now, k.identity
			return s.identity, true
		}
	}
	return Identity{}, false
}
