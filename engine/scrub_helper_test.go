package engine

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sealstone/sealstone/internal/vfs"
)

// scrubClock is the time of a store whose scrubber a test drives: it stands
// still but for the waits of the scrubber.
type scrubClock struct {
	mu    sync.Mutex
	at    time.Time
	after func(d time.Duration) error // called behind each wait
}

func newScrubClock() *scrubClock { return &scrubClock{at: time.Unix(1_700_000_000, 0)} }

func (c *scrubClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *scrubClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func (c *scrubClock) sleep(ctx context.Context, d time.Duration) error {
	c.advance(d)
	if c.after != nil {
		if err := c.after(d); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// scrubOptionsFor is a small store that a test scrubs by its own clock, in
// cycles of an hour.
func scrubOptionsFor(fs vfs.FS, c *scrubClock) Options {
	o := testOptions(fs)
	o.ScrubCycle = time.Hour
	o.private.now, o.private.sleep = c.now, c.sleep
	return o
}

// scrubbedStore is a store of three segments of blocks, all flushed, whose
// scrubber waits as long between two reads as the pace wants.
func scrubbedStore(t testing.TB, fs vfs.FS, c *scrubClock, edit func(*Options)) (*Store, *Namespace) {
	t.Helper()
	o := scrubOptionsFor(fs, c)
	if edit != nil {
		edit(&o)
	}
	s := mustOpen(t, o)
	s.scrub.o.pauseMax = o.ScrubCycle
	n := mustSpace(t, s)
	for id := range scrubbedBlocks {
		mustPut(t, n, blockOf(id, 0, scrubbedSize))
	}
	mustFlushByHand(t, s)
	return s, n
}

const (
	scrubbedBlocks = 20
	scrubbedSize   = 30000
)

// mustFlushByHand is mustFlush of a store without goroutines of its own.
func mustFlushByHand(t testing.TB, s *Store) {
	t.Helper()
	s.syncAndApply()
	mustFlush(t, s)
	s.syncAndApply() // seals what is full
}

func mustScrub(t testing.TB, s *Store) *ScrubReport {
	t.Helper()
	r, err := s.ScrubNow(context.Background(), ScrubOptions{})
	if err != nil {
		t.Fatalf("scrub: %v", err)
	}
	return r
}

// wantNoFinding fails if a scrub found anything.
func wantNoFinding(t testing.TB, r *ScrubReport) {
	t.Helper()
	if r.Bad+r.Damaged+r.Unreadable+r.Skipped+r.Transient != 0 || len(r.Findings) != 0 {
		t.Fatalf("%v; %v", r.ScrubTotals, r.Findings)
	}
}

// runScrub runs the scrubber of the background until stop says so after a
// wait. It never runs for ever: a cycle has few waits.
func runScrub(t testing.TB, s *Store, c *scrubClock, stop func() bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	waits := 0
	c.after = func(time.Duration) error {
		if waits++; waits > 1_000_000 {
			t.Fatal("the scrubber waits for ever")
		}
		if stop() {
			cancel()
		}
		return nil
	}
	s.scrub.run(ctx)
	c.after = nil
}

// runCycle runs the scrubber until a cycle has ended, and returns it.
func runCycle(t testing.TB, s *Store, c *scrubClock) ScrubCycle {
	t.Helper()
	before := s.scrubStats().Last.Number
	runScrub(t, s, c, func() bool { return s.scrubStats().Last.Number != before })
	return s.scrubStats().Last
}

// scrubLines are the events of the scrubber.
func scrubLines(s *Store) (out []string) {
	for _, e := range eventsOf(s, EventScrub) {
		out = append(out, e.Message)
	}
	return out
}

func hasLine(lines []string, part string) bool {
	for _, l := range lines {
		if strings.Contains(l, part) {
			return true
		}
	}
	return false
}

// writeWhole puts bytes in the place of a file's.
func writeWhole(t testing.TB, fs vfs.FS, name string, p []byte) {
	t.Helper()
	f, err := fs.Open(name, vfs.Create|vfs.Trunc)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(p, 0); err != nil && len(p) > 0 {
		t.Fatal(err)
	}
}
