package bench

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sealstone/sealstone/tools/internal/replay"
)

// ErrConfig: a Config that cannot be run.
var ErrConfig = errors.New("bench: invalid configuration")

// The workloads.
const (
	Offload = "offload"
	Onboard = "onboard"
	Match   = "match"
)

// Workloads are all workloads in the order in which they are run.
var Workloads = []string{Offload, Onboard, Match}

// Config says what to measure.
type Config struct {
	Workloads   []string // nil means all
	BlockBytes  int64
	BatchBlocks int // blocks of one call; hashes of one match
	Bytes       int64
	Concurrency int // calls under way at a time
	Rounds      int
	// Progress is told how many bytes were moved, or matches made, of how
	// many, over all workloads.
	Progress func(done, total int64)
}

func (c Config) withDefaults() (Config, error) {
	if len(c.Workloads) == 0 {
		c.Workloads = Workloads
	}
	for _, w := range c.Workloads {
		if !slices.Contains(Workloads, w) {
			return c, fmt.Errorf("%w: no workload %q; there are %v", ErrConfig, w, Workloads)
		}
	}
	if c.Rounds < 1 || c.Concurrency < 1 || c.BatchBlocks < 1 || c.BlockBytes < stampBytes {
		return c, fmt.Errorf("%w: rounds, concurrency and batch must be 1 or more, blocks %d bytes or more", ErrConfig, stampBytes)
	}
	if c.Bytes < c.BlockBytes {
		return c, fmt.Errorf("%w: %d bytes hold no block of %d", ErrConfig, c.Bytes, c.BlockBytes)
	}
	if c.Progress == nil {
		c.Progress = func(int64, int64) {}
	}
	return c, nil
}

// blocks is how many blocks one round moves: whole batches.
func (c Config) blocks() int {
	batches := max(1, int(c.Bytes/c.BlockBytes)/c.BatchBlocks)
	return batches * c.BatchBlocks
}

// Report is what was measured.
type Report struct {
	BlockBytes  int64    `json:"block_size_bytes"`
	BatchBlocks int      `json:"batch_blocks"`
	Concurrency int      `json:"concurrency"`
	Rounds      int      `json:"rounds"`
	RoundBytes  int64    `json:"round_bytes"`
	Results     []Result `json:"results"`
}

// Result is one workload; all figures are medians over the rounds.
type Result struct {
	Workload string `json:"workload"`
	// GiBPerSecond and CPUSecondsPerGiB are 0 for match, which moves nothing.
	GiBPerSecond     float64 `json:"gib_per_s"`
	CPUSecondsPerGiB float64 `json:"cpu_s_per_gib"`
	CallsPerSecond   float64 `json:"calls_per_s"`
	P50US            float64 `json:"p50_us"` // of a call
	P99US            float64 `json:"p99_us"`
	// Failed are blocks, over all rounds, that were not answered with OK; for
	// match, blocks that were not found. Wrong are blocks with wrong bytes.
	Failed   int64            `json:"failed"`
	Wrong    int64            `json:"wrong"`
	Statuses map[string]int64 `json:"statuses"`
}

// store is what is measured; the replay's interface has all that it takes.
type store = replay.Store
