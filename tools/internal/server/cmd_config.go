package server

import (
	"strconv"
	"strings"

	"github.com/sealstone/sealstone/tools/internal/server/resp"
)

// config answers CONFIG GET with what tools ask for. Nothing can be set: the
// settings are those of the program's start.
func config(c *conn, cmd *resp.Command) {
	switch strings.ToUpper(clip(cmd.Args[1])) {
	case "GET":
		c.configGet(cmd.Args[2:])
	case "SET", "REWRITE", "RESETSTAT":
		c.fail("ERR CONFIG %s is not supported: settings are given when the server is started", strings.ToUpper(clip(cmd.Args[1])))
	default:
		c.failSub("CONFIG", cmd)
	}
}

type setting struct{ name, value string }

func (c *conn) settings() []setting {
	o := &c.s.o
	return []setting{
		{"appendonly", "no"},
		{"databases", "1"},
		{"maxclients", strconv.Itoa(o.ConnectionsMax)},
		{"maxmemory", strconv.FormatInt(o.ValueMemoryBytes, 10)},
		{"maxmemory-policy", "allkeys-lru"},
		{"proto-max-bulk-len", strconv.FormatInt(o.ValueBytesMax, 10)},
		{"save", ""},
		{"timeout", strconv.FormatInt(int64(o.IdleTimeout.Seconds()), 10)},
	}
}

func (c *conn) configGet(patterns [][]byte) {
	if len(patterns) == 0 {
		c.fail("ERR wrong number of arguments for 'config|get' command")
		return
	}
	var found []setting
	for _, s := range c.settings() {
		for _, p := range patterns {
			if glob([]byte(strings.ToLower(string(p))), []byte(s.name)) {
				found = append(found, s)
				break
			}
		}
	}
	c.out.Map(len(found))
	for _, s := range found {
		c.pair(s.name, s.value)
	}
}
