package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sealstone/sealstone/engine/index"
)

// A block found bad is taken out of the index with all who share it, and its
// bytes are kept as evidence. But a bad path can make every block look bad,
// and must not empty the store: past either limit nothing is quarantined any
// more, and gets answer misses until blocks verify again, an operator calls
// Resume, or the store is opened again.
const (
	stormCount    = 8
	stormWindow   = 60 * time.Second
	stormShare    = 0.001 // of reads, once there are enough to tell
	stormReadsMin = 10000

	// stormTryFirst is when the first try follows, stormTryMost the longest
	// wait between two. It doubles from storm to storm too, as each may cost
	// stormCount blocks; after stormPeace without one it begins anew.
	stormTryFirst = 10 * time.Second
	stormTryMost  = 10 * time.Minute
	stormPeace    = time.Hour
	// stormSamples are the stored blocks that a try reads.
	stormSamples = 16
)

// stormCounts are totals of a store.
type stormCounts struct{ quarantined, reads int64 }

type stormGuard struct {
	mu     sync.Mutex
	recent []time.Time
	// suspects are the blocks whose quarantine was refused or is recent.
	suspects []index.Entry
	raging   bool
	from     stormCounts   // what was counted before the last storm ended
	wait     time.Duration // before due
	due      time.Time     // when to try
}

func (g *stormGuard) counts(s *Store) stormCounts {
	return stormCounts{s.count.quarantined.Load(), s.count.getStatus[StatusOK].Load() + s.count.getStatus[StatusCorrupt].Load() + s.scrub.looked()}
}

// allow reports whether one more quarantine is within the limits.
func (g *stormGuard) allow(now time.Time, c stormCounts, e index.Entry) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.raging {
		return false
	}
	n := 0
	for i, t := range g.recent {
		if t.After(now) { // the clock was set back: from here on the window counts anew
			t = now
		}
		if now.Sub(t) < stormWindow {
			g.recent[n], g.suspects[n] = t, g.suspects[i]
			n++
		}
	}
	g.recent, g.suspects = append(g.recent[:n], now), append(g.suspects[:n], e)
	quarantined, reads := c.quarantined-g.from.quarantined, c.reads-g.from.reads
	if len(g.recent) <= stormCount && (reads < stormReadsMin || float64(quarantined+1) <= stormShare*float64(reads)) {
		return true
	}
	if now.Sub(g.due) > stormPeace {
		g.wait = 0
	}
	g.raging = true
	g.delayLocked(now)
	return false
}

func (g *stormGuard) delayLocked(now time.Time) {
	g.wait = min(max(2*g.wait, stormTryFirst), stormTryMost)
	g.due = now.Add(g.wait)
}

// isDue reports whether it is time for a try, and sets the time of the next.
func (g *stormGuard) isDue(now time.Time) (suspects []index.Entry, due bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.due.Sub(now) > g.wait { // the clock was set back
		g.due = now.Add(g.wait)
	}
	if !g.raging || now.Before(g.due) {
		return nil, false
	}
	g.delayLocked(now)
	return append([]index.Entry(nil), g.suspects...), true
}

// end lets blocks be quarantined again, counted from here on.
func (g *stormGuard) end(c stormCounts) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.raging, g.recent, g.suspects, g.from = false, nil, nil, c
}

// Resume ends the state of all-miss that a storm of bad blocks caused, once
// whoever operates the host has found why.
func (s *Store) Resume() {
	s.storm.end(s.storm.counts(s))
	s.health.clear("storm")
}

// tryCalm ends a storm when stored blocks verify again, if it is time to try.
// Called by the sync loop.
func (s *Store) tryCalm(now time.Time) {
	suspects, due := s.storm.isDue(now)
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(s.life, s.o.CallTimeout)
	defer cancel()
	read, err := s.readSamples(ctx, suspects)
	if err != nil {
		s.o.Logger.Warn("sealstone: blocks still do not verify", "dir", s.dir, "err", err)
		return
	}
	s.event(EventQuarantineStorm, "%d stored blocks were read again and verify: the store goes on", read)
	s.Resume()
}

// readSamples reads stored blocks from all over the index, none of which is a
// suspect, as those may be bad in truth; where there are no others, all of the
// suspects. Every one must verify.
func (s *Store) readSamples(ctx context.Context, suspects []index.Entry) (read int, err error) {
	suspect := map[string]bool{}
	for _, e := range suspects {
		suspect[e.Address.String()] = true
	}
	for range stormSamples {
		e, ok, err := s.randomEntry(ctx)
		if err != nil {
			return read, err
		}
		if !ok || suspect[e.Address.String()] {
			continue
		}
		if err := s.readSample(ctx, e); err != nil {
			return read, err
		}
		read++
	}
	if read > 0 {
		return read, nil
	}
	for _, e := range suspects {
		if err := s.readSample(ctx, e); err != nil {
			return read, err
		}
		read++
	}
	if read == 0 {
		return 0, errors.New("engine: there is no block to try")
	}
	return read, nil
}

// randomEntry draws a block of the index that is visible and not known to be
// bad.
func (s *Store) randomEntry(ctx context.Context) (index.Entry, bool, error) {
	from := index.Key{Namespace: s.randomNamespace(), Hash: randomHash()}
	list, err := s.idx.KeysAfter(ctx, &from, 1)
	if err == nil && len(list) == 0 { // behind the last one
		list, err = s.idx.KeysAfter(ctx, nil, 1)
	}
	if err != nil || len(list) == 0 {
		return index.Entry{}, false, err
	}
	e := list[0]
	s.mu.Lock()
	defer s.mu.Unlock()
	_, bad := s.bad[e.Address]
	return e.Entry, !bad && e.Seq >= s.floorLocked(e.Namespace), nil
}

func (s *Store) randomNamespace() uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	for number := range s.spaces { // in no order
		return number
	}
	return 0
}

func randomHash() string {
	p := make([]byte, MinHashBytes)
	for i := range p {
		p[i] = byte(rand.IntN(256))
	}
	return string(p)
}

// readSample reads a block by the path in use, and verifies all of it. A
// segment that was evicted meanwhile says nothing.
func (s *Store) readSample(ctx context.Context, e index.Entry) error {
	img, err := s.readExtentOnce(ctx, s.paths.use(), s.tryBuffer, e.Extent)
	if err != nil {
		if s.isGoing(e.Address.Segment) {
			return nil
		}
		return fmt.Errorf("engine: block at %v: %w", e.Address, err)
	}
	img.free()
	return nil
}
