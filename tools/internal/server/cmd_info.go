package server

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/tools/internal/server/resp"
)

func init() {
	register(definition{name: "INFO", argsMin: 1, do: info})
}

// infoSection is a part of INFO. Those that are not usual come only where they
// are named, or with "all" or "everything".
type infoSection struct {
	name  string
	usual bool
	lines func(c *conn) []setting
}

var infoSections = []infoSection{
	{"Server", true, infoServer},
	{"Clients", true, infoClients},
	{"Memory", true, infoMemory},
	{"Persistence", true, func(*conn) []setting { return []setting{{"loading", "0"}} }},
	{"Stats", true, infoStats},
	{"Replication", true, func(*conn) []setting { return []setting{{"role", "master"}, {"connected_slaves", "0"}} }},
	{"Keyspace", true, infoKeyspace},
	{"Commandstats", false, infoCommands},
	{"Sealstone", false, infoStore},
}

func info(c *conn, cmd *resp.Command) {
	var out strings.Builder
	for _, s := range infoSections {
		if !infoWanted(s, cmd.Args[1:]) {
			continue
		}
		if out.Len() > 0 {
			out.WriteString("\r\n")
		}
		fmt.Fprintf(&out, "# %s\r\n", s.name)
		for _, l := range s.lines(c) {
			fmt.Fprintf(&out, "%s:%s\r\n", l.name, l.value)
		}
	}
	c.out.Verbatim(out.String())
}

func infoWanted(s infoSection, asked [][]byte) bool {
	if len(asked) == 0 {
		return s.usual
	}
	for _, a := range asked {
		if isWord(a, s.name) || isWord(a, "all") || isWord(a, "everything") || isWord(a, "default") && s.usual {
			return true
		}
	}
	return false
}

func line(name string, value any) setting { return setting{name, fmt.Sprint(value)} }

func infoServer(c *conn) []setting {
	up := int64(time.Since(c.s.started).Seconds())
	return []setting{
		{"redis_version", redisVersion}, {"redis_mode", "standalone"}, {"sealstone_version", c.s.o.Version},
		line("process_id", os.Getpid()), line("uptime_in_seconds", up), line("uptime_in_days", up/86400),
	}
}

func infoClients(c *conn) []setting {
	c.s.mu.Lock()
	n := len(c.s.conns)
	c.s.mu.Unlock()
	return []setting{line("connected_clients", n), line("maxclients", c.s.o.ConnectionsMax)}
}

func infoMemory(c *conn) []setting {
	return []setting{line("used_memory", c.s.memory.inUse()), line("maxmemory", c.s.o.ValueMemoryBytes), {"maxmemory_policy", "allkeys-lru"}}
}

func infoStats(c *conn) []setting {
	n := &c.s.count
	var calls int64
	for i := range n.commands {
		calls += n.commands[i].calls.Load()
	}
	k := &n.kinds[kindPlain]
	return []setting{
		line("total_connections_received", n.connections.Load()), line("rejected_connections", n.connectionsRefused.Load()),
		line("total_commands_processed", calls),
		line("total_net_input_bytes", n.bytesIn.Load()), line("total_net_output_bytes", n.bytesOut.Load()),
		line("keyspace_hits", k.hits.Load()), line("keyspace_misses", k.gets.Load()-k.hits.Load()),
		line("sealstone_corrupt", k.corrupt.Load()), line("sealstone_shed", k.shed.Load()),
		line("expired_keys", 0),
	}
}

func infoKeyspace(c *conn) []setting {
	if !c.who.Read {
		return nil
	}
	if n := c.keyCount(); n > 0 {
		return []setting{{"db0", fmt.Sprintf("keys=%d,expires=0,avg_ttl=0", n)}}
	}
	return nil
}

func infoCommands(c *conn) []setting {
	var out []setting
	for _, d := range definitions() {
		k := c.s.count.commands[d.index].stats()
		if k.Calls == 0 {
			continue
		}
		out = append(out, setting{"cmdstat_" + strings.ToLower(d.name), fmt.Sprintf("calls=%d,usec=%d,usec_per_call=%.2f,failed_calls=%d",
			k.Calls, k.Busy.Microseconds(), float64(k.Busy.Nanoseconds())/1e3/float64(k.Calls), k.Errors)})
	}
	return out
}

func infoStore(c *conn) []setting {
	st, h := c.s.store.Stats(), c.s.store.Health()
	return []setting{
		line("health", h.State), {"health_reasons", strings.Join(h.Reasons, "; ")},
		line("capacity_bytes", st.CapacityBytes), line("disk_bytes", st.DiskBytes), line("live_bytes", st.LiveBytes),
		line("read_path", st.PathRead), line("verified_bytes", st.VerifiedBytes),
		line("get_corrupt", st.GetStatus[engine.StatusCorrupt]), line("quarantined", st.Quarantined), line("evicted_blocks", st.EvictedBlocks),
	}
}
