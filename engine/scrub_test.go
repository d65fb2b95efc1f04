package engine

import (
	"context"
	"errors"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
)

// TestScrubClean: one pass reads every block once, aliases' pages and the
// parts of segments too, and finds a sound store sound.
func TestScrubClean(t *testing.T) {
	checkLeaks(t)
	v := newVictim(t)
	s := mustOpen(t, victimOptions(v.clone()))
	defer mustClose(t, s)
	before := s.Stats()
	r := mustScrub(t, s)
	wantNoFinding(t, r)
	// Nine blocks: two of them are aliases, with a page of their own each, and
	// the one of block 8 stands in another segment than the bytes.
	if want := int64(len(v.blocks)); r.Blocks != want || r.Segments != 2 || r.Bytes == 0 || r.CachedBytes != 0 {
		t.Errorf("%d blocks in %d segments, %d bytes, %d through the page cache; %d blocks are stored",
			r.Blocks, r.Segments, r.Bytes, r.CachedBytes, want)
	}
	after := s.Stats()
	if after.VerifiedBytes != before.VerifiedBytes || after.Scrub.Total.Blocks != r.Blocks {
		t.Errorf("verified for gets: %d, scrubbed %d", after.VerifiedBytes-before.VerifiedBytes, after.Scrub.Total.Blocks)
	}
	wantNoBuffers(t, s)
}

// TestScrubNowEnds: with the caller's context, and with the store.
func TestScrubNowEnds(t *testing.T) {
	c := newScrubClock()
	s, _ := scrubbedStore(t, vfs.NewMem(), c, nil)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.ScrubNow(ctx, ScrubOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	mustClose(t, s)
	if r, err := s.ScrubNow(context.Background(), ScrubOptions{}); !errors.Is(err, ErrClosed) || r == nil {
		t.Errorf("closed: %v", err)
	}
}

// TestScrubCycle: the background comes to the end of a cycle, says so, rests
// until its time is over, and takes what was put meanwhile into the next.
func TestScrubCycle(t *testing.T) {
	c := newScrubClock()
	s, n := scrubbedStore(t, vfs.NewMem(), c, nil)
	defer mustClose(t, s)
	late := false
	first := func() ScrubCycle {
		runScrub(t, s, c, func() bool {
			if !late && s.scrubStats().Cycle.Blocks > 0 {
				late = true
				for id := 100; id < 120; id++ {
					mustPut(t, n, blockOf(id, 0, scrubbedSize))
				}
				mustFlushByHand(t, s)
			}
			return s.scrubStats().Last.Number == 1
		})
		return s.scrubStats().Last
	}()
	if first.Blocks < scrubbedBlocks || first.Blocks >= scrubbedBlocks+20 || first.Bad != 0 {
		t.Errorf("first cycle: %+v", first)
	}
	second := runCycle(t, s, c)
	if second.Number != 2 || second.Blocks != scrubbedBlocks+20 {
		t.Errorf("second cycle: %+v", second)
	}
	if gap := second.Start.Sub(first.Start); gap != s.o.ScrubCycle {
		t.Errorf("the second cycle begins %v after the first", gap)
	}
	if lines := scrubLines(s); len(lines) != 2 || !hasLine(lines, "cycle 2 ended") {
		t.Errorf("events: %q", lines)
	}
}
