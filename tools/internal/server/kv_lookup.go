package server

import (
	"context"
	"time"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/tools/internal/server/resp"
)

func init() {
	register(
		definition{name: "KV.MATCH", argsMin: 3, rights: mayRead, do: kvMatch},
		definition{name: "KV.RELEASE", argsMin: 2, argsMax: 2, rights: mayRead, do: kvRelease},
		definition{name: "KV.RENEW", argsMin: 2, argsMax: 2, rights: mayRead, do: kvRenew},
		definition{name: "KV.HAS", argsMin: 3, rights: mayRead, do: statuses(hasStatuses)},
		definition{name: "KV.TOUCH", argsMin: 3, rights: mayRead, do: statuses(touchStatuses)},
		definition{name: "KV.DROP", argsMin: 3, rights: mayDrop, do: statuses(dropStatuses)},
		definition{name: "KV.STAT", argsMin: 3, rights: mayRead, do: kvStat},
	)
}

// leasesMax bounds the leases of a connection.
const leasesMax = 1024

// heldLease is a lease as its connection holds it.
type heldLease struct {
	*engine.Lease
	until time.Time
}

// goodHashes answers with an error hashes of impossible lengths.
func (c *conn) goodHashes(hashes [][]byte) bool {
	for i, h := range hashes {
		if len(h) < engine.MinHashBytes || len(h) > engine.MaxHashBytes {
			c.fail("ERR hash %d has %d bytes: %d to %d are wanted", i+1, len(h), engine.MinHashBytes, engine.MaxHashBytes)
			return false
		}
	}
	return true
}

// kvMatch answers how many blocks from the first on are stored, and a lease on
// them. Where nothing is known that is none of them.
func kvMatch(c *conn, cmd *resp.Command) {
	h, hashes := c.handleOf(cmd.Args[1]), cmd.Args[2:]
	if h == nil || !c.goodHashes(hashes) {
		return
	}
	ctx, cancel := c.context()
	defer cancel()
	blocks, id, left := 0, int64(0), time.Duration(0)
	if lease, err := h.ns.Match(ctx, hashes); err == nil {
		if blocks = lease.Blocks(); blocks > 0 {
			id, left = c.hold(lease)
		}
	}
	c.out.Array(3)
	c.out.Int(int64(blocks))
	c.out.Int(id)
	c.out.Int(left.Milliseconds())
}

// hold gives a lease a number. Where a connection has too many it gets none:
// the blocks are not kept, which is no error.
func (c *conn) hold(l *engine.Lease) (id int64, left time.Duration) {
	now := time.Now()
	if len(c.leases) >= leasesMax {
		for id, h := range c.leases {
			if now.After(h.until) {
				h.Release()
				delete(c.leases, id)
			}
		}
	}
	if len(c.leases) >= leasesMax {
		c.s.count.limit(limitLeases)
		l.Release()
		return 0, 0
	}
	if c.leases == nil {
		c.leases = map[int64]heldLease{}
	}
	c.leaseID++
	c.leases[c.leaseID] = heldLease{l, now.Add(c.s.o.LeaseDuration)}
	return c.leaseID, c.s.o.LeaseDuration
}

// leaseOf finds a lease of this connection.
func (c *conn) leaseOf(p []byte) (id int64, l heldLease, ok bool) {
	id, err := parseNumber(p)
	if err != nil {
		return 0, heldLease{}, false
	}
	l, ok = c.leases[id]
	return id, l, ok
}

func kvRelease(c *conn, cmd *resp.Command) {
	id, l, ok := c.leaseOf(cmd.Args[1])
	if ok {
		l.Release()
		delete(c.leases, id)
	}
	c.yes(ok)
}

func kvRenew(c *conn, cmd *resp.Command) {
	id, l, ok := c.leaseOf(cmd.Args[1])
	if ok = ok && l.Renew(); ok {
		l.until = time.Now().Add(c.s.o.LeaseDuration)
		c.leases[id] = l
	}
	c.yes(ok)
}

func (c *conn) yes(ok bool) {
	if ok {
		c.out.Int(1)
		return
	}
	c.out.Int(0)
}

func touchStatuses(ctx context.Context, n *engine.Namespace, hashes [][]byte) []engine.Status {
	return n.Touch(ctx, hashes)
}

// statuses makes a command that answers a status word for each hash.
func statuses(ask func(context.Context, *engine.Namespace, [][]byte) []engine.Status) func(*conn, *resp.Command) {
	return func(c *conn, cmd *resp.Command) {
		h, hashes := c.handleOf(cmd.Args[1]), cmd.Args[2:]
		if h == nil || !c.goodHashes(hashes) {
			return
		}
		ctx, cancel := c.context()
		defer cancel()
		all := ask(ctx, h.ns, hashes)
		c.out.Array(len(all))
		for _, st := range all {
			c.out.BulkString(st.String())
		}
	}
}

// kvStat answers the sizes of the planes, from the headers.
func kvStat(c *conn, cmd *resp.Command) {
	h, hashes := c.handleOf(cmd.Args[1]), cmd.Args[2:]
	if h == nil || !c.goodHashes(hashes) {
		return
	}
	ctx, cancel := c.context()
	defer cancel()
	all := h.ns.Stat(ctx, hashes)
	c.out.Array(len(all))
	for i := range all {
		c.out.Array(2)
		c.out.BulkString(all[i].Status.String())
		c.out.Array(len(all[i].PlaneBytes))
		for _, n := range all[i].PlaneBytes {
			c.out.Int(n)
		}
	}
}
