// Package metrics shows a store to Prometheus: a collector over the engine's
// Stats and Health, outside the engine so that the library brings no metrics
// registry into its host.
//
//	registry.MustRegister(metrics.New(store, prometheus.Labels{"store": "kv0"}))
//
// Every collection asks the store once. All totals begin at Open.
package metrics
