package engine

import (
	"testing"
	"time"

	"github.com/sealstone/sealstone/internal/faults/faulttest"
	"github.com/sealstone/sealstone/internal/vfs"
)

// stopPoints are the numbered points of the store, each with the call that is
// stopped there and whether its key holds a block before.
var stopPoints = []struct {
	at, call string
	held     bool
}{
	{"put:before-write", "put", false},
	{"put:before-log", "put", false},
	{"lookup:read", "put", true},
	{"lookup:read", "get", true},
	{"lookup:read", "drop", true},
	{"read:acquired", "get", true},
	{"get:verified", "get", true},
	{"drop:before-tombstone", "drop", true},
	{"drop:before-log", "drop", true},
	{"evict:drained", "evict", true},
	{"move:copied", "evict", true},
	{"evict:moved", "evict", true},
	{"evict:applied", "evict", true},
	{"sync:between", "flush", true},
}

// overtakers are what runs while the other call stands still.
var overtakers = []string{"get", "put", "drop", "evict", "quarantine", "bump", "flush", "drop and put"}

// overtakeWait is how long a call that waits for the one that stands still is
// let wait; nothing is decided by it.
const overtakeWait = 3 * time.Millisecond

// TestFaultRacePoints stops a call at each numbered point and lets every
// other call about the same key overtake it, as far as it goes without
// waiting. What was answered, and what a kill, a power cut and a rebuild then
// find, agrees with some order of the two.
func TestFaultRacePoints(t *testing.T) {
	tally := faulttest.New(t)
	for _, p := range stopPoints {
		for i, over := range overtakers {
			if testing.Short() && i%2 == 1 {
				continue
			}
			name := over + " overtakes " + p.call + " at " + p.at
			t.Run(name, func(t *testing.T) {
				fault := tally.Try(name)
				overtake(t, fault, p.at, p.call, p.held, over)
				if !t.Failed() {
					fault.Survive()
				}
			})
		}
	}
}

func overtake(t *testing.T, fault *faulttest.Fault, at, call string, held bool, over string) {
	checkLeaks(t)
	mem, points := vfs.NewMem(), &rendezvous{}
	o := liveOptions(mem)
	a := &arena{t: t, quarantines: true}
	a.bumps.Store(true)
	o.private.points = points.at
	o.private.now = func() time.Time { return time.Unix(1_700_000_000+60*a.minutes.Load(), 0) }
	a.s = mustOpen(t, o)
	a.space.Store(mustSpace(t, a.s))
	for key := range arenaKeys {
		if held || key > 0 {
			a.put(key)
		}
	}
	fillSegment(t, a.s, a.space.Load(), 100)
	mustFlush(t, a.s)
	for key := range arenaKeys {
		a.get(key) // used: an eviction moves it on
	}
	do := map[string]func(int){}
	for _, c := range arenaCalls {
		do[c.name] = c.do(a)
	}
	do["drop and put"] = func(key int) { a.drop(key); a.put(key) }
	stopped := points.arm(t, at)
	if at == "sync:between" { // whoever syncs this stops there
		mustPut(t, a.space.Load(), blockOf(1000, 0, 100))
	}
	first := start(t, call, func() bool { do[call](0); return true })
	stopped.wait(t)
	fault.Fire()
	overtaken := make(chan struct{})
	go func() {
		defer close(overtaken)
		do[over](0)
	}()
	select {
	case <-overtaken:
	case <-time.After(overtakeWait): // it waits for the other
	}
	stopped.open()
	first()
	waitOr(t, overtaken, over)
	mustFlush(t, a.s)
	for key := range arenaKeys {
		a.get(key)
	}
	if got := contradictions(a.history, arenaKeys); len(got) > 0 {
		for _, c := range a.history {
			t.Log(c)
		}
		t.Fatalf("%d contradictions: %q", len(got), got)
	}
	a.outlives(mem, o)
}

// outlives holds what a kill or a power cut leaves, with the index or rebuilt
// from the segments, against what the store held.
func (a *arena) outlives(mem *vfs.Mem, o Options) {
	t := a.t
	held := a.holds()
	o.private.points, o.private.noBackground = nil, true
	for _, c := range []struct {
		options vfs.CrashOptions
		lost    bool
	}{{vfs.CrashOptions{KeepAll: true}, false}, {vfs.CrashOptions{}, false}, {vfs.CrashOptions{}, true}} {
		clone := o
		fs := mem.CrashClone(c.options)
		if c.lost {
			loseIndex(t, fs)
		}
		clone.private.fs = fs
		s := mustOpen(t, clone)
		wantHeld(t, mustSpace(t, s), held)
		mustClose(t, s)
	}
	wantNoBuffers(t, a.s)
	mustClose(t, a.s)
}
