package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sealstone/sealstone/engine"
)

// tierDescs are the figures of the tiers, memory and disk, and of the ways of
// reading from the disk. What came from memory is counted there alone.
type tierDescs struct {
	verified           *prometheus.Desc
	hostBlocks         *prometheus.Desc
	hostBytes          *prometheus.Desc
	hostLimit          *prometheus.Desc
	hostEntries        *prometheus.Desc
	hostLent           *prometheus.Desc
	pathReads, demoted *prometheus.Desc
}

func newTierDescs(desc func(name, help string, variable ...string) *prometheus.Desc) tierDescs {
	return tierDescs{
		verified:    desc("tier_verified_bytes_total", "Bytes read from a tier for callers, and verified: whole chunks. What came from memory is not in those of the disk.", "tier"),
		hostBlocks:  desc("host_blocks_total", "Blocks and the cache in memory: attempted were looked for, verified came from it, fell-back went on to the disk, corrupt did not verify in memory and went on too; inserted, evicted, shed (no room, or too large) and stale are those of the cache itself.", "outcome"),
		hostBytes:   desc("host_bytes", "Bytes that the cache in memory holds."),
		hostLimit:   desc("host_bytes_limit", "Most bytes that the cache in memory may hold; 0: there is none."),
		hostEntries: desc("host_entries", "Blocks that the cache in memory holds."),
		hostLent:    desc("host_lent_bytes", "Bytes of the cache in memory that readers hold."),
		pathReads:   desc("path_reads_total", "Reads handed to each way of reading.", "path"),
		demoted:     desc("path_demoted", "1: the way of reading returned wrong bytes and is not used any more.", "path"),
	}
}

func (d tierDescs) describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{d.verified, d.hostBlocks, d.hostBytes, d.hostLimit, d.hostEntries, d.hostLent, d.pathReads, d.demoted} {
		out <- desc
	}
}

func (d tierDescs) collect(out chan<- prometheus.Metric, s *engine.Stats) {
	put := func(desc *prometheus.Desc, kind prometheus.ValueType, n int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, kind, float64(n), labels...)
	}
	h := &s.Host
	put(d.verified, counter, s.VerifiedBytes, "disk")
	put(d.verified, counter, h.VerifiedBytes, "host")
	for outcome, n := range map[string]int64{
		"attempted": h.Hits + h.Misses, "verified": h.Hits, "fell-back": h.Misses, "corrupt": h.Corrupt,
		"inserted": h.Inserted, "evicted": h.Evicted, "shed": h.Rejected, "stale": h.Stale,
	} {
		put(d.hostBlocks, counter, n, outcome)
	}
	put(d.hostBytes, gauge, h.Bytes)
	put(d.hostLimit, gauge, h.CapacityBytes)
	put(d.hostEntries, gauge, h.Blocks)
	put(d.hostLent, gauge, h.LentBytes)
	for _, p := range s.Paths {
		put(d.pathReads, counter, p.Reads, p.Name)
		wrong := int64(0)
		if p.Demoted != "" {
			wrong = 1
		}
		put(d.demoted, gauge, wrong, p.Name)
	}
}
