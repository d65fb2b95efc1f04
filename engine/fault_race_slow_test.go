package engine

import (
	"context"
	"testing"

	"github.com/sealstone/sealstone/internal/faults/faulttest"
	"github.com/sealstone/sealstone/internal/vfs"
)

// TestFaultRaceSlowReader is field case 39: a read is under way for as long as
// it takes to drop its block, to put another one under the same key and to
// evict the segment, over and over. It brings the bytes that it began with, or
// a miss.
func TestFaultRaceSlowReader(t *testing.T) {
	rounds := 30
	if testing.Short() {
		rounds = 8
	} else if fullTests {
		rounds = 100
	}
	tally := faulttest.New(t)
	checkLeaks(t)
	fault := tally.Try("a read that outlives its segment")
	slow := newStallFS(vfs.NewMem(), vfs.OpRead, "segments/")
	o := testOptions(slow)
	o.MoveShare = -1 // an eviction reads nothing then
	s := mustOpen(t, o)
	n := mustSpace(t, s)
	mustPut(t, n, blockOf(0, 0, raceSize))
	next := fillSegment(t, s, n, 1)
	mustFlush(t, s)
	slow.stall(t)
	p, b := getParts(0, raceSize)
	got := start(t, "the slow get", func() GetResult { return n.Get(context.Background(), []GetBlock{b}, GetOptions{})[0] })
	eventually(t, "the read is under way", func() bool { return slow.stalled.Load() > 0 })
	evicted := s.Stats().EvictedSegments
	for round := range rounds {
		// Dropped in the first round; later ones may find it evicted.
		if r := dropOne(n, 0); r.Status != StatusOK && r.Status != StatusMiss {
			t.Fatalf("drop: %v", r.Err)
		}
		mustPut(t, n, blockOf(0, round+1, raceSize))
		next = fillSegment(t, s, n, next)
		mustFlush(t, s)
		mustEvict(t, s)
	}
	if s.Stats().EvictedSegments >= evicted+int64(rounds) && slow.stalled.Load() > 0 {
		fault.Fire()
	}
	slow.release()
	if r := got(); r.Status == StatusOK && variantOf(0, p, 1) != 0 {
		t.Fatal("WRONG BYTES with status OK")
	} else if r.Status != StatusOK && !untouched(p) {
		t.Fatalf("%s, and the destination was written", r.Status)
	}
	if q, r := getBlock(t, n, 0, raceSize); r.Status == StatusOK && variantOf(0, q, rounds+1) != rounds {
		t.Fatal("an old version is served")
	} else if r.Status != StatusOK && r.Status != StatusMiss {
		t.Fatalf("%s %v", r.Status, r.Err)
	}
	wantNoBuffers(t, s)
	mustClose(t, s)
	if !t.Failed() {
		fault.Survive()
	}
}
