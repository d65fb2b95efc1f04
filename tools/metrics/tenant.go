package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sealstone/sealstone/engine"
)

// tenantDescs are the figures of tenants; there are as many of each as tenants
// that have a namespace or a quota.
type tenantDescs struct{ quota, stored, blocks, refused *prometheus.Desc }

func newTenantDescs(desc func(name, help string, variable ...string) *prometheus.Desc) tenantDescs {
	return tenantDescs{
		quota:   desc("tenant_quota_bytes", "Most bytes that a tenant may hold on disk; 0: no quota.", "tenant"),
		stored:  desc("tenant_stored_bytes", "Bytes that a tenant holds on disk.", "tenant"),
		blocks:  desc("tenant_blocks", "Blocks that a tenant holds.", "tenant"),
		refused: desc("tenant_blocks_lost_total", "What a quota did: shed blocks were not stored, trimmed ones dropped to make room.", "tenant", "outcome"),
	}
}

func (d tenantDescs) describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{d.quota, d.stored, d.blocks, d.refused} {
		out <- desc
	}
}

func (d tenantDescs) collect(out chan<- prometheus.Metric, tenants []engine.TenantUse) {
	put := func(desc *prometheus.Desc, kind prometheus.ValueType, n int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, kind, float64(n), labels...)
	}
	for _, t := range tenants {
		put(d.quota, gauge, t.QuotaBytes, t.Tenant)
		put(d.stored, gauge, t.StoredBytes, t.Tenant)
		put(d.blocks, gauge, t.Blocks, t.Tenant)
		put(d.refused, counter, t.ShedBlocks, t.Tenant, "shed")
		put(d.refused, counter, t.TrimmedBlocks, t.Tenant, "trimmed")
	}
}
