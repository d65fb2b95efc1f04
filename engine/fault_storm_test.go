package engine

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/faults/faulttest"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

const (
	stormBlocks = 5 * stormCount
	stormSize   = 9000
)

// stormRig is a store whose reads of segments can be spoilt, and a clock.
type stormRig struct {
	t      *testing.T
	mem    *vfs.Mem
	spoil  atomic.Pointer[func(name string, off int64, p []byte)]
	clock  atomic.Int64 // nanoseconds
	blocks int
	o      Options
	s      *Store
	n      *Namespace
}

func newStormRig(t *testing.T, options func(vfs.FS) Options, blocks int) *stormRig {
	checkLeaks(t)
	r := &stormRig{t: t, mem: vfs.NewMem(), blocks: blocks}
	r.clock.Store(1_700_000_000e9)
	r.o = options(vfs.WithReadFilter(r.mem, func(name string, off int64, p []byte) {
		if fn := r.spoil.Load(); fn != nil && strings.HasSuffix(name, ".seg") {
			(*fn)(name, off, p)
		}
	}))
	r.o.private.now = r.now
	r.s = mustOpen(t, r.o)
	r.n = mustSpace(t, r.s)
	for id := range r.blocks {
		mustPut(t, r.n, blockOf(id, 0, stormSize))
	}
	mustFlush(t, r.s)
	return r
}

func (r *stormRig) now() time.Time { return time.Unix(0, r.clock.Load()) }

// spoilEverything is a path on which no read is right.
func spoilEverything(_ string, _ int64, p []byte) {
	for i := 0; i < len(p); i += 512 {
		p[i] ^= 0x40
	}
}

// getAll gets every block and counts the statuses.
func (r *stormRig) getAll(tally *faulttest.Tally) map[Status]int {
	r.t.Helper()
	seen := map[Status]int{}
	for id := range r.blocks {
		p, res := getBlock(r.t, r.n, id, stormSize)
		if res.Status == StatusOK && variantOf(id, p, 1) != 0 {
			tally.WrongBytes(int64(len(p)))
		}
		seen[res.Status]++
	}
	return seen
}

func (r *stormRig) wantHealth(want HealthState) {
	r.t.Helper()
	if h := r.s.Health(); h.State != want || want != HealthOK && len(h.Reasons) == 0 {
		r.t.Fatalf("health %+v, want %v", h, want)
	}
}

// TestFaultStorm is laws 1 and 5 on a path that is wrong for everything, a bad
// driver say. No more is quarantined than the rule allows, every get is a miss,
// tries fail as long as the path is bad; then a try that passes, an operator or
// a reopen brings every other block back, with the index and rebuilt.
func TestFaultStorm(t *testing.T) {
	tally := faulttest.New(t)
	for how, resume := range map[string]func(*stormRig){
		"a try": func(r *stormRig) {
			r.clock.Add(int64(stormTryMost))
			r.s.tryCalm(r.now())
		},
		"an operator": func(r *stormRig) { r.s.Resume() },
		"a reopen": func(r *stormRig) {
			mustClose(r.t, r.s)
			r.s = mustOpen(r.t, r.o)
			r.n = mustSpace(r.t, r.s)
		},
	} {
		t.Run(how, func(t *testing.T) {
			fault := tally.Try("bad bytes for everything, then " + how)
			r := newStormRig(t, testOptions, stormBlocks)
			spoil := func(name string, off int64, p []byte) { fault.Fire(); spoilEverything(name, off, p) }
			r.spoil.Store(&spoil)
			seen := r.getAll(tally)
			if seen[StatusCorrupt] != stormCount+1 || seen[StatusMiss] != stormBlocks-stormCount-1 {
				t.Errorf("statuses %v", seen)
			}
			r.wantHealth(HealthAllMiss)
			if len(eventsOf(r.s, EventQuarantineStorm)) == 0 {
				t.Error("no event tells of the storm")
			}
			if res := putOne(r.n, blockOf(900, 0, stormSize)); res.Status != StatusShed {
				t.Errorf("put in a storm: %v %v", res.Status, res.Err)
			}
			for range 5 {
				r.clock.Add(int64(stormTryMost))
				r.s.tryCalm(r.now())
			}
			r.wantHealth(HealthAllMiss)
			if got := r.s.Stats().Quarantined; got != stormCount {
				t.Fatalf("%d blocks quarantined, want %d", got, stormCount)
			}
			r.spoil.Store(nil)
			resume(r)
			r.wantHealth(HealthOK)
			r.keptAll(tally)
			mustPut(t, r.n, blockOf(901, 0, stormSize))
			mustClose(t, r.s)
			loseIndex(t, r.mem)
			r.s = mustOpen(t, r.o)
			r.n = mustSpace(t, r.s)
			r.keptAll(tally)
			mustClose(t, r.s)
			if !t.Failed() {
				fault.Survive()
			}
		})
	}
}

// keptAll: all but what was quarantined before the storm was one is served.
func (r *stormRig) keptAll(tally *faulttest.Tally) {
	r.t.Helper()
	if seen := r.getAll(tally); seen[StatusOK] != stormBlocks-stormCount {
		r.t.Errorf("statuses afterwards: %v", seen)
	}
}

// TestFaultStormEndsByItself: the store's own goroutine tries, with nobody's
// help.
func TestFaultStormEndsByItself(t *testing.T) {
	tally := faulttest.New(t)
	fault := tally.Try("bad bytes for everything")
	r := newStormRig(t, liveOptions, stormBlocks)
	spoil := func(name string, off int64, p []byte) { fault.Fire(); spoilEverything(name, off, p) }
	r.spoil.Store(&spoil)
	r.getAll(tally)
	r.wantHealth(HealthAllMiss)
	r.spoil.Store(nil)
	eventually(t, "a try has passed", func() bool {
		r.clock.Add(int64(stormTryFirst))
		return r.s.Health().State == HealthOK
	})
	r.keptAll(tally)
	mustClose(t, r.s)
	fault.Survive()
}

// TestFaultStormOfRot: so many blocks are rotten in truth that it looks like a
// storm. Others verify, so the store goes on and takes the rotten ones out, a
// few at a time; no other is lost.
func TestFaultStormOfRot(t *testing.T) {
	tally := faulttest.New(t)
	r := newStormRig(t, func(fs vfs.FS) Options {
		o := testOptions(fs)
		o.CapacityBytes = 16 * mib
		return o
	}, 400)
	const rotten = 2 * stormCount
	var places []disk.Address
	for id := range rotten {
		places = append(places, entryOf(t, r.s, r.n, id).Address)
	}
	fault := tally.Try("16 blocks rotten")
	rot := func(name string, off int64, p []byte) { // a bit of each header, wherever a read brings it
		for _, at := range places {
			if i := at.Offset() + 100 - off; name == disk.SegmentName(at.Segment) && i >= 0 && i < int64(len(p)) {
				p[i] ^= 1
				fault.Fire()
			}
		}
	}
	r.spoil.Store(&rot)
	storms := 0
	for range 200 { // a try may come by another rotten block
		seen := r.getAll(tally)
		if r.s.Health().State == HealthOK && seen[StatusOK] == r.blocks-rotten {
			break
		}
		if r.s.Health().State == HealthAllMiss {
			storms++
		}
		r.clock.Add(int64(stormTryMost))
		r.s.tryCalm(r.now())
	}
	r.wantHealth(HealthOK)
	if got := r.s.Stats().Quarantined; got != rotten || storms == 0 {
		t.Errorf("%d blocks quarantined in %d storms", got, storms)
	}
	if seen := r.getAll(tally); seen[StatusOK] != r.blocks-rotten {
		t.Errorf("statuses %v", seen)
	}
	mustClose(t, r.s)
	if !t.Failed() {
		fault.Survive()
	}
}

// TestFaultBadMemory: bytes are wrong in the store's own buffers, now here and
// now there, as of a bad DIMM. Reading again settles it: every block is served,
// none is quarantined.
func TestFaultBadMemory(t *testing.T) {
	tally := faulttest.New(t)
	r := newStormRig(t, testOptions, stormBlocks)
	fault := tally.Try("every first read of a place has a wrong bit")
	var mu sync.Mutex
	met := map[string]bool{}
	spoil := func(name string, off int64, p []byte) {
		mu.Lock()
		defer mu.Unlock()
		if place := fmt.Sprint(name, off, len(p)); !met[place] {
			met[place] = true
			p[len(p)/2] ^= 8
			fault.Fire()
		}
	}
	r.spoil.Store(&spoil)
	seen := r.getAll(tally)
	if seen[StatusOK] != stormBlocks {
		t.Errorf("statuses %v", seen)
	}
	st := r.s.Stats()
	if st.Quarantined != 0 || st.RereadsSaved == 0 {
		t.Errorf("%d quarantined, %d reads saved by another", st.Quarantined, st.RereadsSaved)
	}
	r.wantHealth(HealthOK)
	mustClose(t, r.s)
	if !t.Failed() {
		fault.Survive()
	}
}

// TestStormGuard: both limits, the window, and what counts after a storm.
func TestStormGuard(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	var g stormGuard
	for i := range stormCount {
		if !g.allow(now, stormCounts{}, index.Entry{}) {
			t.Fatalf("refused quarantine %d", i)
		}
	}
	if !g.allow(now.Add(stormWindow), stormCounts{}, index.Entry{}) {
		t.Error("what lies before the window counts")
	}
	g.end(stormCounts{})
	for i := range stormCount + 1 {
		if got := g.allow(now, stormCounts{}, index.Entry{}); got != (i < stormCount) {
			t.Errorf("quarantine %d: %v", i, got)
		}
	}
	if _, due := g.isDue(now.Add(stormTryFirst - 1)); due {
		t.Error("a try too early")
	}
	if suspects, due := g.isDue(now.Add(stormTryFirst)); !due || len(suspects) != stormCount+1 {
		t.Errorf("no try when it is due: %d suspects", len(suspects))
	}
	if _, due := g.isDue(now.Add(2 * stormTryFirst)); due {
		t.Error("a second try at once")
	}
	many := stormCounts{quarantined: 20, reads: 20000}
	g.end(stormCounts{})
	if g.allow(now, many, index.Entry{}) {
		t.Error("more than 0.1 % of reads")
	}
	g.end(many)
	if !g.allow(now, stormCounts{quarantined: 20, reads: 30000}, index.Entry{}) {
		t.Error("what was before the storm counts after it")
	}
}
