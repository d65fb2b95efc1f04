package server

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/sealstone/sealstone/tools/internal/server/resp"
)

func init() {
	register(
		definition{name: "PING", argsMin: 1, argsMax: 2, do: ping},
		definition{name: "ECHO", argsMin: 2, argsMax: 2, do: func(c *conn, cmd *resp.Command) { c.out.Bulk(cmd.Args[1]) }},
		definition{name: "AUTH", argsMin: 2, argsMax: 3, rights: noLogin, do: auth},
		definition{name: "HELLO", argsMin: 1, rights: noLogin, do: hello},
		definition{name: "SELECT", argsMin: 2, argsMax: 2, do: selectDatabase},
		definition{name: "RESET", argsMin: 1, argsMax: 1, rights: noLogin, do: reset},
		definition{name: "QUIT", argsMin: 1, rights: noLogin, do: quit},
	)
}

func ping(c *conn, cmd *resp.Command) {
	if len(cmd.Args) == 2 {
		c.out.Bulk(cmd.Args[1])
		return
	}
	c.out.Simple("PONG")
}

func auth(c *conn, cmd *resp.Command) {
	user, password := "", cmd.Args[len(cmd.Args)-1]
	if len(cmd.Args) == 3 {
		user = string(cmd.Args[1])
	}
	if c.login(user, string(password)) {
		c.out.Simple("OK")
	}
}

// login takes on the identity of a token, or answers with an error. Where no
// tokens are configured whoever offers one is welcome: nothing depends on it.
func (c *conn) login(user, password string) bool {
	if c.s.o.Tokens == nil {
		return true
	}
	session := c.s.o.Tokens.Begin(user, password)
	if session == nil {
		c.s.count.authFailures.Add(1)
		c.fail("WRONGPASS invalid username-password pair or user is disabled.")
		return false
	}
	c.session, c.known = session, true
	c.who, _ = session.Current()
	c.setLimits()
	return true
}

// revoked reports whether the peer's token is gone: the file of tokens was read
// again, and it holds it no more, or with another secret.
func (c *conn) revoked() bool {
	if c.session == nil {
		return false
	}
	var ok bool
	c.who, ok = c.session.Current()
	return !ok
}

// hello chooses the version of the protocol: HELLO [2|3 [AUTH user password]
// [SETNAME name]].
func hello(c *conn, cmd *resp.Command) {
	version := c.out.Protocol()
	rest := cmd.Args[1:]
	if len(rest) > 0 {
		v, err := strconv.Atoi(string(rest[0]))
		if err != nil || v != 2 && v != 3 {
			c.fail("NOPROTO unsupported protocol version")
			return
		}
		version, rest = v, rest[1:]
	}
	name := c.name
	for len(rest) > 0 {
		switch {
		case isWord(rest[0], "AUTH") && len(rest) >= 3:
			if !c.login(string(rest[1]), string(rest[2])) {
				return
			}
			rest = rest[3:]
		case isWord(rest[0], "SETNAME") && len(rest) >= 2 && goodName(rest[1]):
			name, rest = string(rest[1]), rest[2:]
		default:
			c.fail("ERR Syntax error in HELLO option '%s'", clip(rest[0]))
			return
		}
	}
	if !c.known {
		c.fail("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time")
		return
	}
	c.name = name
	c.out.SetProtocol(version)
	c.greet()
}

// redisVersion is the version of Redis whose commands are understood here, as
// far as they are; clients choose their ways by it.
const redisVersion = "7.0.0"

func (c *conn) greet() {
	c.out.Map(7)
	c.pair("server", "sealstone")
	c.pair("version", redisVersion)
	c.out.BulkString("proto")
	c.out.Int(int64(c.out.Protocol()))
	c.out.BulkString("id")
	c.out.Int(c.id)
	c.pair("mode", "standalone")
	c.pair("role", "master")
	c.out.BulkString("modules")
	c.out.Array(0)
}

func (c *conn) pair(key, value string) {
	c.out.BulkString(key)
	c.out.BulkString(value)
}

func selectDatabase(c *conn, cmd *resp.Command) {
	switch n, err := strconv.Atoi(string(cmd.Args[1])); {
	case err != nil:
		c.fail("ERR value is not an integer or out of range")
	case n != 0:
		c.fail("ERR DB index is out of range: there is database 0 alone; tenants are kept apart by their tokens")
	default:
		c.out.Simple("OK")
	}
}

func reset(c *conn, _ *resp.Command) {
	c.reset()
	c.out.Simple("RESET")
}

func quit(c *conn, _ *resp.Command) {
	c.out.Simple("OK")
	c.ending = true
}

// isWord compares a word of the protocol, in whatever case.
func isWord(p []byte, word string) bool {
	return len(p) == len(word) && strings.EqualFold(string(p), word)
}

// clientNameMax bounds what a connection may call itself.
const clientNameMax = 128

// goodName reports whether a connection may be called so: Redis allows no
// blanks and no line ends.
func goodName(p []byte) bool {
	return len(p) <= clientNameMax && bytes.IndexFunc(p, func(r rune) bool { return r < '!' || r > '~' }) < 0
}
