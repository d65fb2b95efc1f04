package web

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sealstone/sealstone/tools/internal/server"
)

const (
	gauge   = prometheus.GaugeValue
	counter = prometheus.CounterValue
)

// serverFigures are the figures of a server that stand for themselves.
var serverFigures = []struct {
	name, help string
	kind       prometheus.ValueType
	of         func(*server.Stats) float64
}{
	{"connections", "Connections that are open.", gauge,
		func(s *server.Stats) float64 { return float64(s.Connections) }},
	{"connections_limit", "Most connections at a time.", gauge,
		func(s *server.Stats) float64 { return float64(s.ConnectionsMax) }},
	{"connections_total", "Connections taken.", counter,
		func(s *server.Stats) float64 { return float64(s.ConnectionsAccepted) }},
	{"connections_refused_total", "Connections refused because there were too many.", counter,
		func(s *server.Stats) float64 { return float64(s.ConnectionsRefused) }},
	{"accept_errors_total", "Connections that the system could not hand over.", counter,
		func(s *server.Stats) float64 { return float64(s.AcceptErrors) }},
	{"protocol_errors_total", "Connections closed because of a malformed frame.", counter,
		func(s *server.Stats) float64 { return float64(s.ProtocolErrors) }},
	{"panics_total", "Commands that ended in a defect of the server; each closed its connection. Report them.", counter,
		func(s *server.Stats) float64 { return float64(s.Panics) }},
	{"auth_failures_total", "Logins with a wrong secret.", counter,
		func(s *server.Stats) float64 { return float64(s.AuthFailures) }},
	{"received_bytes_total", "Bytes received from peers.", counter,
		func(s *server.Stats) float64 { return float64(s.BytesIn) }},
	{"sent_bytes_total", "Bytes sent to peers.", counter,
		func(s *server.Stats) float64 { return float64(s.BytesOut) }},
	{"value_bytes", "Bytes of values on their way in.", gauge,
		func(s *server.Stats) float64 { return float64(s.ValueBytes) }},
	{"value_bytes_limit", "Most bytes of values on their way in.", gauge,
		func(s *server.Stats) float64 { return float64(s.ValueBytesMax) }},
	{"value_waits_total", "Values that had to wait for room in memory.", counter,
		func(s *server.Stats) float64 { return float64(s.ValueWaits) }},
	{"handles", "Namespaces open by KV.OPEN.", gauge,
		func(s *server.Stats) float64 { return float64(s.Handles) }},
	{"handles_limit", "Most namespaces open by KV.OPEN.", gauge,
		func(s *server.Stats) float64 { return float64(s.HandlesMax) }},
	{"overwrites_total", "Sets that put another value in the place of one.", counter,
		func(s *server.Stats) float64 { return float64(s.Overwrites) }},
	{"hidden_keys", "Overwritten values that the store could not remove yet: they are answered as misses.", gauge,
		func(s *server.Stats) float64 { return float64(s.HiddenKeys) }},
	{"hidden_keys_limit", "Most of these; past it all plain keys of a tenant are misses.", gauge,
		func(s *server.Stats) float64 { return float64(s.HiddenKeysMax) }},
	{"hidden_keys_total", "Values that were hidden so.", counter,
		func(s *server.Stats) float64 { return float64(s.HiddenTotal) }},
	{"blind_tenants", "Tenants of which all plain keys are misses until the store takes a new epoch.", gauge,
		func(s *server.Stats) float64 { return float64(s.BlindTenants) }},
	{"blind_tenants_total", "How often a tenant became so.", counter,
		func(s *server.Stats) float64 { return float64(s.BlindTotal) }},
	{"shared_regions", "Regions of peers' memory that are mapped.", gauge,
		func(s *server.Stats) float64 { return float64(s.Shared.Regions) }},
	{"shared_regions_limit", "Most regions of peers' memory.", gauge,
		func(s *server.Stats) float64 { return float64(s.Shared.RegionsMax) }},
	{"shared_bytes", "Bytes of peers' memory that are mapped.", gauge,
		func(s *server.Stats) float64 { return float64(s.Shared.Bytes) }},
	{"shared_bytes_limit", "Most bytes of peers' memory.", gauge,
		func(s *server.Stats) float64 { return float64(s.Shared.BytesMax) }},
	{"shared_refused_total", "Regions that were not mapped: past a bound, of the wrong size, or no memory.", counter,
		func(s *server.Stats) float64 { return float64(s.Shared.Refused) }},
}

// serverCollector shows the figures of a server, once there is one.
type serverCollector struct {
	now                                  func() Moment
	single                               []*prometheus.Desc
	timeouts, limits                     *prometheus.Desc
	values, valueBytes, commands, second *prometheus.Desc
}

func newServerCollector(now func() Moment) *serverCollector {
	desc := func(name, help string, variable ...string) *prometheus.Desc {
		return prometheus.NewDesc("sealstone_server_"+name, help, variable, nil)
	}
	c := &serverCollector{
		now:        now,
		timeouts:   desc("timeouts_total", "Connections closed because the peer was slow: idle, read (it did not send on) or write (it did not take its answer).", "kind"),
		limits:     desc("limits_reached_total", "How often a bound was reached, by its name.", "limit"),
		values:     desc("values_total", "Values by kind (plain keys, blocks), operation and what came of them; attempted are all.", "kind", "operation", "outcome"),
		valueBytes: desc("values_bytes_total", "Bytes of values: verified ones of gets, stored ones of puts.", "kind", "operation"),
		commands:   desc("commands_total", "Commands by name and whether the answer was an error.", "command", "outcome"),
		second:     desc("command_seconds", "Time that commands took, without the time in the sockets.", "command"),
	}
	for _, f := range serverFigures {
		c.single = append(c.single, desc(f.name, f.help))
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *serverCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.single {
		out <- d
	}
	for _, d := range []*prometheus.Desc{c.timeouts, c.limits, c.values, c.valueBytes, c.commands, c.second} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *serverCollector) Collect(out chan<- prometheus.Metric) {
	m := c.now()
	if m.Server == nil {
		return
	}
	s := m.Server()
	for i, f := range serverFigures {
		out <- prometheus.MustNewConstMetric(c.single[i], f.kind, f.of(&s))
	}
	count := func(desc *prometheus.Desc, n int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, counter, float64(n), labels...)
	}
	count(c.timeouts, s.IdleTimeouts, "idle")
	count(c.timeouts, s.ReadTimeouts, "read")
	count(c.timeouts, s.WriteTimeouts, "write")
	for name, n := range s.Limits {
		count(c.limits, n, name)
	}
	for kind, k := range s.Kinds {
		c.collectKind(count, kind, k)
	}
	for name, k := range s.Commands {
		count(c.commands, k.Calls-k.Errors, name, "ok")
		count(c.commands, k.Errors, name, "error")
		out <- c.histogram(&s, name, k)
	}
}

func (c *serverCollector) collectKind(count func(*prometheus.Desc, int64, ...string), kind string, k server.KindStats) {
	for outcome, n := range map[string]int64{"attempted": k.Gets, "verified": k.Hits, "miss": k.Misses, "corrupt": k.Corrupt, "failed": k.Failed} {
		count(c.values, n, kind, "get", outcome)
	}
	for outcome, n := range map[string]int64{"attempted": k.Puts, "stored": k.Stored, "existed": k.Existed, "shed": k.Shed, "failed": k.PutFailed} {
		count(c.values, n, kind, "put", outcome)
	}
	count(c.valueBytes, k.VerifiedBytes, kind, "get")
	count(c.valueBytes, k.PutBytes, kind, "put")
}

// histogram makes the buckets cumulative, as Prometheus has them.
func (c *serverCollector) histogram(s *server.Stats, name string, k server.CommandStats) prometheus.Metric {
	buckets, sum := map[float64]uint64{}, uint64(0)
	for i, n := range k.Buckets {
		sum += uint64(n)
		if i < len(s.BucketBounds) {
			buckets[s.BucketBounds[i].Seconds()] = sum
		}
	}
	return prometheus.MustNewConstHistogram(c.second, sum, k.Busy.Seconds(), buckets, name)
}
