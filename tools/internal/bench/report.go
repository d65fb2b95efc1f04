package bench

import (
	"encoding/json"
	"runtime"

	"github.com/sealstone/sealstone/tools/internal/fio"
)

// Report is what was measured. As JSON, a single workload's figures stand at
// the top level beside the setup; those of several are a list, results.
type Report struct {
	Setup
	Results []Result
}

// Setup is how it was measured.
type Setup struct {
	BlockBytes  int64   `json:"block_size_bytes"`
	BatchBlocks int     `json:"batch_blocks"`
	Concurrency int     `json:"concurrency"`
	Depth       int     `json:"depth"`
	Rounds      int     `json:"rounds"`
	RoundBytes  int64   `json:"round_bytes"`
	DurationS   float64 `json:"duration_s,omitempty"`
	PathAsked   string  `json:"path_asked"`
	CPUs        int     `json:"cpus"`
	FioVersion  string  `json:"fio_version,omitempty"`
	Cold        string  `json:"cold"` // how reads were made cold
}

func (c Config) setup(tool *fio.Tool) Setup {
	s := Setup{
		BlockBytes: c.BlockBytes, BatchBlocks: c.BatchBlocks, Concurrency: c.Concurrency, Depth: c.Depth,
		Rounds: c.Rounds, RoundBytes: int64(c.blocks()) * c.BlockBytes, DurationS: c.Duration.Seconds(),
		PathAsked: c.Path, CPUs: runtime.GOMAXPROCS(0), Cold: coldHow,
	}
	if tool != nil {
		s.FioVersion = tool.Version
	}
	return s
}

// MarshalJSON implements json.Marshaler.
func (r *Report) MarshalJSON() ([]byte, error) {
	if len(r.Results) == 1 {
		return json.Marshal(struct {
			Setup
			Result
		}{r.Setup, r.Results[0]})
	}
	return json.Marshal(struct {
		Setup
		Results []Result `json:"results"`
	}{r.Setup, r.Results})
}

// Result is one workload. Figures are medians over the rounds, with the
// lowest and the highest beside some.
type Result struct {
	Workload   string `json:"workload"`
	Path       string `json:"path"`
	PathReason string `json:"path_reason,omitempty"`

	// Rates and costs are 0 for match, which moves nothing.
	MiBPerSecond     float64 `json:"verified_mib_s"`
	MiBPerSecondMin  float64 `json:"verified_mib_s_min"`
	MiBPerSecondMax  float64 `json:"verified_mib_s_max"`
	CPUSecondsPerGiB float64 `json:"cpu_seconds_per_gib"`
	// OwnCPUSecondsPerGiB is what stamping and looking at stamps cost; it is
	// not in CPUSecondsPerGiB.
	OwnCPUSecondsPerGiB float64 `json:"bench_cpu_seconds_per_gib"`
	CallsPerSecond      float64 `json:"calls_per_s"`
	Percentiles                 // of a call
	Curve               Curve   `json:"curve"`

	// DepthMean are requests in flight while there was work to begin;
	// DepthSource says who counted them, DepthOfReader or DepthOfCalls.
	DepthMean   float64 `json:"depth_mean"`
	DepthSource string  `json:"depth_source"`

	// Failed are blocks, over all rounds, that were not answered with OK; for
	// match, blocks that were not found. Wrong are blocks with wrong bytes.
	Failed     int64            `json:"failed"`
	Wrong      int64            `json:"wrong"`
	FirstError string           `json:"first_error,omitempty"`
	Statuses   map[string]int64 `json:"statuses"`

	*Beside
	Latency    *Latency `json:"latency,omitempty"`
	RoundRates []Round  `json:"round_rates"`
	Notes      []string `json:"notes,omitempty"`
}

// Beside is what fio and the sums came to in the same run.
type Beside struct {
	FioMiBPerSecond    float64 `json:"fio_mib_s"`
	FioMiBPerSecondMin float64 `json:"fio_mib_s_min"`
	FioMiBPerSecondMax float64 `json:"fio_mib_s_max"`
	FioEngine          string  `json:"fio_engine"` // the best of a trial
	FioThreads         int     `json:"fio_threads"`
	// FioHugePages: fio's memory was on huge pages, as the store's is.
	FioHugePages  bool    `json:"fio_huge_pages"`
	RatioToFio    float64 `json:"ratio_to_fio"` // median of the rounds' ratios
	RatioToFioMin float64 `json:"ratio_to_fio_min"`
	RatioToFioMax float64 `json:"ratio_to_fio_max"`

	// The figures of the engine that the store's path corresponds to.
	FioSameEngine       string  `json:"fio_same_engine"`
	FioSameMiBPerSecond float64 `json:"fio_same_mib_s"`
	FioCPUSecondsPerGiB float64 `json:"fio_cpu_seconds_per_gib"`
	FioCPUBestEngine    float64 `json:"fio_best_cpu_seconds_per_gib"`

	HashGiBPerSecond     float64 `json:"hash_gib_s"` // of all processors together
	HashCPUSecondsPerGiB float64 `json:"hash_cpu_seconds_per_gib"`
	// RooflineMiBPerSecond is 1 / (1/fio + 1/hash): bytes that are first moved
	// and then summed, neither beside the other.
	RooflineMiBPerSecond float64 `json:"roofline_mib_s"`
	RatioToRoofline      float64 `json:"ratio_to_roofline"`
	// CPURatio is the processor time over that of fio's same engine and the
	// sums together.
	CPURatio float64 `json:"cpu_ratio_to_fio_and_hash"`
}

// Round is one round, for plots.
type Round struct {
	MiBPerSecond    float64 `json:"verified_mib_s"`
	FioMiBPerSecond float64 `json:"fio_mib_s,omitempty"`
}
