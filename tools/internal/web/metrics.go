package web

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/sealstone/sealstone/tools/metrics"
)

// newRegistry makes what /metrics gathers: the store, the server, and the
// process itself.
func newRegistry(o Options) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		newProcessCollector(o), &storeCollector{now: o.Now}, newServerCollector(o.Now))
	return r
}

// storeCollector is the collector of the store, once there is one.
type storeCollector struct{ now func() Moment }

// Describe implements prometheus.Collector. That it says nothing makes the
// collector an unchecked one: what it gathers begins when the store is open.
func (c *storeCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *storeCollector) Collect(out chan<- prometheus.Metric) {
	if m := c.now(); m.Store != nil {
		metrics.New(m.Store, nil).Collect(out)
	}
}

// processCollector is about the process: which program, and how far it is.
type processCollector struct {
	o                  Options
	build, phase, live *prometheus.Desc
}

func newProcessCollector(o Options) *processCollector {
	return &processCollector{
		o:     o,
		build: prometheus.NewDesc("sealstone_build_info", "1; the version of the program.", []string{"version"}, nil),
		phase: prometheus.NewDesc("sealstone_server_phase", "1 for the phase that the process is in: opening, serving or stopping.", []string{"phase"}, nil),
		live:  prometheus.NewDesc("sealstone_server_alive", "0: the process is wedged and /livez fails.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *processCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.build
	out <- c.phase
	out <- c.live
}

// Collect implements prometheus.Collector.
func (c *processCollector) Collect(out chan<- prometheus.Metric) {
	truth := func(desc *prometheus.Desc, on bool, labels ...string) {
		v := 0.0
		if on {
			v = 1
		}
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, labels...)
	}
	now := c.o.Now().Phase
	alive, _ := c.o.Alive()
	truth(c.build, true, c.o.Version)
	for _, p := range []Phase{PhaseOpening, PhaseServing, PhaseStopping} {
		truth(c.phase, p == now, string(p))
	}
	truth(c.live, alive)
}
