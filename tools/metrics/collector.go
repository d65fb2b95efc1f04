package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sealstone/sealstone/engine"
)

// Source is what a collector asks; an *engine.Store is one.
type Source interface {
	Stats() engine.Stats
	Health() engine.Health
	Tenants() []engine.TenantUse
}

const namespace = "sealstone"

// Collector is a prometheus.Collector over one store.
type Collector struct {
	source  Source
	figures []figure
	status  *prometheus.Desc
	health  *prometheus.Desc
	info    *prometheus.Desc
	device  deviceDescs
	tier    tierDescs
	tenant  tenantDescs
}

// figure is one number of Stats.
type figure struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(*engine.Stats) float64
}

// New makes the collector of a store. The labels are constant and tell the
// stores of a process apart; nil is allowed where there is one.
func New(s Source, labels prometheus.Labels) *Collector {
	desc := func(name, help string, variable ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, variable, labels)
	}
	c := &Collector{
		source: s,
		status: desc("blocks_total", "Blocks answered, by operation and status.", "operation", "status"),
		health: desc("health", "1 for the state that the store is in: ok, read-only, all-miss or closed.", "state"),
		info:   desc("read_path_info", "1; the way by which blocks are read, and why no faster one is used.", "path", "reason"),
	}
	c.device, c.tier, c.tenant = newDeviceDescs(desc), newTierDescs(desc), newTenantDescs(desc)
	for _, d := range definitions {
		c.figures = append(c.figures, figure{desc(d.name, d.help), d.kind, d.of})
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, f := range c.figures {
		out <- f.desc
	}
	out <- c.status
	out <- c.health
	out <- c.info
	c.device.describe(out)
	c.tier.describe(out)
	c.tenant.describe(out)
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	s, h := c.source.Stats(), c.source.Health()
	for _, f := range c.figures {
		out <- prometheus.MustNewConstMetric(f.desc, f.kind, f.of(&s))
	}
	for _, st := range engine.Statuses() {
		out <- prometheus.MustNewConstMetric(c.status, prometheus.CounterValue, float64(s.GetStatus[st]), "get", st.String())
		out <- prometheus.MustNewConstMetric(c.status, prometheus.CounterValue, float64(s.PutStatus[st]), "put", st.String())
	}
	for _, state := range []engine.HealthState{engine.HealthOK, engine.HealthReadOnly, engine.HealthAllMiss, engine.HealthClosed} {
		on := 0.0
		if state == h.State {
			on = 1
		}
		out <- prometheus.MustNewConstMetric(c.health, prometheus.GaugeValue, on, state.String())
	}
	out <- prometheus.MustNewConstMetric(c.info, prometheus.GaugeValue, 1, s.PathRead, s.PathReason)
	c.device.collect(out, &s)
	c.tier.collect(out, &s)
	c.tenant.collect(out, c.source.Tenants())
}
