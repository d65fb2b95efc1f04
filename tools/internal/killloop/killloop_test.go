package killloop

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/internal/faults/faulttest"
	"go.uber.org/goleak"
)

const childVariable = "SEALSTONE_KILLLOOP_CHILD"

// TestMain is also the process that is killed.
func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		if err := RunChild(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func newRunner(t *testing.T, seed uint64, path engine.PathChoice, evict bool) *Runner {
	t.Helper()
	return &Runner{
		Command: []string{os.Args[0]}, Env: []string{childVariable + "=1"},
		Config: Config{Dir: filepath.Join(t.TempDir(), "store"), Path: path, Seed: seed, Evict: evict},
	}
}

// TestFaultKillLoop kills a process that puts, drops, gets, evicts and swaps
// epochs, on the file system of the temporary directory and past the page
// cache where that is possible. All that was acknowledged is found with its
// bytes, unless an eviction was asked for; what was dropped stays away.
func TestFaultKillLoop(t *testing.T) {
	loops := 15
	switch {
	case os.Getenv("SEALSTONE_FULL") != "":
		loops = 1000
	case testing.Short():
		loops = 3
	}
	tally := faulttest.New(t)
	shards := []struct {
		path  engine.PathChoice
		evict bool
	}{{engine.PathAuto, false}, {engine.PathAuto, true}, {engine.PathPread, false}}
	var mu sync.Mutex
	var sum Totals
	phases := map[Phase]int{}
	t.Cleanup(func() {
		t.Logf("%s; killed %v", sum, phases)
		if sum.Kills > 0 && (sum.Acknowledged == 0 || sum.Checked == 0) {
			t.Error("nothing was put, or nothing looked at: nothing was shown")
		}
	})
	for i, c := range shards {
		t.Run(fmt.Sprintf("%d %s evict=%v", i, c.path, c.evict), func(t *testing.T) {
			t.Parallel()
			r := newRunner(t, uint64(i)+1, c.path, c.evict)
			n := (loops + len(shards) - 1 - i) / len(shards)
			seen := killLoop(t, tally, r, n)
			mu.Lock()
			defer mu.Unlock()
			sum = sum.plus(r.Totals())
			for p, n := range seen {
				phases[p] += n
			}
		})
	}
}

// killLoop kills n children. After two of three kills the store is looked at;
// after the third the next child has to open what the last one left.
func killLoop(t *testing.T, tally *faulttest.Tally, r *Runner, n int) map[Phase]int {
	phases := map[Phase]int{}
	var open []*faulttest.Fault
	for i := range n {
		f := tally.Try(fmt.Sprintf("kill -9 number %d of %s", i+1, t.Name()))
		phase, err := r.Kill(t.Context())
		if err != nil {
			t.Fatalf("kill %d: %v", i+1, err)
		}
		f.Fire()
		tally.Kills(1)
		phases[phase]++
		open = append(open, f)
		if i%3 == 1 && i+1 < n {
			continue
		}
		before := r.Totals()
		problems, err := r.Check(t.Context())
		if err != nil {
			t.Fatalf("kill %d %s: %v", i+1, phase, err)
		}
		now := r.Totals()
		tally.WrongBytes(now.Wrong - before.Wrong)
		if len(problems) > 0 || now.Defects() > 0 {
			t.Fatalf("kill %d %s: %q; %s", i+1, phase, problems, now)
		}
		for _, f := range open {
			f.Survive()
		}
		open = nil
	}
	return phases
}
