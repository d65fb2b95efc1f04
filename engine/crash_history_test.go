package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
)

// modelOptions make segments so small that a few blocks fill one.
func modelOptions(fs vfs.FS) Options {
	o := testOptions(fs)
	o.MaxBlockBytes, o.SegmentBytes, o.CapacityBytes = 16*kib, 96*kib, 4*mib
	o.private.memTableBytes = 64 * kib
	return o
}

// crashPlan is one crash of a random history.
type crashPlan struct {
	at        uint64 // mutating operation before which it happens
	options   vfs.CrashOptions
	loseIndex bool
	loseLog   bool
}

func (p crashPlan) String() string {
	kind := "power cut"
	if p.options.KeepAll {
		kind = "kill"
	}
	if p.options.KeepUnsynced {
		kind = "kill that leaves the page cache"
	}
	return fmt.Sprintf("%s before operation %d (keep bytes %.1f names %.1f torn %d, index lost %v, log lost %v)",
		kind, p.at, p.options.KeepBytes, p.options.KeepNames, p.options.TornSectorBytes, p.loseIndex, p.loseLog)
}

func randomCrash(rng *rand.Rand) crashPlan {
	keep := []float64{0, 0.5, 1}
	lifetime := []int{60, 150, 500}[rng.IntN(3)] // Open alone takes some 30
	p := crashPlan{at: 1 + uint64(rng.IntN(lifetime)), options: vfs.CrashOptions{
		Seed: rng.Uint64(), KeepBytes: keep[rng.IntN(3)], KeepNames: keep[rng.IntN(3)],
		TornSectorBytes: []int{0, 512, 4096}[rng.IntN(3)], KeepAll: rng.IntN(3) == 0,
	}}
	p.options.KeepUnsynced = p.options.KeepAll && rng.IntN(2) == 0
	switch rng.IntN(8) {
	case 0:
		p.loseIndex = true
	case 1:
		p.loseLog = true
	}
	return p
}

// crashed is a file system as a crash left it, and what may be found in it.
type crashed struct {
	fs  *vfs.Mem
	m   *crashModel
	log []string
}

// runUntilCrash opens a store, checks it, and does random operations; the
// crash comes before its planned operation wherever that is: in Open, in a
// call, in the index's background work. The store that lived on is closed.
func runUntilCrash(t *testing.T, rng *rand.Rand, mem *vfs.Mem, m *crashModel, plan crashPlan, lostLog bool, where string) crashed {
	t.Helper()
	var out crashed
	var mu sync.Mutex
	hooked := vfs.WithHook(mem, func(op vfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if op.Mutates() && op.Index >= plan.at && out.fs == nil {
			out.m = m.snapshot(plan.options)
			out.fs = mem.CrashClone(plan.options)
		}
		return nil
	})
	isCrashed := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return out.fs != nil
	}
	o := modelOptions(hooked)
	o.MoveShare = []float64{0.25, 0.5, 1}[rng.IntN(3)]
	s, err := Open("mem", o)
	if err != nil {
		t.Fatalf("%s: open: %v", where, err)
	}
	d := &driver{t: t, rng: rng, m: m, s: s, n: mustSpace(t, s)}
	m.check(t, s, d.n, lostLog, where)
	for !isCrashed() {
		d.step()
	}
	mustClose(t, s)
	lose(t, out.fs, plan)
	out.log = d.log
	return out
}

// checkAside opens copies of what a crash left, with index or log lost too:
// what is found then must be right as well.
func checkAside(t *testing.T, left crashed, plan crashPlan, where string) {
	t.Helper()
	for _, p := range []crashPlan{{loseIndex: true}, {loseLog: true}, {loseIndex: true, loseLog: true}} {
		clone := left.fs.CrashClone(vfs.CrashOptions{KeepAll: true})
		lose(t, clone, p)
		s := mustOpen(t, modelOptions(clone))
		lostLog := plan.loseLog || p.loseLog
		left.m.snapshot(vfs.CrashOptions{KeepAll: true}).check(t, s, mustSpace(t, s), lostLog,
			fmt.Sprintf("%s, then index lost %v, log lost %v", where, p.loseIndex, p.loseLog))
		mustClose(t, s)
	}
}

func lose(t *testing.T, fs *vfs.Mem, p crashPlan) {
	t.Helper()
	for dir, gone := range map[string]bool{indexDir: p.loseIndex, logDir: p.loseLog} {
		if gone {
			if err := errors.Join(fs.RemoveAll(dir), fs.SyncDir(".")); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestLaw3CrashModel drives random histories through several crashes each.
// Set SEALSTONE_SEED to replay one, SEALSTONE_FULL for ten thousand.
func TestLaw3CrashModel(t *testing.T) {
	seeds := seedsToRun(t, 150, 10_000)
	for _, seed := range seeds {
		crashHistory(t, seed)
	}
	t.Logf("%d histories from seed %d on", len(seeds), seeds[0])
}

// TestLaw3CrashModelCompressed: each life of a store writes with another codec,
// or none, and shares what the lives before it wrote.
func TestLaw3CrashModelCompressed(t *testing.T) {
	seeds := seedsToRun(t, 50, 5_000)
	for _, seed := range seeds {
		squeezed(t, CompressionS2, CompressionOff, CompressionZstd)
		crashHistory(t, seed)
	}
	t.Logf("%d histories from seed %d on", len(seeds), seeds[0])
}

func crashHistory(t *testing.T, seed uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	state := crashed{fs: vfs.NewMem(), m: newModel(modelKeys)}
	lostLog := false
	var log []string
	defer func() {
		if t.Failed() {
			t.Logf("seed %d (SEALSTONE_SEED=%d replays it):", seed, seed)
			for _, l := range log {
				t.Log(l)
			}
		}
	}()
	for life := range 5 {
		plan := randomCrash(rng)
		log = append(log, fmt.Sprintf("life %d ends with a %s", life, plan))
		state = runUntilCrash(t, rng, state.fs, state.m, plan, lostLog, fmt.Sprintf("seed %d life %d", seed, life))
		lostLog = plan.loseLog
		log = append(log, state.log...)
		checkAside(t, state, plan, fmt.Sprintf("seed %d after life %d", seed, life))
	}
}

// crashTwice runs a fixed history up to a crash, then crashes the Open that
// follows before each step-th of its operations.
func crashTwice(t *testing.T, mode int, plan crashPlan, step uint64) {
	t.Helper()
	const seed = 7
	where := fmt.Sprintf("mode %d crash before operation %d", mode, plan.at)
	first := runUntilCrash(t, rand.New(rand.NewPCG(seed, 1)), vfs.NewMem(), newModel(modelKeys), plan, false, where)
	for j := 1 + plan.at%step; ; j += step {
		left := first.fs.CrashClone(vfs.CrashOptions{KeepAll: true})
		var clone *vfs.Mem
		o := modelOptions(vfs.WithHook(left, func(op vfs.Op) error {
			if op.Mutates() && op.Index == j {
				clone = left.CrashClone(plan.options)
			}
			return nil
		}))
		s := mustOpen(t, o)
		first.m.snapshot(vfs.CrashOptions{KeepAll: true}).check(t, s, mustSpace(t, s), false, where)
		mustClose(t, s)
		if clone == nil {
			return
		}
		s = mustOpen(t, modelOptions(clone))
		first.m.snapshot(vfs.CrashOptions{KeepAll: true}).check(t, s, mustSpace(t, s), false, fmt.Sprintf("%s, and Open before its operation %d", where, j))
		mustClose(t, s)
	}
}
