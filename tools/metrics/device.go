package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sealstone/sealstone/engine"
)

// deviceDescs are the figures of the paths to GPUs. Attempted blocks come to be
// verified, corrupt or failed; those that fell back came through the host after
// their path had not brought them.
type deviceDescs struct{ blocks, bytes, puts *prometheus.Desc }

func newDeviceDescs(desc func(name, help string, variable ...string) *prometheus.Desc) deviceDescs {
	return deviceDescs{
		blocks: desc("device_blocks_total", "Blocks read to GPUs, by path and what came of them: attempted are all, fell-back came through the host after this path failed.", "path", "outcome"),
		bytes:  desc("device_bytes_total", "Bytes asked for of blocks read to GPUs, by path and what came of them.", "path", "outcome"),
		puts:   desc("device_put_blocks_total", "Blocks put from GPUs: copied to the host or failed; sealed had their sums taken on the GPU.", "outcome"),
	}
}

func (d deviceDescs) describe(out chan<- *prometheus.Desc) {
	out <- d.blocks
	out <- d.bytes
	out <- d.puts
}

func (d deviceDescs) collect(out chan<- prometheus.Metric, s *engine.Stats) {
	put := func(desc *prometheus.Desc, n int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), labels...)
	}
	for path, p := range map[engine.DevicePath]*engine.DevicePathStats{engine.PathHostBounce: &s.HostBounce, engine.PathCuFile: &s.CuFile} {
		name := path.String()
		put(d.blocks, p.Attempted, name, "attempted")
		put(d.blocks, p.Verified, name, "verified")
		put(d.blocks, p.Corrupt, name, "corrupt")
		put(d.blocks, p.Failed, name, "failed")
		put(d.blocks, p.FellBack, name, "fell-back")
		put(d.bytes, p.AttemptedBytes, name, "attempted")
		put(d.bytes, p.VerifiedBytes, name, "verified")
		put(d.bytes, p.FellBackBytes, name, "fell-back")
	}
	put(d.puts, s.DevicePut.Copied, "copied")
	put(d.puts, s.DevicePut.Failed, "failed")
	put(d.puts, s.DevicePut.Sealed, "sealed")
}
