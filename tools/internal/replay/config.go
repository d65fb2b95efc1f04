package replay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/tools/internal/trace"
)

// ErrConfig: a Config that cannot be run.
var ErrConfig = errors.New("replay: invalid configuration")

// Config says what to replay and how. It travels to the child as JSON.
type Config struct {
	TracePath     string
	Dir           string // the store's directory
	BlockBytes    int64  // size of every block
	CapacityBytes int64  // of the store
	Requests      int    // only so many requests of the trace; 0 means all
	Concurrency   int    // requests under way at a time; 0 means 1
	Seed          uint64 // of the blocks' bytes
	// OnIncompatible is that of engine.Options.
	OnIncompatible engine.OnIncompatible

	// KillAfter, if positive, runs the store in a child process and kills it
	// in the first put that begins after so many requests were finished.
	KillAfter int
	// KillDelay is how long the put may run before the kill.
	KillDelay time.Duration
	// DropEvery drops one of so many acknowledged blocks while the child
	// runs, to see that they stay away. 0 means 97, negative none.
	DropEvery int

	// Progress is told after each request how many are finished.
	Progress func(done, total int) `json:"-"`
	// Open opens the store. It is called once, after a kill once more.
	Open func(context.Context, Config) (Store, error) `json:"-"`
	// Child is the command line that runs the child; see [RunChild].
	Child []string `json:"-"`
	// SampleEvery is the interval between two looks at the disk; 0 means 5 ms.
	SampleEvery time.Duration `json:"-"`

	// TokensPerBlock is the trace's; set by Run.
	TokensPerBlock int
}

const (
	defaultDropEvery   = 97
	defaultSampleEvery = 5 * time.Millisecond
	maxConcurrency     = 256
	// maxBlockBytes is the format's bound, repeated here so that a wrong flag
	// is refused before anything is made.
	maxBlockBytes = 64 << 20
)

// withTrace checks c against its trace, fills in defaults and returns the
// part of the trace that is to be replayed.
func (c Config) withTrace(t *trace.Trace) (Config, *trace.Trace, error) {
	if c.BlockBytes < 1 || c.BlockBytes > maxBlockBytes {
		return c, nil, fmt.Errorf("%w: block size of %d bytes is outside 1..%d", ErrConfig, c.BlockBytes, maxBlockBytes)
	}
	if c.Requests < 0 || c.KillAfter < 0 || c.Concurrency < 0 || c.Concurrency > maxConcurrency {
		return c, nil, fmt.Errorf("%w: requests and kill-after must not be negative, concurrency must be 1..%d", ErrConfig, maxConcurrency)
	}
	t = t.Head(c.Requests)
	c.Requests = len(t.Requests)
	if c.KillAfter >= c.Requests && c.KillAfter > 0 {
		return c, nil, fmt.Errorf("%w: kill-after %d leaves nothing of %d requests to be killed in", ErrConfig, c.KillAfter, c.Requests)
	}
	c.TokensPerBlock = t.TokensPerBlock
	if c.Concurrency == 0 {
		c.Concurrency = 1
	}
	if c.DropEvery == 0 {
		c.DropEvery = defaultDropEvery
	}
	if c.SampleEvery == 0 {
		c.SampleEvery = defaultSampleEvery
	}
	if c.Progress == nil {
		c.Progress = func(int, int) {}
	}
	return c, t, nil
}

// batchBlocks is how many blocks go into one call.
func (c Config) batchBlocks() int {
	const most, bytes = 64, 4 << 20
	return int(max(1, min(most, bytes/c.BlockBytes)))
}
