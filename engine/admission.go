package engine

import (
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/sealstone/sealstone/engine/index"
)

// ghostLength bounds the ghost set: 8 bytes each, in two generations.
const ghostLength = 1 << 20

// ghostSet remembers hashes that were asked for lately, in two generations of
// which the older one is dropped when the newer is full.
type ghostSet struct {
	mu       sync.Mutex
	enabled  bool
	now, old map[uint64]struct{}
}

func ghostOf(k index.Key) uint64 { return xxhash.Sum64String(k.Hash) ^ uint64(k.Namespace) }

func (g *ghostSet) note(keys []index.Key) {
	if !g.enabled {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, k := range keys {
		g.addLocked(ghostOf(k))
	}
}

func (g *ghostSet) addLocked(h uint64) {
	if g.now == nil {
		g.now = map[uint64]struct{}{}
	}
	if len(g.now) >= ghostLength/2 {
		g.now, g.old = map[uint64]struct{}{}, g.now
	}
	g.now[h] = struct{}{}
}

// seen reports whether k is remembered, and remembers it.
func (g *ghostSet) seen(k index.Key) bool {
	h := ghostOf(k)
	g.mu.Lock()
	defer g.mu.Unlock()
	_, now := g.now[h]
	_, old := g.old[h]
	g.addLocked(h)
	return now || old
}

// writeBudget spreads a daily number of bytes evenly, with an hour's worth of
// slack.
type writeBudget struct {
	mu      sync.Mutex
	perDay  int64
	credit  float64
	updated time.Time
}

func (b *writeBudget) take(now time.Time, bytes int64) bool {
	if b.perDay == 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	most := float64(b.perDay) / 24
	if b.updated.IsZero() {
		b.credit = most
	} else if now.After(b.updated) {
		b.credit = min(most, b.credit+now.Sub(b.updated).Seconds()*float64(b.perDay)/86400)
	}
	b.updated = now
	if b.credit < float64(bytes) {
		return false
	}
	b.credit -= float64(bytes)
	return true
}

// giveBack returns bytes that were taken and not written.
func (b *writeBudget) giveBack(bytes int64) {
	if b.perDay == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.credit = min(float64(b.perDay)/24, b.credit+float64(bytes))
}

// admitted decides whether a new block is worth its write.
func (s *Store) admitted(it *putItem) bool {
	if s.ghost.enabled && !s.ghost.seen(it.key) {
		return false
	}
	bytes := int64(0)
	for _, p := range it.planes {
		bytes += spanBytes(p.Spans)
	}
	if !s.budget.take(s.o.private.now(), bytes) {
		return false
	}
	it.budgeted = bytes
	return true
}
