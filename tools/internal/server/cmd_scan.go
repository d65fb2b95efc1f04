package server

import (
	"context"
	"strconv"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/tools/internal/server/resp"
)

func init() {
	register(
		definition{name: "SCAN", argsMin: 2, argsMax: 8, rights: mayRead, do: scan},
		definition{name: "DBSIZE", argsMin: 1, argsMax: 1, rights: mayRead, do: dbSize},
	)
}

const (
	scanDefault = 10
	// scanMax bounds what one SCAN looks at, whatever COUNT says: each key is
	// read from the header of its extent.
	scanMax = 512
)

type scanOptions struct {
	cursor uint64
	match  []byte // nil: all
	count  int
	none   bool // a TYPE other than string
}

func parseScan(args [][]byte) (o scanOptions, problem string) {
	var err error
	if o.cursor, err = strconv.ParseUint(string(args[0]), 10, 64); err != nil {
		return o, "ERR invalid cursor"
	}
	o.count = scanDefault
	for rest := args[1:]; len(rest) > 0; rest = rest[2:] {
		if len(rest) < 2 {
			return o, "ERR syntax error"
		}
		switch {
		case isWord(rest[0], "MATCH"):
			o.match = rest[1]
		case isWord(rest[0], "TYPE"):
			o.none = !isWord(rest[1], "string")
		case isWord(rest[0], "COUNT"):
			n, err := strconv.Atoi(string(rest[1]))
			if err != nil || n < 1 {
				return o, "ERR value is not an integer or out of range"
			}
			o.count = min(n, scanMax)
		default:
			return o, "ERR syntax error"
		}
	}
	return o, ""
}

// scan pages through the keys. The cursor is the position of the last hash
// looked at: it holds nothing in the server and survives a restart. Of keys
// whose hashes have the same 64 bits there some may be left out, where a page
// ends between them.
func scan(c *conn, cmd *resp.Command) {
	o, problem := parseScan(cmd.Args[1:])
	if problem != "" {
		c.fail("%s", problem)
		return
	}
	var entries []engine.KeyEntry
	var next []byte
	failed := c.withPlain(func(ctx context.Context, n *engine.Namespace) bool {
		var err error
		entries, next, err = n.Keys(ctx, afterCursor(o.cursor), o.count)
		return isStale(err)
	})
	// A store that answers nothing now has no keys, as it has no values.
	if failed != nil {
		entries, next = nil, nil
	}
	keys := entries[:0]
	for _, e := range entries {
		if len(e.PlainKey) > 0 && !o.none && !c.s.hidden.has(c.who.Tenant, e.Hash) && (o.match == nil || glob(o.match, e.PlainKey)) {
			keys = append(keys, e)
		}
	}
	c.out.Array(2)
	c.out.BulkString(strconv.FormatUint(cursorOf(next), 10))
	c.out.Array(len(keys))
	for _, e := range keys {
		c.out.Bulk(e.PlainKey)
	}
}

// cursorOf is never 0 for a page that is followed by another: a hash that
// stands at 0 would begin anew for ever.
func cursorOf(last []byte) uint64 {
	if last == nil {
		return 0
	}
	return max(engine.KeysPosition(last), 1)
}

func afterCursor(cursor uint64) []byte {
	if cursor == 0 {
		return nil
	}
	return engine.KeysBehind(cursor)
}

func dbSize(c *conn, _ *resp.Command) { c.out.Int(c.keyCount()) }

// keyCount is how many plain keys the peer's tenant has. Keys that were shed
// or evicted are not among them.
func (c *conn) keyCount() int64 {
	var n int64
	_ = c.withPlain(func(_ context.Context, ns *engine.Namespace) bool {
		n = ns.Use().Blocks
		return false
	})
	return n
}
