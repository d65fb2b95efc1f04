package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/faults/faulttest"
	"github.com/sealstone/sealstone/internal/vfs"
)

// clockJumps are how a clock may be set: by an operator, by a guest that was
// resumed, by time that comes back wrong after a boot. (The system's own
// comparisons of time are not of the wall clock; these tests are for hosts
// where they are, and for a clock that is injected.)
var clockJumps = []time.Duration{-time.Nanosecond, -time.Second, -time.Hour, -10 * 365 * 24 * time.Hour, time.Hour, 10 * 365 * 24 * time.Hour}

// jumpingClock is Options.private.now of a clock that is set.
type jumpingClock struct{ at atomic.Int64 }

func newJumpingClock() *jumpingClock {
	c := &jumpingClock{}
	c.at.Store(time.Unix(1_700_000_000, 0).UnixNano())
	return c
}

func (c *jumpingClock) get() time.Time      { return time.Unix(0, c.at.Load()) }
func (c *jumpingClock) add(d time.Duration) { c.at.Add(int64(d)) }

// TestFaultClockLease: a lease never lasts longer than its duration from the
// moment at which the clock was set, and the table forgets it then.
func TestFaultClockLease(t *testing.T) {
	tally := faulttest.New(t)
	for _, jump := range clockJumps {
		t.Run(jump.String(), func(t *testing.T) {
			fault := tally.Try("leases while the clock jumps by " + jump.String())
			s, n, _ := leasedStore(t)
			clock := newJumpingClock()
			s.o.private.now = clock.get
			l := mustMatch(t, n, 0)
			other := mustMatch(t, n, 1)
			clock.add(jump)
			fault.Fire()
			if back := jump < 0; l.Renew() != back {
				t.Errorf("renewed %v: a clock that is set back ends no lease, one set forward does", !back)
			}
			if st := s.Stats(); st.LeasedBytes < 0 {
				t.Errorf("%d bytes leased", st.LeasedBytes)
			}
			clock.add(defaultLease + clockSlack)
			mustMatch(t, n, 2).Release() // forgets what has expired
			if l.Renew() || other.Renew() {
				t.Error("a lease outlives its duration since the clock was set")
			}
			if st := s.Stats(); st.LeasedBytes != 0 {
				t.Errorf("%d bytes are leased for ever", st.LeasedBytes)
			}
			l.Release()
			mustEvict(t, s)
			for id := range 2 {
				wantStatus(t, n, id, raceSize, StatusMiss)
			}
			if !t.Failed() {
				fault.Survive()
			}
		})
	}
}

// TestFaultClockResume: a store that a failed sync made read-only tries to go
// on at the latest after resumeMost, wherever the clock was set meanwhile.
func TestFaultClockResume(t *testing.T) {
	tally := faulttest.New(t)
	for _, jump := range clockJumps {
		t.Run(jump.String(), func(t *testing.T) {
			fault := tally.Try("a failed sync, then the clock jumps by " + jump.String())
			checkLeaks(t)
			clock := newJumpingClock()
			var failing atomic.Bool
			o := testOptions(vfs.WithHook(vfs.NewMem(), func(op vfs.Op) error {
				if failing.Load() && op.Kind == vfs.OpSync {
					return syscall.EIO
				}
				return nil
			}))
			o.private.now = clock.get
			s := mustOpen(t, o)
			n := mustSpace(t, s)
			mustPut(t, n, blockOf(0, 0, raceSize))
			failing.Store(true)
			s.syncOnce()
			for range 10 { // each failure makes the next try later
				s.tryResume(clock.get())
				clock.add(resumeMost)
			}
			if h := s.Health(); h.State != HealthReadOnly {
				t.Fatalf("health %+v", h)
			}
			clock.add(jump)
			fault.Fire()
			failing.Store(false)
			s.tryResume(clock.get())
			clock.add(resumeMost)
			s.tryResume(clock.get())
			if h := s.Health(); h.State != HealthOK {
				t.Fatalf("not resumed %v after the clock was set: %+v", resumeMost, h)
			}
			mustPut(t, n, blockOf(1, 0, raceSize))
			mustClose(t, s)
			if !t.Failed() {
				fault.Survive()
			}
		})
	}
}

// TestFaultClockBudget: the daily write budget never goes below nothing, gives
// at most an hour's worth at once, and goes on from wherever the clock is.
func TestFaultClockBudget(t *testing.T) {
	tally := faulttest.New(t)
	const perDay = 24 * 1000
	for _, jump := range clockJumps {
		t.Run(jump.String(), func(t *testing.T) {
			fault := tally.Try("the write budget while the clock jumps by " + jump.String())
			b := writeBudget{perDay: perDay}
			clock := newJumpingClock()
			drain := func() (bytes int64) {
				for b.take(clock.get(), 10) {
					if bytes += 10; bytes > 2*perDay/24 {
						t.Fatal("no end of the budget")
					}
				}
				return bytes
			}
			if got := drain(); got != 1000 {
				t.Errorf("%d bytes in the first hour, want 1000", got)
			}
			clock.add(jump)
			fault.Fire()
			if got := drain(); got > 1000 || jump < 0 && got != 0 {
				t.Errorf("%d bytes at once after the jump", got)
			}
			if b.credit < 0 {
				t.Errorf("credit %v", b.credit)
			}
			clock.add(30 * time.Minute)
			if got := drain(); got < 490 || got > 510 {
				t.Errorf("%d bytes in the half hour after the jump, want 500", got)
			}
			if !t.Failed() {
				fault.Survive()
			}
		})
	}
}

// TestFaultClockStorm: quarantines of another time, as the clock tells it,
// are no storm for ever: a minute after the clock was set they do not count.
func TestFaultClockStorm(t *testing.T) {
	tally := faulttest.New(t)
	for _, jump := range clockJumps {
		fault := tally.Try("a quarantine storm while the clock jumps by " + jump.String())
		var g stormGuard
		clock := newJumpingClock()
		for i := range stormCount {
			if !g.allow(clock.get(), stormCounts{quarantined: int64(i)}, index.Entry{}) {
				t.Fatalf("%v: the %d. quarantine was a storm", jump, i+1)
			}
		}
		clock.add(jump)
		fault.Fire()
		if back := jump < 0; g.allow(clock.get(), stormCounts{quarantined: stormCount}, index.Entry{}) == back {
			t.Errorf("%v: one more is allowed: %v", jump, !back)
		}
		g.end(stormCounts{})
		for i := range stormCount {
			g.allow(clock.get(), stormCounts{quarantined: int64(i)}, index.Entry{})
		}
		clock.add(jump)
		g.allow(clock.get(), stormCounts{quarantined: stormCount}, index.Entry{}) // counted at the new time
		raging := g.raging
		g.raging = false
		clock.add(stormWindow)
		if !g.allow(clock.get(), stormCounts{quarantined: 0}, index.Entry{}) {
			t.Errorf("%v: a minute after the clock was set it still counts (raging before: %v)", jump, raging)
		}
		if len(g.recent) > stormCount+2 {
			t.Errorf("%v: %d times are kept", jump, len(g.recent))
		}
		if !t.Failed() {
			fault.Survive()
		}
	}
}

// TestFaultClockRunning lets the clock jump at random under a store at work,
// with its own goroutines: nothing hangs, nothing is lost.
func TestFaultClockRunning(t *testing.T) {
	tally := faulttest.New(t)
	checkLeaks(t)
	fault := tally.Try("the clock jumps while a store works")
	clock := newJumpingClock()
	clock.at.Store(time.Unix(-1000, 0).UnixNano()) // before 1970, as a board without a battery
	o := liveOptions(vfs.NewMem())
	o.private.now = clock.get
	s := mustOpen(t, o)
	n := mustSpace(t, s)
	rounds := 60
	if testing.Short() {
		rounds = 15
	}
	for i := range rounds {
		mustPut(t, n, blockOf(i%20, 0, 5000))
		clock.add(clockJumps[i%len(clockJumps)])
		fault.Fire()
		l := mustMatch(t, n, i%20)
		clock.add(clockJumps[(i*7)%len(clockJumps)])
		l.Release()
		wantBlock(t, n, i%20, 0, 5000)
		if i%10 == 9 {
			mustFlush(t, s)
			if _, err := s.EvictOnce(context.Background()); err != nil {
				t.Fatal(err)
			}
			for id := range 20 {
				mustPut(t, n, blockOf(id, 0, 5000))
			}
		}
	}
	mustFlush(t, s)
	if st := s.Stats(); st.LeasedBytes != 0 || st.PendingBytes != 0 {
		t.Errorf("%d bytes leased, %d pending", st.LeasedBytes, st.PendingBytes)
	}
	for _, e := range s.Events(0) {
		_ = fmt.Sprint(e.Time, e)
	}
	mustClose(t, s)
	s = mustOpen(t, o)
	n = mustSpace(t, s)
	for id := range 20 {
		wantBlock(t, n, id, 0, 5000)
	}
	mustClose(t, s)
	if !t.Failed() {
		fault.Survive()
	}
}
