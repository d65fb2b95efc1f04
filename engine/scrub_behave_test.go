package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sealstone/sealstone/internal/faults/faulttest"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// TestScrubPacesReads: reads are spread over the whole cycle, and the last one
// is done in time.
func TestScrubPacesReads(t *testing.T) {
	c := newScrubClock()
	s, n := scrubbedStore(t, vfs.NewMem(), c, nil)
	defer mustClose(t, s)
	for id := 100; id < 180; id++ { // fourteen segments in all
		mustPut(t, n, blockOf(id, 0, scrubbedSize))
		if id%20 == 0 {
			mustFlushByHand(t, s)
		}
	}
	mustFlushByHand(t, s)
	var quarters [4]int64
	start, before := c.now(), int64(0)
	runScrub(t, s, c, func() bool {
		st := s.scrubStats()
		if st.Last.Number == 0 {
			quarters[min(3, int(4*c.now().Sub(start)/s.o.ScrubCycle))] += st.Total.Bytes - before
			before = st.Total.Bytes
		}
		return st.Last.Number == 1
	})
	total := s.scrubStats().Total.Bytes
	for i, n := range quarters {
		if n < total/8 || n > total*3/8 {
			t.Errorf("quarter %d: %d of %d bytes", i+1, n, total)
		}
	}
	if took := s.scrubStats().Last.End.Sub(start); took > s.o.ScrubCycle {
		t.Errorf("the cycle took %v", took)
	}
}

// TestScrubNeverIdle: a store that always has gets under way is scrubbed all the
// same, at first later than planned and then in time.
func TestScrubNeverIdle(t *testing.T) {
	c := newScrubClock()
	s, _ := scrubbedStore(t, vfs.NewMem(), c, nil)
	defer mustClose(t, s)
	s.paths.meter.add(1)
	defer s.paths.meter.add(-1)
	start := c.now()
	first := time.Time{}
	runScrub(t, s, c, func() bool {
		st := s.scrubStats()
		if first.IsZero() && st.Total.Bytes > 100_000 { // the blocks, behind header and footer
			first = c.now()
		}
		return st.Last.Number == 1
	})
	st := s.scrubStats()
	if late := first.Sub(start); late < s.o.ScrubCycle/scrubLag || st.YieldedTime < s.o.ScrubCycle/scrubLag/2 {
		t.Errorf("the first blocks were read after %v, it made way for %v", late, st.YieldedTime)
	}
	if took := st.Last.End.Sub(start); took > s.o.ScrubCycle+time.Minute || st.Last.Blocks != scrubbedBlocks {
		t.Errorf("the cycle took %v: %+v", took, st.Last)
	}
}

// TestScrubMakesWay: while a get is with the device the scrubber does not read,
// nor while the bytes of a put are.
func TestScrubMakesWay(t *testing.T) {
	checkLeaks(t)
	for _, kind := range []vfs.OpKind{vfs.OpRead, vfs.OpWrite} {
		t.Run(kind.String(), func(t *testing.T) {
			c := newScrubClock()
			fs := newStallFS(vfs.NewMem(), kind, "segments/")
			s, n := scrubbedStore(t, fs, c, nil)
			defer mustClose(t, s)
			fs.stall(t)
			wait := start(t, "a get or put on a stalled device", func() Status {
				if kind == vfs.OpWrite {
					return putOne(n, blockOf(500, 0, scrubbedSize)).Status
				}
				_, b := getParts(0, scrubbedSize)
				return n.Get(context.Background(), []GetBlock{b}, GetOptions{})[0].Status
			})
			eventually(t, "it is with the device", func() bool { return fs.stalled.Load() > 0 && s.isBusy() })
			seen := fs.seen.Load()
			yields := 0
			runScrub(t, s, c, func() bool {
				st := s.scrubStats()
				if st.State == ScrubYielding {
					yields++
				}
				return yields > 50
			})
			if st := s.scrubStats(); st.Total.Bytes != 0 || fs.seen.Load() != seen || st.YieldedTime == 0 {
				t.Errorf("%d bytes were read beside it", st.Total.Bytes)
			}
			fs.release()
			if st := wait(); st != StatusOK {
				t.Fatal(st)
			}
			eventually(t, "nothing is with the device", func() bool { return !s.isBusy() })
			if got := runCycle(t, s, c); got.Blocks < scrubbedBlocks || got.Bad != 0 {
				t.Errorf("afterwards: %+v", got)
			}
		})
	}
}

// TestScrubResumes: a cycle goes on where a run ended, killed or closed; each
// block is read once, but for what a kill had not written down.
func TestScrubResumes(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed %v", killed), func(t *testing.T) {
			c := newScrubClock()
			mem := vfs.NewMem()
			s, _ := scrubbedStore(t, mem, c, nil)
			lives := 1
			for s.scrubStats().Last.Number == 0 {
				before := s.scrubStats().Total.Blocks
				runScrub(t, s, c, func() bool {
					st := s.scrubStats()
					return st.Total.Blocks > before+5 || st.Last.Number > 0
				})
				if s.scrubStats().Last.Number > 0 {
					break
				}
				left := s.scrubStats()
				old := s
				if killed {
					mem = mem.CrashClone(vfs.CrashOptions{KeepAll: true})
				}
				mustClose(t, old)
				c.advance(time.Second)
				s = mustOpen(t, scrubOptionsFor(mem, c))
				s.scrub.o.pauseMax = s.o.ScrubCycle
				runScrub(t, s, c, func() bool { return true })
				if now := s.scrubStats(); now.Cycle.Number != 1 || now.Segment < left.Segment {
					t.Fatalf("it was at %+v and is at %+v", left, now)
				}
				lives++
			}
			defer mustClose(t, s)
			if got := s.scrubStats().Last; got.Blocks != scrubbedBlocks || lives < 3 {
				t.Errorf("%d blocks in %d lives", got.Blocks, lives)
			}
		})
	}
}

// TestScrubPowerCut: what a power cut leaves of SCRUB is a position or none.
func TestScrubPowerCut(t *testing.T) {
	c := newScrubClock()
	mem := vfs.NewMem()
	s, _ := scrubbedStore(t, mem, c, nil)
	defer mustClose(t, s)
	cuts := 0
	runScrub(t, s, c, func() bool {
		clone := mem.CrashClone(vfs.CrashOptions{})
		cuts++
		_, err := readScrub(clone, s.uuid, s.key)
		if err != nil && !vfs.IsNotExist(err) {
			t.Errorf("cut %d: %v", cuts, err)
		}
		return s.scrubStats().Last.Number == 2
	})
	if cuts < 10 {
		t.Errorf("%d cuts", cuts)
	}
}

// TestScrubClockSet: a clock that is set neither makes the scrubber hurry nor
// stand still, running or over a restart.
func TestScrubClockSet(t *testing.T) {
	for name, jump := range map[string]time.Duration{"back": -1000 * time.Hour, "ahead": 1000 * time.Hour} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restart %v", name, restart), func(t *testing.T) {
				c := newScrubClock()
				mem := vfs.NewMem()
				s, _ := scrubbedStore(t, mem, c, nil)
				runScrub(t, s, c, func() bool { return s.scrubStats().Total.Blocks > 3 })
				if restart {
					mustClose(t, s)
					s = mustOpen(t, scrubOptionsFor(mem, c))
					s.scrub.o.pauseMax = s.o.ScrubCycle
				}
				defer func() { mustClose(t, s) }()
				c.advance(jump)
				start := c.now()
				got := runCycle(t, s, c)
				took := got.End.Sub(start)
				// Some of the cycle was over, and an eighth of it is left at least.
				if took < s.o.ScrubCycle/scrubLag/2 || took > s.o.ScrubCycle || got.Blocks != scrubbedBlocks {
					t.Errorf("the rest took %v: %+v", took, got)
				}
			})
		}
	}
}

// rotAll flips a bit in each of the first blocks.
func rotAll(t *testing.T, fs vfs.FS, s *Store, n *Namespace, blocks int) {
	t.Helper()
	for id := range blocks {
		e := entryOf(t, s, n, id)
		flipByte(t, fs, disk.SegmentName(e.Address.Segment), e.Address.Offset()+disk.PageBytes+2)
	}
}

// TestFaultScrubSpot: where many blocks of one spot have rotted the scrubber
// takes them out one by one, so slowly that it is no storm: the store stays ok,
// and serves the rest.
func TestFaultScrubSpot(t *testing.T) {
	tally := faulttest.New(t)
	c := newScrubClock()
	mem := vfs.NewMem()
	s, n := scrubbedStore(t, mem, c, nil)
	defer mustClose(t, s)
	f := tally.Try("a flip in each of 15 neighbours")
	const rotten = 15
	rotAll(t, mem, s, n, rotten)
	f.Fire()
	start := c.now()
	r := mustScrub(t, s)
	if r.Bad != rotten || r.Blocks != scrubbedBlocks-rotten || s.Stats().Quarantined != rotten || s.Health().State != HealthOK {
		t.Errorf("%v, %d quarantined, %v", r.ScrubTotals, s.Stats().Quarantined, s.Health())
	}
	if took := c.now().Sub(start); took < (rotten-1)*scrubBadPause {
		t.Errorf("it took %v", took)
	}
	for id := range scrubbedBlocks {
		if id < rotten {
			wantStatus(t, n, id, scrubbedSize, StatusCorrupt)
		} else {
			wantBlock(t, n, id, 0, scrubbedSize)
		}
	}
	f.Survive()
}

// TestFaultScrubAllBad: when everything looks bad a pass takes out so many and
// no more, and tells of the rest.
func TestFaultScrubAllBad(t *testing.T) {
	tally := faulttest.New(t)
	c := newScrubClock()
	mem := vfs.NewMem()
	s := mustOpen(t, scrubOptionsFor(mem, c))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	const blocks = scrubBadMax + 20
	for id := range blocks {
		mustPut(t, n, blockOf(id, 0, 9))
	}
	mustFlushByHand(t, s)
	f := tally.Try("a flip in every block")
	rotAll(t, mem, s, n, blocks)
	f.Fire()
	r := mustScrub(t, s)
	if r.Bad != blocks || s.Stats().Quarantined != scrubBadMax || s.Health().State != HealthOK {
		t.Errorf("%v, %d quarantined, %v", r.ScrubTotals, s.Stats().Quarantined, s.Health())
	}
	if len(r.Findings) != scrubFindingsMax || len(scrubLines(s)) != scrubFindingsMax {
		t.Errorf("%d findings, %d events", len(r.Findings), len(scrubLines(s)))
	}
	f.Survive()
}

// TestFaultScrubStorm: in a storm that gets have met the scrubber waits until
// somebody has looked, and goes on.
func TestFaultScrubStorm(t *testing.T) {
	tally := faulttest.New(t)
	c := newScrubClock()
	mem := vfs.NewMem()
	s, n := scrubbedStore(t, mem, c, nil)
	defer mustClose(t, s)
	f := tally.Try("a flip in each of 15 blocks, all asked for at once")
	const rotten = 15
	rotAll(t, mem, s, n, rotten)
	f.Fire()
	for id := range rotten {
		if _, r := getBlock(t, n, id, scrubbedSize); r.Status == StatusOK {
			t.Errorf("block %d: %v", id, r.Status)
		}
	}
	if s.Health().State != HealthAllMiss {
		t.Fatalf("%v", s.Health())
	}
	if r, err := s.ScrubNow(context.Background(), ScrubOptions{}); !errors.Is(err, ErrNotScrubbed) || r.Bytes != 0 {
		t.Errorf("%v, %v", r.ScrubTotals, err)
	}
	waits := 0
	runScrub(t, s, c, func() bool { waits++; return waits > 5 })
	if st := s.scrubStats(); st.State != ScrubPaused || st.Cycle.Bytes != 0 || st.Reason == "" {
		t.Fatalf("in the storm: %+v", st)
	}
	if _, err := mem.Stat(scrubFile); err == nil {
		t.Error("SCRUB was written by a store that is not ok")
	}
	c.advance(2 * stormWindow)
	s.Resume()
	before := s.Stats().Quarantined
	got := runCycle(t, s, c)
	if got.Bad != rotten-before || s.Stats().Quarantined != rotten || got.Blocks != scrubbedBlocks-rotten {
		t.Errorf("after the storm: %+v, %d of %d quarantined", got, s.Stats().Quarantined, rotten)
	}
	f.Survive()
}

// TestScrubEvicted: the segment that is being scrubbed goes away under it.
func TestScrubEvicted(t *testing.T) {
	c := newScrubClock()
	var s *Store
	evicted := false
	s, _ = scrubbedStore(t, vfs.NewMem(), c, func(o *Options) {
		o.private.points = func(point string) {
			if point == "scrub:read" && !evicted {
				evicted = true
				go s.syncAndApply()
				if ok, err := evictByHand(s); !ok || err != nil {
					t.Errorf("evict: %v %v", ok, err)
				}
			}
		}
	})
	defer mustClose(t, s)
	r := mustScrub(t, s)
	wantNoFinding(t, r)
	if !evicted || r.Blocks == 0 || r.Blocks >= scrubbedBlocks {
		t.Errorf("%v", r.ScrubTotals)
	}
	wantNoBuffers(t, s)
}

// evictByHand is EvictOnce of a store without goroutines of its own.
func evictByHand(s *Store) (bool, error) {
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				s.syncAndApply()
			}
		}
	}()
	return s.EvictOnce(context.Background())
}

// TestScrubMovedOrDropped: a block that was moved or dropped between the first
// look and the second is nobody's business any more.
func TestScrubMovedOrDropped(t *testing.T) {
	for _, how := range []string{"dropped", "dropped and put again"} {
		t.Run(how, func(t *testing.T) {
			c := newScrubClock()
			mem := vfs.NewMem()
			var s *Store
			var n *Namespace
			o := scrubOptionsFor(mem, c)
			o.private.noBackground = false
			o.SyncInterval = time.Millisecond
			o.ScrubCycle = -1
			asked := false
			o.private.points = func(point string) {
				if point != "scrub:again" || asked {
					return
				}
				asked = true
				mustDrop(t, n, 3)
				if how != "dropped" {
					mustPut(t, n, blockOf(3, 1, scrubbedSize))
				}
			}
			s = mustOpen(t, o)
			defer mustClose(t, s)
			n = mustSpace(t, s)
			for id := range 6 {
				mustPut(t, n, blockOf(id, 0, scrubbedSize))
			}
			mustFlush(t, s)
			e := entryOf(t, s, n, 3)
			flipByte(t, mem, disk.SegmentName(e.Address.Segment), e.Address.Offset()+disk.PageBytes+5)
			r := mustScrub(t, s)
			wantNoFinding(t, r)
			if !asked || s.Stats().Quarantined != 0 {
				t.Errorf("asked %v, %d quarantined", asked, s.Stats().Quarantined)
			}
			if how != "dropped" {
				wantBlock(t, n, 3, 1, scrubbedSize)
			}
		})
	}
}

// TestScrubTransient: bytes that are wrong once and right when they are read
// again take nothing out, and are told of.
func TestScrubTransient(t *testing.T) {
	c := newScrubClock()
	s, n := scrubbedStore(t, vfs.NewMem(), c, nil)
	defer mustClose(t, s)
	first, _ := fakePaths(s)
	s.o.private.points = func(point string) {
		switch point {
		case "scrub:read":
			if first.reads.Load() == 2 { // header and footer are read; now the blocks
				first.flip.Store(true)
			}
		case "scrub:again":
			first.flip.Store(false)
		}
	}
	r := mustScrub(t, s)
	if r.Transient != 1 || r.Bad+r.Damaged != 0 || r.Blocks != scrubbedBlocks || s.Stats().Quarantined != 0 {
		t.Errorf("%v %v", r.ScrubTotals, r.Findings)
	}
	if !hasLine(scrubLines(s), "did when it was read again") {
		t.Errorf("%q", scrubLines(s))
	}
	wantBlock(t, n, 0, 0, scrubbedSize)
}

// TestFaultScrubUnreadable: what the device does not give is kept and told of,
// and a segment that fails again and again is left.
func TestFaultScrubUnreadable(t *testing.T) {
	tally := faulttest.New(t)
	c := newScrubClock()
	mem := vfs.NewMem()
	var sick atomic.Pointer[func(op vfs.Op) bool]
	fs := vfs.WithHook(mem, func(op vfs.Op) error {
		if bad := sick.Load(); bad != nil && op.Kind == vfs.OpRead && strings.HasSuffix(op.Name, ".seg") && (*bad)(op) {
			return syscall.EIO
		}
		return nil
	})
	s, n := scrubbedStore(t, fs, c, nil)
	defer mustClose(t, s)
	e := entryOf(t, s, n, 2)

	one := tally.Try("EIO in one block")
	at := e.Address.Offset() + 2*disk.PageBytes
	bad := func(op vfs.Op) bool {
		hit := op.Name == disk.SegmentName(e.Address.Segment) && op.Offset <= at && op.Offset+op.Length > at
		if hit {
			one.Fire()
		}
		return hit
	}
	sick.Store(&bad)
	r := mustScrub(t, s)
	if r.Unreadable != 1 || r.Bad+r.Damaged+r.Skipped != 0 || r.Blocks != scrubbedBlocks-1 {
		t.Errorf("one sector: %v %v", r.ScrubTotals, r.Findings)
	}
	if len(r.Findings) != 1 || r.Findings[0].Offset != e.Address.Offset() || string(r.Findings[0].Hash) != string(hashOf(2)) {
		t.Errorf("one sector: %v", r.Findings)
	}
	sick.Store(nil)
	wantBlock(t, n, 2, 0, scrubbedSize)
	one.Survive()

	all := tally.Try("EIO everywhere")
	bad2 := func(vfs.Op) bool { all.Fire(); return true }
	sick.Store(&bad2)
	r = mustScrub(t, s)
	if r.Unreadable == 0 || r.Unreadable > scrubFailuresMax*(r.Skipped+r.Segments) || r.Blocks != 0 || s.Stats().Quarantined != 0 {
		t.Errorf("a dead device: %v", r.ScrubTotals)
	}
	sick.Store(nil)
	wantNoFinding(t, mustScrub(t, s))
	all.Survive()
}

// TestScrubWithoutBuffers: with the store's buffers in use the scrubber waits,
// and goes on when they are back.
func TestScrubWithoutBuffers(t *testing.T) {
	c := newScrubClock()
	s, _ := scrubbedStore(t, vfs.NewMem(), c, nil)
	defer mustClose(t, s)
	_, _, _ = s.pool.Stats()
	hog, err := s.pool.TryGet(int(s.o.MaxInflightBytes))
	if err != nil {
		t.Fatal(err)
	}
	waits := 0
	c.after = func(time.Duration) error {
		if waits++; waits == 20 {
			hog.Free()
		}
		return nil
	}
	r := mustScrub(t, s)
	wantNoFinding(t, r)
	if waits < 20 || r.Blocks != scrubbedBlocks {
		t.Errorf("%d waits, %v", waits, r.ScrubTotals)
	}
	wantNoBuffers(t, s)
}

// TestScrubOff: a negative cycle, and a store that is read only, have none in
// the background; ScrubNow works for both, and changes nothing read-only.
func TestScrubOff(t *testing.T) {
	c := newScrubClock()
	mem := vfs.NewMem()
	s, n := scrubbedStore(t, mem, c, func(o *Options) { o.ScrubCycle = -1 })
	runScrub(t, s, c, func() bool { t.Error("it runs"); return true })
	if st := s.scrubStats(); st.State != ScrubOff || st.Reason == "" {
		t.Errorf("%+v", st)
	}
	e := entryOf(t, s, n, 4)
	mustClose(t, s)
	flipByte(t, mem, disk.SegmentName(e.Address.Segment), e.Address.Offset()+disk.PageBytes)
	o := scrubOptionsFor(mem, c)
	o.ReadOnly = true
	s = mustOpen(t, o)
	defer mustClose(t, s)
	if st := s.scrubStats(); st.State != ScrubOff || !strings.Contains(st.Reason, "read-only") {
		t.Errorf("%+v", st)
	}
	if r := mustScrub(t, s); r.Bad != 1 || s.Stats().Quarantined != 0 || !strings.Contains(r.Findings[0].Reason, "not quarantined") {
		t.Errorf("%v %v", r.ScrubTotals, r.Findings)
	}
}

// TestFaultScrubRemoved: a segment that somebody removes is told of, once by
// each pass, and costs its own blocks only.
func TestFaultScrubRemoved(t *testing.T) {
	tally := faulttest.New(t)
	c := newScrubClock()
	mem := vfs.NewMem()
	s, _ := scrubbedStore(t, mem, c, nil)
	mustClose(t, s) // no descriptor stays open
	s = mustOpen(t, scrubOptionsFor(mem, c))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	e := entryOf(t, s, n, 0)
	f := tally.Try("a segment is removed")
	if err := mem.Remove(disk.SegmentName(e.Address.Segment)); err != nil {
		t.Fatal(err)
	}
	f.Fire()
	r := mustScrub(t, s)
	if r.Skipped != 1 || r.Blocks == 0 || r.Blocks >= scrubbedBlocks || r.Bad+r.Damaged+r.Unreadable != 0 {
		t.Errorf("%v %v", r.ScrubTotals, r.Findings)
	}
	if len(r.Findings) != 1 || r.Findings[0].File != disk.SegmentName(e.Address.Segment) || len(eventsOf(s, EventSegmentLost)) != 1 {
		t.Errorf("%v %v", r.Findings, eventsOf(s, EventSegmentLost))
	}
	if _, got := getBlock(t, n, 0, scrubbedSize); got.Status == StatusOK {
		t.Error("a block of it is served")
	}
	f.Survive()
}
