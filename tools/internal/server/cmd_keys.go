package server

import (
	"context"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/tools/internal/server/resp"
)

func init() {
	register(
		definition{name: "EXISTS", argsMin: 2, rights: mayRead, keys: allKeys, do: exists},
		definition{name: "DEL", argsMin: 2, rights: mayDrop, keys: allKeys, do: del},
		definition{name: "UNLINK", argsMin: 2, rights: mayDrop, keys: allKeys, do: del},
		definition{name: "TTL", argsMin: 2, argsMax: 2, rights: mayRead, keys: oneKey, do: ttl},
		definition{name: "PTTL", argsMin: 2, argsMax: 2, rights: mayRead, keys: oneKey, do: ttl},
		definition{name: "TYPE", argsMin: 2, argsMax: 2, rights: mayRead, keys: oneKey, do: typeOf},
	)
}

// exists counts the keys that are stored, each as often as it is named. What
// it says is kept for a while, so that the GET which follows finds it.
func exists(c *conn, cmd *resp.Command) {
	ask := matchStatuses
	switch {
	case c.s.o.VerifyOnExists:
		ask = c.verifyStatuses
	case c.s.o.NoLeaseOnExists:
		ask = hasStatuses
	}
	c.out.Int(countOK(c.eachPlain(cmd.Args[1:], ask)))
}

func hasStatuses(ctx context.Context, n *engine.Namespace, hashes [][]byte) []engine.Status {
	return n.Has(ctx, hashes)
}

// matchStatuses leases what is stored. The leases are not released: they end
// by themselves, and the GET may come over another connection.
func matchStatuses(ctx context.Context, n *engine.Namespace, hashes [][]byte) []engine.Status {
	out := make([]engine.Status, len(hashes))
	for at := 0; at < len(hashes); {
		lease, err := n.Match(ctx, hashes[at:])
		if err != nil { // nothing is known, or the epoch has moved on
			copy(out[at:], n.Has(ctx, hashes[at:]))
			return out
		}
		for range lease.Blocks() {
			out[at] = engine.StatusOK
			at++
		}
		if at < len(hashes) {
			out[at] = engine.StatusMiss
			at++
		}
	}
	return out
}

// verifyStatuses reads the values, one at a time.
func (c *conn) verifyStatuses(ctx context.Context, n *engine.Namespace, hashes [][]byte) []engine.Status {
	if c.out.Lends() {
		_ = c.out.Flush()
	}
	out := make([]engine.Status, len(hashes))
	for i := range hashes {
		v := n.View(ctx, hashes[i:i+1], engine.ViewOptions{})
		out[i] = v[0].Status
		v[0].Release()
	}
	return out
}

func countOK(all []engine.Status) int64 {
	var n int64
	for _, st := range all {
		if st == engine.StatusOK {
			n++
		}
	}
	return n
}

func (c *conn) has(key []byte) bool { return countOK(c.eachPlain([][]byte{key}, hasStatuses)) == 1 }

// del counts the keys that are gone for good, and were there.
func del(c *conn, cmd *resp.Command) {
	c.out.Int(countOK(c.eachPlain(cmd.Args[1:], dropStatuses)))
}

func dropStatuses(ctx context.Context, n *engine.Namespace, hashes [][]byte) []engine.Status {
	out := make([]engine.Status, len(hashes))
	for i, r := range n.Drop(ctx, hashes) {
		out[i] = r.Status
	}
	return out
}

// ttl answers, for TTL and PTTL, that values never expire by time (-1) or are
// not there (-2).
func ttl(c *conn, cmd *resp.Command) {
	if c.has(cmd.Args[1]) {
		c.out.Int(-1)
		return
	}
	c.out.Int(-2)
}

func typeOf(c *conn, cmd *resp.Command) {
	if c.has(cmd.Args[1]) {
		c.out.Simple("string")
		return
	}
	c.out.Simple("none")
}
