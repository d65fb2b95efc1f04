package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// modelOptions make segments so small that a few blocks fill one.
func modelOptions(fs vfs.FS) Options {
	o := testOptions(fs)
	o.MaxBlockBytes, o.SegmentBytes, o.CapacityBytes = 16*kib, 96*kib, 4*mib
	o.private.memTableBytes = 64 * kib
	// A life is short: what it finds out about its host is the same each time.
	o.private.probe, o.private.memoryLimit = memProbe(), -1
	o.ReadWorkers, o.HintBytes = 2, 1*mib
	return o
}

// memProbe is what a probe of a file system in memory comes to.
var memProbe = sync.OnceValue(func() *disk.ProbeReport {
	r, err := disk.Probe(context.Background(), disk.ProbeOptions{FS: vfs.NewMem(), Quick: true})
	if err != nil {
		panic(err)
	}
	return r
})

// crashPlan is one crash of a random history, and what fails before it.
type crashPlan struct {
	at        uint64 // mutating operation before which it happens
	options   vfs.CrashOptions
	loseIndex bool
	loseLog   bool
	fail      failPlan
}

func (p crashPlan) String() string {
	kind := "power cut"
	if p.options.KeepAll {
		kind = "kill"
	}
	if p.options.KeepUnsynced {
		kind = "kill that leaves the page cache"
	}
	return fmt.Sprintf("%s before operation %d (keep bytes %.1f names %.1f torn %d, index lost %v, log lost %v, failing %v)",
		kind, p.at, p.options.KeepBytes, p.options.KeepNames, p.options.TornSectorBytes, p.loseIndex, p.loseLog, p.fail)
}

func randomCrash(rng *rand.Rand) crashPlan {
	keep := []float64{0, 0.5, 0.5, 1}
	lifetime := []int{60, 150, 500}[rng.IntN(3)] // Open alone takes some 30
	p := crashPlan{at: 1 + uint64(rng.IntN(lifetime)), options: vfs.CrashOptions{
		Seed: rng.Uint64(), KeepBytes: keep[rng.IntN(4)], KeepNames: keep[rng.IntN(4)],
		TornSectorBytes: []int{0, 512, 512, 4096, 4096}[rng.IntN(5)], KeepAll: rng.IntN(4) == 0,
	}}
	p.options.KeepUnsynced = p.options.KeepAll && rng.IntN(2) == 0
	switch rng.IntN(8) {
	case 0:
		p.loseIndex = true
	case 1:
		p.loseLog = true
	}
	if rng.IntN(3) == 0 {
		p.fail = randomFailure(rng, lifetime)
	}
	return p
}

// crashed is a file system as a crash left it, and what may be found in it.
type crashed struct {
	fs     *vfs.Mem
	m      *crashModel
	log    []string
	report vfs.CrashReport
	phase  string // what the store was doing
	ops    uint64 // done in all its life
	// unchecked: it crashed before what it found was taken over.
	unchecked bool
}

// runUntilCrash runs one life: it opens a store, checks it, and does steps;
// the crash comes before its planned operation wherever that is: in Open, in a
// call, in the index's background work. The store that lived on is closed.
func runUntilCrash(t *testing.T, rng *rand.Rand, start crashed, plan crashPlan, lostLog bool, where string, step func(*driver)) crashed {
	t.Helper()
	l := &life{mem: start.fs, m: start.m, plan: plan, left: plan.fail.count}
	d := &driver{t: t, rng: rng, m: start.m, life: l, where: where, lostLog: lostLog}
	d.moveShare = []float64{0.25, 0.5, 1}[rng.IntN(3)]
	l.hooked = vfs.WithHook(start.fs, l.hook)
	d.rebuilding = isLost(start.fs)
	for d.open(); !l.isCrashed(); {
		step(d)
	}
	d.end()
	out := l.out
	out.ops = l.ops
	out.log = d.log
	return out
}

// isLost: an Open of this tree begins with a rebuild.
func isLost(fs *vfs.Mem) bool {
	if _, err := fs.Stat("STORE"); err != nil {
		return false // there is no store yet
	}
	for _, dir := range []string{indexDir, logDir} {
		if _, err := fs.Stat(dir); err != nil {
			return true
		}
	}
	return false
}

// checkAside opens copies of what a crash left, with index or log lost too:
// what is found then must be right as well.
func checkAside(t *testing.T, left crashed, plan crashPlan, where string, losses ...crashPlan) {
	t.Helper()
	for _, p := range losses {
		clone := left.fs.CrashClone(vfs.CrashOptions{KeepAll: true})
		lose(t, clone, p)
		s := mustOpen(t, modelOptions(clone))
		lostLog := plan.loseLog || p.loseLog
		left.m.snapshot(vfs.CrashOptions{KeepAll: true}).check(t, s, mustSpace(t, s), lostLog,
			fmt.Sprintf("%s, then index lost %v, log lost %v", where, p.loseIndex, p.loseLog))
		mustClose(t, s)
	}
}

// losses are the ways to lose what a rebuild makes anew.
var losses = []crashPlan{{loseIndex: true}, {loseLog: true}, {loseIndex: true, loseLog: true}}

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

// livesOfHistory is how often the store of one seed crashes.
const livesOfHistory = 4

func crashHistory(t *testing.T, seed uint64, run *crashRun) {
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
	for life := range livesOfHistory {
		plan := randomCrash(rng)
		where := fmt.Sprintf("seed %d life %d", seed, life)
		log = append(log, fmt.Sprintf("life %d ends with a %s", life, plan))
		fault := run.tally.Try(where + ": " + plan.String())
		state = runUntilCrash(t, rng, state, plan, lostLog, where, (*driver).step)
		fault.Fire()
		run.kinds.note(state)
		log = append(log, state.log...)
		where = fmt.Sprintf("seed %d after life %d", seed, life)
		auditWreck(t, rng, state, lostLog && state.unchecked, where)
		lose(t, state.fs, plan)
		lostLog = plan.loseLog || lostLog && state.unchecked
		if rng.IntN(2) == 0 {
			checkAside(t, state, plan, where, losses[rng.IntN(len(losses))])
		}
		fault.Survive()
	}
	run.tally.Seeds(1)
	run.tally.Settle()
}
