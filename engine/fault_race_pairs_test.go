package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/faults/faulttest"
	"github.com/sealstone/sealstone/internal/vfs"
)

// arena is a store on which two kinds of calls race over few keys.
type arena struct {
	t       *testing.T
	s       *Store
	space   atomic.Pointer[Namespace]
	bumping sync.Mutex // the handle follows the epoch
	clock   historyClock
	minutes atomic.Int64 // of the store's clock
	version atomic.Int64
	// shut: Close has begun, bumps: an epoch may end. Then answers that say so
	// are right.
	shut, bumps atomic.Bool
	quarantines bool // and here those that call a block bad

	mu      sync.Mutex
	history []call
}

const arenaKeys = 3

// arenaSize differs by key: one chunk, a chunk and a rest, a few bytes.
func arenaSize(key int) int { return []int{4096, 65536 - 4096, 100}[key] }

// arenaBytes are those of a version: its number, and what follows from it.
func arenaBytes(key, version int) []byte {
	p := contentOf(key, version, arenaSize(key))
	binary.LittleEndian.PutUint64(p, uint64(version))
	return p
}

func arenaBlock(key, version int) PutBlock {
	p := arenaBytes(key, version)
	cut := len(p) / 3
	return PutBlock{Hash: hashOf(key), Planes: []PlaneData{{Name: "k", Spans: [][]byte{p[:cut]}}, {Name: "v", Spans: [][]byte{p[cut:]}}}}
}

// note runs a call and enters it into the history.
func (a *arena) note(c call, do func(c *call)) {
	c.begin = a.clock.tick()
	do(&c)
	c.end = a.clock.tick()
	switch {
	case c.status == StatusClosed && a.shut.Load():
		return // nothing was done
	case c.status == StatusStaleEpoch && a.bumps.Load():
		return // of a handle that another goroutine has made stale
	case c.status == StatusCorrupt:
		return // quarantined, and the index has still to hear of it
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.history = append(a.history, c)
}

func (a *arena) want(c *call, err error, allowed ...Status) {
	switch {
	case c.status == StatusClosed && a.shut.Load(), c.status == StatusStaleEpoch && a.bumps.Load():
		return
	case c.status == StatusCorrupt && c.kind == callGet && a.quarantines:
		return
	}
	if !slices.Contains(allowed, c.status) {
		a.t.Errorf("%s of %d answers %s: %v", c.kind, c.key, c.status, err)
	}
}

func (a *arena) put(key int) {
	v := int(a.version.Add(1))
	b := arenaBlock(key, v)
	a.note(call{kind: callPut, key: key, version: v}, func(c *call) {
		r := putOne(a.space.Load(), b)
		c.status, c.existed = r.Status, r.Existed
		// Shed: what it meant to share is being evicted, or was found bad.
		a.want(c, r.Err, StatusOK, StatusShed)
	})
}

func (a *arena) get(key int) {
	a.note(call{kind: callGet, key: key}, func(c *call) {
		p, b := getParts(key, arenaSize(key))
		r := a.space.Load().Get(context.Background(), []GetBlock{b}, GetOptions{})[0]
		c.status = r.Status
		a.want(c, r.Err, StatusOK, StatusMiss)
		if r.Status != StatusOK {
			if !untouched(p) {
				a.t.Errorf("get of %d: %s, and the destination was written", key, r.Status)
			}
			return
		}
		c.version = int(binary.LittleEndian.Uint64(p))
		if !bytes.Equal(p, arenaBytes(key, c.version)) {
			a.t.Errorf("get of %d: WRONG BYTES with status OK", key)
		}
	})
}

func (a *arena) match(key int) {
	a.note(call{kind: callGet, key: key}, func(c *call) {
		l, err := a.space.Load().Match(context.Background(), [][]byte{hashOf(key)})
		switch {
		case errors.Is(err, ErrClosed):
			c.status = StatusClosed
		case errors.Is(err, ErrEpoch):
			c.status = StatusStaleEpoch
		case err != nil:
			c.status = StatusIOError
		case l.Blocks() == 1:
			c.status = StatusOK
		default:
			// A miss here is a block that an eviction may take: a Get may
			// still find it.
			c.kind, c.status = callEvict, StatusMiss
		}
		if l != nil {
			l.Release()
			l.Release()
		}
		a.want(c, err, StatusOK, StatusMiss)
	})
}

func (a *arena) ask(ask func(n *Namespace, hashes [][]byte) []Status) func(key int) {
	return func(key int) {
		a.note(call{kind: callGet, key: key}, func(c *call) {
			c.status = ask(a.space.Load(), [][]byte{hashOf(key)})[0]
			a.want(c, nil, StatusOK, StatusMiss)
		})
	}
}

func (a *arena) drop(key int) {
	a.note(call{kind: callDrop, key: key}, func(c *call) {
		r := dropOne(a.space.Load(), key)
		c.status = r.Status
		a.want(c, r.Err, StatusOK, StatusMiss)
	})
}

// statusOfCall is what an error of a call without a status means.
func statusOfCall(err error) Status {
	switch {
	case err == nil:
		return StatusOK
	case errors.Is(err, ErrClosed):
		return StatusClosed
	case errors.Is(err, ErrEpoch):
		return StatusStaleEpoch
	}
	return StatusIOError
}

func (a *arena) evict(int) {
	a.note(call{kind: callEvict}, func(c *call) {
		_, err := a.s.EvictOnce(context.Background())
		c.status = statusOfCall(err)
		a.want(c, err, StatusOK)
	})
}

func (a *arena) bump(int) {
	a.bumping.Lock()
	defer a.bumping.Unlock()
	a.note(call{kind: callBump}, func(c *call) {
		n, err := a.space.Load().BumpEpoch(context.Background())
		if c.status = statusOfCall(err); err == nil {
			a.space.Store(n)
		}
		a.want(c, err, StatusOK)
	})
}

// quarantine reports a block as bad that was looked up before: by then it may
// be another one, or none.
func (a *arena) quarantine(key int) {
	a.note(call{kind: callQuarantine, key: key, status: StatusOK}, func(c *call) {
		if a.s.begin() != nil { // as the get that found it holds the store open
			return
		}
		defer a.s.ops.done()
		k := index.Key{Namespace: a.space.Load().info.Number, Hash: string(hashOf(key))}
		found, err := a.s.lookup(context.Background(), []index.Key{k}, false)
		if err != nil {
			a.t.Errorf("lookup: %v", err)
			return
		}
		if found[0].ok {
			a.minutes.Add(2) // or it would be taken for a storm
			a.s.quarantine(k, found[0].entry, "a race test says so")
		}
	})
}

func (a *arena) flush(int) {
	if err := a.s.Flush(context.Background()); err != nil && !(errors.Is(err, ErrClosed) && a.shut.Load()) {
		a.t.Errorf("flush: %v", err)
	}
}

func (a *arena) stats(int) {
	if st := a.s.Stats(); st.PendingBytes < 0 || st.LeasedBytes < 0 || st.LiveBytes < 0 || st.InflightBytes < 0 {
		a.t.Errorf("a negative figure: %+v", st)
	}
	a.s.Events(0)
	a.s.Health()
}

// compact gives back what is dead, and loses nothing that is not.
func (a *arena) compact(int) {
	_, err := a.s.Compact(context.Background(), CompactOptions{TargetShare: 1})
	if err != nil && !(errors.Is(err, ErrClosed) && a.shut.Load()) {
		a.t.Errorf("compact: %v", err)
	}
}

// scrubAll reads everything: nothing is bad here, whatever goes on meanwhile.
func (a *arena) scrubAll(int) {
	r, err := a.s.ScrubNow(context.Background(), ScrubOptions{BytesPerSecond: 1 << 40})
	if err != nil && !(errors.Is(err, ErrClosed) && a.shut.Load()) {
		a.t.Errorf("scrub: %v", err)
	}
	if r.Bad+r.Damaged+r.Unreadable+r.Transient > 0 {
		a.t.Errorf("scrub finds %+v", r)
	}
}

func (a *arena) shutDown(int) {
	a.shut.Store(true)
	if err := a.s.Close(context.Background()); err != nil {
		a.t.Errorf("close: %v", err)
	}
}

// arenaCall is one side of a pair.
type arenaCall struct {
	name string
	do   func(a *arena) func(key int)
}

// arenaCalls: every unordered pair of them races, each with itself too.
var arenaCalls = []arenaCall{
	{"get", func(a *arena) func(int) { return a.get }},
	{"view", func(a *arena) func(int) { return a.view }},
	{"stat", func(a *arena) func(int) { return a.ask(statusesOf) }},
	{"keys", func(a *arena) func(int) { return a.list }},
	{"match", func(a *arena) func(int) { return a.match }},
	{"has", func(a *arena) func(int) {
		return a.ask(func(n *Namespace, h [][]byte) []Status { return n.Has(context.Background(), h) })
	}},
	{"touch", func(a *arena) func(int) {
		return a.ask(func(n *Namespace, h [][]byte) []Status { return n.Touch(context.Background(), h) })
	}},
	{"put", func(a *arena) func(int) { return a.put }},
	{"drop", func(a *arena) func(int) { return a.drop }},
	{"evict", func(a *arena) func(int) { return a.evict }},
	{"compact", func(a *arena) func(int) { return a.compact }},
	{"scrub", func(a *arena) func(int) { return a.scrubAll }},
	{"quarantine", func(a *arena) func(int) { return a.quarantine }},
	{"bump", func(a *arena) func(int) { return a.bump }},
	{"flush", func(a *arena) func(int) { return a.flush }},
	{"stats", func(a *arena) func(int) { return a.stats }},
	{"close", func(a *arena) func(int) { return a.shutDown }},
}

// TestFaultRacePairs lets every kind of call race with every other, and with
// itself, over the same three keys. Whatever the order was: no answer
// contradicts the others, a get brings one put's bytes or leaves its memory
// alone, and what the store holds at the end it holds after a kill, a power
// cut, a reopening and a rebuild.
func TestFaultRacePairs(t *testing.T) {
	rounds := 6
	switch {
	case fullTests:
		rounds = 400
	case testing.Short():
		rounds = 2
	}
	tally := faulttest.New(t)
	seed := rand.Uint64()
	if s := seedsToRun(t, 1, 1); s[0] != 1 {
		seed = s[0]
	}
	for i, x := range arenaCalls {
		for _, y := range arenaCalls[i:] {
			name := x.name + " against " + y.name
			t.Run(name, func(t *testing.T) {
				defer func() {
					if t.Failed() {
						t.Logf("SEALSTONE_SEED=%d", seed)
					}
				}()
				fault := tally.Try(name)
				racePair(t, fault, x, y, rounds, rand.New(rand.NewPCG(seed, 0)))
				if !t.Failed() {
					fault.Survive()
				}
			})
		}
	}
}

func racePair(t *testing.T, fault *faulttest.Fault, x, y arenaCall, rounds int, rng *rand.Rand) {
	checkLeaks(t)
	mem := vfs.NewMem()
	a := &arena{t: t}
	o := liveOptions(mem)
	o.private.now = func() time.Time { return time.Unix(1_700_000_000+60*a.minutes.Load(), 0) }
	a.s = mustOpen(t, o)
	a.space.Store(mustSpace(t, a.s))
	a.bumps.Store(x.name == "bump" || y.name == "bump")
	a.quarantines = x.name == "quarantine" || y.name == "quarantine"
	closes := x.name == "close" || y.name == "close"
	for round := 0; round < rounds || !fault.Fired(); round++ {
		if round > 1000*rounds {
			t.Fatal("the two never met")
		}
		for key := range arenaKeys {
			if rng.IntN(3) > 0 {
				a.put(key)
			}
		}
		if rng.IntN(2) == 0 {
			a.flush(0)
		}
		if meet(a, x, y, rng) {
			fault.Fire()
		}
		if closes { // one round a store
			a.s = mustOpen(t, o)
			a.shut.Store(false)
			a.space.Store(mustSpace(t, a.s))
		}
	}
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
	if h := a.s.Health(); h.State != HealthOK {
		t.Errorf("health %+v", h)
	}
	wantNoBuffers(t, a.s)
	if held := a.s.Stats().LeasedBytes; held != 0 {
		t.Errorf("%d bytes are leased", held)
	}
	held := a.holds()
	if fullTests || rng.IntN(8) == 0 {
		o.private.noBackground = true
		afterlives(t, a.s, mem, o, func(t *testing.T, _ *Store, n *Namespace) { wantHeld(t, n, held) })
		return
	}
	clone := o
	clone.private.fs = mem.CrashClone(vfs.CrashOptions{KeepAll: rng.IntN(2) == 0})
	if rng.IntN(2) == 0 {
		loseIndex(t, clone.private.fs)
	}
	mustClose(t, a.s)
	s := mustOpen(t, clone)
	wantHeld(t, mustSpace(t, s), held)
	mustClose(t, s)
}

// meet runs some calls of both kinds on goroutines that begin together, and
// reports whether at least two of different sides were under way at once.
func meet(a *arena, x, y arenaCall, rng *rand.Rand) bool {
	var wg sync.WaitGroup
	var spans [2][][2]int64
	begin := make(chan struct{})
	for side, c := range []arenaCall{x, y} {
		calls := 3
		if c.name == "close" {
			calls = 1
		}
		keys := []int{rng.IntN(arenaKeys), rng.IntN(arenaKeys), rng.IntN(arenaKeys)}
		do := c.do(a)
		wg.Go(func() {
			<-begin
			for _, key := range keys[:calls] {
				from := a.clock.tick()
				do(key)
				spans[side] = append(spans[side], [2]int64{from, a.clock.tick()})
			}
		})
	}
	close(begin)
	wg.Wait()
	for _, p := range spans[0] {
		for _, q := range spans[1] {
			if p[0] < q[1] && q[0] < p[1] {
				return true
			}
		}
	}
	return false
}

// holds asks what version each key holds now; 0 is none.
func (a *arena) holds() (versions [arenaKeys]int) {
	for _, c := range a.history[len(a.history)-arenaKeys:] {
		versions[c.key] = c.version
	}
	return versions
}

func wantHeld(t *testing.T, n *Namespace, versions [arenaKeys]int) {
	t.Helper()
	for key, v := range versions {
		p, r := getBlock(t, n, key, arenaSize(key))
		switch {
		case v == 0 && r.Status != StatusMiss:
			t.Errorf("key %d: %s %v, and it held nothing", key, r.Status, r.Err)
		case v != 0 && r.Status != StatusOK:
			t.Errorf("key %d: %s %v, and it held version %d", key, r.Status, r.Err, v)
		case v != 0 && !bytes.Equal(p, arenaBytes(key, v)):
			t.Errorf("key %d: WRONG BYTES with status OK", key)
		}
	}
}
