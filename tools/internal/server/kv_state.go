package server

import (
	"encoding/json"
	"errors"
	"os"

	"github.com/sealstone/sealstone/tools/internal/figures"
	"github.com/sealstone/sealstone/tools/internal/server/resp"
	"github.com/sealstone/sealstone/tools/internal/server/shm"
)

func init() {
	register(
		definition{name: "KV.STATS", argsMin: 1, argsMax: 1, do: kvStats},
		definition{name: "KV.HEALTH", argsMin: 1, argsMax: 1, do: kvHealth},
		definition{name: "KV.REGION", argsMin: 2, argsMax: 2, do: kvRegion},
		definition{name: "KV.UNREGION", argsMin: 2, argsMax: 2, do: kvUnregion},
	)
}

// kvStats answers the figures of store and server as JSON.
func kvStats(c *conn, _ *resp.Command) {
	if !c.who.Admin {
		c.fail("NOPERM the figures of all tenants are for users with the admin right")
		return
	}
	p, err := json.Marshal(struct {
		figures.Figures
		Server View `json:"server"`
	}{figures.Of(c.s.store, c.s.store.Dir()), c.s.Stats().View()})
	if err != nil {
		c.fail("ERR KV.STATS: %v", err)
		return
	}
	c.out.Bulk(p)
}

func kvHealth(c *conn, _ *resp.Command) {
	h := c.s.store.Health()
	c.out.Array(2)
	c.out.BulkString(h.State.String())
	c.out.Array(len(h.Reasons))
	for _, r := range h.Reasons {
		c.out.BulkString(r)
	}
}

// kvRegion makes memory that the peer shares known: its descriptor came with
// the bytes of the command.
func kvRegion(c *conn, cmd *resp.Command) {
	file := c.src.takeFile()
	size, err := parseNumber(cmd.Args[1])
	switch {
	case c.regions == nil:
		c.fail("ERR memory can not be shared over this connection: use the Unix socket on Linux, or send values inline")
	case file == nil:
		c.fail("ERR no descriptor came with KV.REGION: pass one by SCM_RIGHTS")
	case err != nil:
		c.fail("ERR %q is no size in bytes", clip(cmd.Args[1]))
	default:
		c.addRegion(file, size)
		return
	}
	if file != nil {
		_ = file.Close()
	}
}

func (c *conn) addRegion(file *os.File, sizeBytes int64) {
	id, err := c.regions.Add(file, sizeBytes)
	switch {
	case errors.Is(err, shm.ErrLimit):
		c.s.count.limit(limitRegions)
		c.fail("LIMIT regions: %v", err)
	case err != nil:
		c.fail("ERR KV.REGION: %v", err)
	default:
		c.out.Int(id)
	}
}

func kvUnregion(c *conn, cmd *resp.Command) {
	id, err := parseNumber(cmd.Args[1])
	c.yes(err == nil && c.regions != nil && c.regions.Remove(id))
}
