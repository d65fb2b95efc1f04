package bench

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sealstone/sealstone/tools/internal/stamp"
)

// ErrConfig: a Config that cannot be run.
var ErrConfig = errors.New("bench: invalid configuration")

// PathAuto leaves the choice of the I/O path to the store.
const PathAuto = "auto"

// Bounds and defaults of a Config.
const (
	// DepthMax is the most requests in flight that may be asked for: the
	// depth of the store's readers.
	DepthMax       = 64
	defaultBatch   = 64
	defaultRounds  = 5
	concurrencyMax = 256
	roundsMax      = 1000
	bufferBytesMax = 1 << 30 // of one call: the engine's bound on a buffer
	rangePlanes    = 32      // of blocks of the workload ranges
	rangeParts     = 8       // one of so many planes is got
	matchHashes    = 1000    // of one match
)

// Config says what to measure. The zero value of a field means its default.
type Config struct {
	// Dir is a directory that exists; stores and files are made and removed in it.
	Dir        string
	Workloads  []string // default: offload, onboard, match
	BlockBytes int64    // required
	Bytes      int64    // of a round; required
	// BatchBlocks are the blocks of one call; default 64.
	BatchBlocks int
	// Depth is how many requests are to be in flight; default BatchBlocks, at
	// most DepthMax. It is also fio's.
	Depth int
	// Concurrency is the number of calls at a time. The default is one more
	// than makes the depth, so that it does not sink whenever a call ends.
	Concurrency int
	Rounds      int // default 5
	// Duration ends a round; reads begin anew when all blocks were read
	// before, puts stop at Bytes. 0 moves Bytes once.
	Duration time.Duration
	// Planes of a block; default 1, and 32 for ranges.
	Planes        int
	Path          string // default PathAuto
	Bounce        bool   // gets by way of a buffer of the store
	CapacityBytes int64  // of a store; default: room for what is put
	CompareFio    bool
	// Latency also measures gets of one block, one at a time.
	Latency  bool
	Progress func(Progress)
	// Open makes a store; default [OpenEngine].
	Open Opener

	judgeFrom time.Duration    // rounds shorter than this are too short to judge their depth
	now       func() time.Time // the clock that ends a round after Duration
}

// defaultJudgeFrom is long against the start of threads and of a device.
const defaultJudgeFrom = 100 * time.Millisecond

// Progress is how far a run is.
type Progress struct {
	What        string // the workload, or what is prepared for it
	Round       int    // from 1; 0 while preparing
	Rounds      int
	Done, Total int64 // blocks, or hashes, of the round
}

func (c Config) withDefaults() (Config, error) {
	if len(c.Workloads) == 0 {
		c.Workloads = []string{Offload, Onboard, Match}
	}
	for _, w := range c.Workloads {
		if workloads[w].call == nil {
			return c, fmt.Errorf("%w: no workload %q; there are %v", ErrConfig, w, Workloads)
		}
	}
	setDefault(&c.Rounds, defaultRounds)
	setDefault(&c.BatchBlocks, defaultBatch)
	setDefault(&c.Path, PathAuto)
	setDefault(&c.judgeFrom, defaultJudgeFrom)
	if c.now == nil {
		c.now = time.Now
	}
	if c.Progress == nil {
		c.Progress = func(Progress) {}
	}
	if c.Open == nil {
		c.Open = OpenEngine
	}
	if err := c.checkSizes(); err != nil {
		return c, err
	}
	return c.withDepth()
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

func (c Config) checkSizes() error {
	switch {
	case c.Dir == "":
		return fmt.Errorf("%w: no directory", ErrConfig)
	case c.Rounds < 1 || c.Rounds > roundsMax:
		return fmt.Errorf("%w: rounds must be 1 to %d, not %d", ErrConfig, roundsMax, c.Rounds)
	case c.BlockBytes < stamp.Bytes:
		return fmt.Errorf("%w: blocks of %d bytes; a stamp needs %d bytes or more", ErrConfig, c.BlockBytes, stamp.Bytes)
	case c.BatchBlocks < 1 || int64(c.BatchBlocks) > bufferBytesMax/c.BlockBytes:
		return fmt.Errorf("%w: a batch must be 1 block or more and 1 GiB or less", ErrConfig)
	case c.Bytes < c.BlockBytes:
		return fmt.Errorf("%w: %d bytes hold no block of %d", ErrConfig, c.Bytes, c.BlockBytes)
	case c.Duration < 0 || c.CapacityBytes < 0:
		return fmt.Errorf("%w: duration and capacity must not be negative", ErrConfig)
	}
	for _, w := range c.Workloads {
		if n := int64(c.planes(w)); c.Planes < 0 || n > 256 || c.BlockBytes/n < stamp.Bytes {
			return fmt.Errorf("%w: blocks of %d bytes cannot have %d planes for %s (at most 256, %d bytes each or more)",
				ErrConfig, c.BlockBytes, n, w, stamp.Bytes)
		}
	}
	return nil
}

func (c Config) withDepth() (Config, error) {
	switch {
	case c.Depth < 0 || c.Depth > DepthMax:
		return c, fmt.Errorf("%w: a depth of %d; the readers allow 1 to %d", ErrConfig, c.Depth, DepthMax)
	case c.Concurrency < 0 || c.Concurrency > concurrencyMax:
		return c, fmt.Errorf("%w: concurrency must be 1 to %d, not %d", ErrConfig, concurrencyMax, c.Concurrency)
	}
	if c.Depth == 0 {
		c.Depth = min(c.BatchBlocks*max(c.Concurrency-1, 1), DepthMax)
	}
	if c.Concurrency == 0 {
		c.Concurrency = (c.Depth+c.BatchBlocks-1)/c.BatchBlocks + 1
	}
	if c.Concurrency*c.BatchBlocks < c.Depth {
		return c, fmt.Errorf("%w: %d calls of %d blocks cannot make a depth of %d; raise concurrency or batch",
			ErrConfig, c.Concurrency, c.BatchBlocks, c.Depth)
	}
	return c, nil
}

// planes of the blocks of a workload.
func (c Config) planes(workload string) int {
	switch {
	case c.Planes > 0:
		return c.Planes
	case workload == Ranges:
		return rangePlanes
	}
	return 1
}

// blocks is how many blocks one round moves: whole batches.
func (c Config) blocks() int {
	batches := max(1, int(c.Bytes/c.BlockBytes)/c.BatchBlocks)
	return batches * c.BatchBlocks
}

// depthShareMin is the share of the depth asked for that must have been there.
const depthShareMin = 0.8

// depthWanted is the mean depth below which a run is no measurement. A single
// call at a time has no request to start when its own run out, so on average
// half of them are in flight.
func (c Config) depthWanted() float64 {
	depth := float64(min(c.Depth, c.blocks()))
	if c.Concurrency == 1 {
		depth = (depth + 1) / 2
	}
	return depthShareMin * depth
}

// hasWorkload says whether one of the names is to be run.
func (c Config) hasWorkload(names ...string) bool {
	return slices.ContainsFunc(c.Workloads, func(w string) bool { return slices.Contains(names, w) })
}
