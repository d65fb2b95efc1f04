package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sealstone/sealstone/tiers/disk"
)

const (
	defaultScrubCycle = 14 * 24 * time.Hour
	minScrubCycle     = time.Hour
	defaultScrubRate  = 100 << 20
	minScrubRate      = scrubPieceBytes
	// scrubSaveEvery is how often the position is written down, at most.
	scrubSaveEvery = time.Minute
	// A read that is due looks again whether gets and puts are under way after
	// scrubYieldStep, and ever more rarely, up to scrubYieldStepMax.
	scrubYieldStep    = 10 * time.Millisecond
	scrubYieldStepMax = 250 * time.Millisecond
	// scrubGapMax is how far apart two looks at the clock may lie: more means
	// that it was set, or that the host slept.
	scrubGapMax = time.Hour
)

// ErrNotScrubbed: the store answers misses only, so there is nothing that a
// scrub could tell about its blocks.
var ErrNotScrubbed = errors.New("engine: the store is not fit to be scrubbed")

// scrubber reads all that is stored, a little at a time, and verifies it where
// it lies: on the device. One runs in the background of each store that may be
// written to. It never writes to a segment: what it finds bad goes the way of
// what a get finds bad.
type scrubber struct {
	s *Store
	o scrubOptions
	// open ends when the store begins to close; halt ends it.
	open  context.Context
	halt  context.CancelFunc
	nowMu ctxMutex // one ScrubNow at a time

	mu      sync.Mutex
	state   ScrubState
	reason  string
	cycle   scrubCycle
	last    ScrubCycle
	plan    scrubPlan
	next    time.Time // when the next read is due
	seen    time.Time // the latest look at the clock
	saved   time.Time
	dirty   bool // there is something to write down
	total   ScrubTotals
	yielded time.Duration
}

// scrubCycle is a cycle under way.
type scrubCycle struct {
	ScrubCycle
	at  disk.Address // what is next; page 0 is what belongs to the whole segment
	end uint64       // segments from here on belong to the next cycle
	// doneBytes were gone through in the segment at hand.
	doneBytes int64
}

type scrubOptions struct {
	cycle    time.Duration // 0: off
	rateMax  int64
	pauseMax time.Duration
}

// planFrom plans what is left, from a time on to another.
func (o scrubOptions) planFrom(from, end time.Time, leftBytes int64) scrubPlan {
	return scrubPlan{from: from, end: end, leftBytes: leftBytes, rateMax: o.rateMax, pauseMax: o.pauseMax}
}

func newScrubber(s *Store) *scrubber {
	b := &scrubber{s: s, nowMu: newCtxMutex(), state: ScrubOff}
	b.open, b.halt = context.WithCancel(context.Background())
	b.o.rateMax, b.o.pauseMax = max(s.o.ScrubRateMax, minScrubRate), scrubPauseMax
	switch {
	case s.o.ReadOnly:
		b.reason = "the store is opened read-only"
	case s.o.ScrubCycle < 0:
		b.reason = "Options.ScrubCycle is negative"
	default:
		b.o.cycle = max(s.o.ScrubCycle, minScrubCycle)
	}
	return b
}

// looked counts the blocks that were looked at since Open.
func (b *scrubber) looked() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total.Blocks + b.total.Bad
}

// bound is ctx, ended also when the store begins to close.
func (b *scrubber) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	unbind := context.AfterFunc(b.open, func() { cancel(ErrClosed) })
	return ctx, func() {
		unbind()
		cancel(nil)
	}
}

// scrubLoop runs one cycle after the other.
func (s *Store) scrubLoop() {
	defer s.workers.Done()
	ctx, cancel := s.scrub.bound(context.Background())
	defer cancel()
	s.scrub.run(ctx)
}

// run scrubs until ctx ends.
func (b *scrubber) run(ctx context.Context) {
	if b.o.cycle == 0 {
		return
	}
	b.load()
	defer b.save()
	for b.sleepUntilCycle(ctx) == nil {
		err := b.runCycle(ctx)
		switch {
		case err == nil:
			b.finish()
		case ctx.Err() != nil:
			return
		default: // the index gives no answer: the cycle goes on where it is
			b.enter(ScrubPaused, err.Error())
			if b.sleep(ctx, scrubPauseMax) != nil {
				return
			}
		}
	}
}

// sleepUntilCycle waits until there is a cycle to go on with: the one under
// way, or the next when its time has come and something is stored.
func (b *scrubber) sleepUntilCycle(ctx context.Context) error {
	for {
		wait, why := b.beginCycle(b.clock())
		if wait <= 0 {
			return nil
		}
		b.enter(ScrubIdle, why)
		if err := b.sleep(ctx, min(wait, scrubPauseMax)); err != nil {
			return err
		}
	}
}

// beginCycle begins a cycle if none is under way. If it can not, it returns how
// long to wait and for what.
func (b *scrubber) beginCycle(now time.Time) (wait time.Duration, why string) {
	end := b.s.segmentsEnd()
	b.mu.Lock()
	defer b.mu.Unlock()
	c := &b.cycle
	if c.Number > 0 {
		if c.End.IsZero() {
			return 0, ""
		}
		due := c.Start.Add(b.o.cycle)
		if wait := due.Sub(now); wait > 0 {
			return wait, "done until " + due.UTC().Format(time.RFC3339)
		}
	}
	left := b.s.liveFrom(0, end)
	if left == 0 {
		return scrubPauseMax, "nothing is stored"
	}
	b.cycle = scrubCycle{ScrubCycle: ScrubCycle{Number: c.Number + 1, Start: now}, end: end}
	b.plan = b.o.planFrom(now, now.Add(b.o.cycle), left)
	b.dirty, b.next = true, time.Time{}
	return 0, ""
}

// segmentsEnd is behind the last segment that there is now.
func (s *Store) segmentsEnd() (end uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.segs {
		end = max(end, id+1)
	}
	return end
}

func (b *scrubber) runCycle(ctx context.Context) error {
	b.mu.Lock()
	p := &scrubPass{s: b.s, at: b.cycle.at, end: b.cycle.end, turn: b.turn, rest: b.sleep}
	b.mu.Unlock()
	p.moved = func(at disk.Address, doneBytes int64) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.cycle.at, b.cycle.doneBytes, b.dirty = at, doneBytes, true
	}
	p.count = func(t ScrubTotals) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.cycle.add(t)
		b.total.add(t)
	}
	return p.run(ctx)
}

// finish ends the cycle and says what came of it.
func (b *scrubber) finish() {
	now := b.clock()
	b.mu.Lock()
	b.cycle.End, b.dirty = now, true
	b.last = b.cycle.ScrubCycle
	last := b.last
	b.mu.Unlock()
	b.s.event(EventScrub, "cycle %d ended after %v: %s", last.Number, last.End.Sub(last.Start).Round(time.Second), last.ScrubTotals)
	b.save()
}

// String is the totals in one line.
func (t ScrubTotals) String() string {
	out := fmt.Sprintf("%d blocks in %d segments verified, %d bytes read; %d bad, %d other damages, %d unreadable, %d skipped, %d right when read again",
		t.Blocks, t.Segments, t.Bytes, t.Bad, t.Damaged, t.Unreadable, t.Skipped, t.Transient)
	if t.CachedBytes > 0 {
		out += fmt.Sprintf("; %d bytes came through the page cache: whether those on the device were looked at is not known", t.CachedBytes)
	}
	return out
}

// turn returns when the next read, of n bytes, may begin.
func (b *scrubber) turn(ctx context.Context, n int64) error {
	yielded := time.Duration(0)
	for {
		now := b.clock()
		wait, why := b.delay(now, n)
		if wait <= 0 {
			return nil
		}
		if why == ScrubYielding {
			wait = max(wait, min(yielded/8, scrubYieldStepMax))
			yielded += wait
		}
		if why == ScrubPaused {
			b.enter(why, fmt.Sprint("the store is ", b.s.health.get().State))
		} else {
			b.enter(why, "")
		}
		b.saveIfDue(now)
		if err := b.sleep(ctx, wait); err != nil {
			return err
		}
		if why == ScrubYielding {
			b.mu.Lock()
			b.yielded += wait
			b.mu.Unlock()
		}
	}
}

// delay is how long the next read must wait still, and for what. With 0 the
// read's turn has come, and that of the one behind it is set.
func (b *scrubber) delay(now time.Time, n int64) (time.Duration, ScrubState) {
	if b.s.health.get().State != HealthOK {
		return scrubPauseMax, ScrubPaused
	}
	busy := b.s.isBusy()
	b.mu.Lock()
	defer b.mu.Unlock()
	left := b.leftLocked()
	if b.next.IsZero() {
		b.next = now.Add(b.plan.pause(n, left, now))
	}
	if wait := b.next.Sub(now); wait > 0 {
		return min(wait, scrubPauseMax), ScrubReading
	}
	if busy && b.plan.mayYield(left, now) {
		return scrubYieldStep, ScrubYielding
	}
	b.next = now.Add(b.plan.pause(n, left, now))
	return 0, ScrubReading
}

// isBusy reports whether gets or puts have something with the device.
func (s *Store) isBusy() bool {
	reads, _, _ := s.paths.meter.read()
	return reads > 0 || s.gate.heldBytes.Load() > 0
}

// leftLocked is about how many bytes of the cycle are left to read.
func (b *scrubber) leftLocked() int64 {
	c := &b.cycle
	if c.Number == 0 || !c.End.IsZero() {
		return 0
	}
	return max(0, b.s.liveFrom(c.at.Segment, c.end)-c.doneBytes)
}

// liveFrom sums up what the index refers to in segments from first up to and
// without end.
func (s *Store) liveFrom(first, end uint64) (sum int64) {
	if live := s.liveView.Load(); live != nil {
		for id, n := range *live {
			if id >= first && id < end {
				sum += n
			}
		}
	}
	return sum
}

func (b *scrubber) enter(st ScrubState, reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state, b.reason = st, reason
}

// clock is the time. A clock that was set back takes the cycle along; one that
// leapt forward leaves it some time, as after an Open.
func (b *scrubber) clock() time.Time {
	now := b.s.o.private.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	gap := now.Sub(b.seen)
	switch {
	case b.seen.IsZero():
	case gap < 0:
		b.cycle.Start = b.cycle.Start.Add(gap)
		b.plan.shift(gap)
		if !b.next.IsZero() {
			b.next = b.next.Add(gap)
		}
	case gap > scrubGapMax:
		b.rebaseLocked(now, now.Sub(b.cycle.Start))
	}
	b.seen = now
	return now
}

// rebaseLocked plans anew what is left, with so much of the cycle over.
func (b *scrubber) rebaseLocked(now time.Time, elapsed time.Duration) {
	if b.cycle.Number == 0 {
		return
	}
	if b.cycle.End.IsZero() {
		elapsed = min(elapsed, b.o.cycle/scrubLag*scrubElapsedMax)
	}
	b.cycle.Start = now.Add(-max(elapsed, 0))
	b.plan = b.o.planFrom(now, b.cycle.Start.Add(b.o.cycle), b.leftLocked())
	b.next = time.Time{}
}

// sleep waits, unless ctx ends first.
func (b *scrubber) sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if sleep := b.s.o.private.sleep; sleep != nil {
		return sleep(ctx, d)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
