package engine

import (
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/sealstone/sealstone/internal/faults/faulttest"
	"github.com/sealstone/sealstone/internal/vfs"
)

// crashRun is a run of many seeds. Its parts run beside each other, each with
// a tally of its own; what kinds of harm came up is counted over all of them.
type crashRun struct {
	tally *faulttest.Tally
	kinds *crashKinds
}

// crashKinds counts, over a run, what crashes did and what they interrupted.
type crashKinds struct {
	mu     sync.Mutex
	bytes  vfs.CrashReport
	phases map[string]int
}

func (k *crashKinds) note(c crashed) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.bytes.Add(c.report)
	k.phases[c.phase]++
}

// runSeeds gives each seed to fn, on as many goroutines as there are
// processors. A kind of harm, or a phase, that no crash of a long run met fails
// the test: what did not happen was not survived.
func runSeeds(t *testing.T, seeds []uint64, fn func(*testing.T, uint64, *crashRun)) {
	t.Helper()
	kinds := &crashKinds{phases: map[string]int{}}
	t.Run("seeds", func(t *testing.T) {
		next := make(chan uint64, len(seeds))
		for _, seed := range seeds {
			next <- seed
		}
		close(next)
		for shard := range min(runtime.GOMAXPROCS(0), len(seeds)) {
			t.Run(fmt.Sprint(shard), func(t *testing.T) {
				t.Parallel()
				run := &crashRun{faulttest.New(t), kinds}
				for seed := range next {
					fn(t, seed, run)
				}
			})
		}
	})
	t.Logf("%d histories from seed %d on; %v; crashes came in %v", len(seeds), seeds[0], kinds.bytes, kinds.phases)
	if len(seeds) >= seedsThatMeetAll {
		kinds.wantAll(faulttest.New(t))
	}
}

// seedsThatMeetAll is how many histories are sure to meet the rarest kind of
// harm. With fewer the history of TestLaw3EveryOperation has to do.
const seedsThatMeetAll = 1000

// wantAll fails for each kind of harm, and each phase, that no crash met.
func (k *crashKinds) wantAll(y *faulttest.Tally) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, phase := range allPhases {
		f := y.Try("a crash in: " + phase)
		if k.phases[phase] > 0 {
			f.Fire()
		}
		f.Survive()
	}
	for _, kind := range k.bytes.Missing() {
		y.Try("a crash that leaves: " + kind)
	}
}

// TestLaw3CrashModel drives random histories through several crashes each.
// Set SEALSTONE_SEED to replay one.
func TestLaw3CrashModel(t *testing.T) {
	runSeeds(t, seedsToRun(t, 60, 10_000), crashHistory)
}
