package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sealstone/sealstone/engine/meta"
	"github.com/sealstone/sealstone/internal/vfs"
)

// closeSoon gives Close a context that has ended, so that it answers at once.
func closeSoon(s *Store) error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return s.Close(ctx)
}

// TestCloseDuringOperation stops each kind of operation half-way. Close says
// ErrClosing and keeps the lock, what comes new is refused, what was begun
// comes to its end, and then the store closes.
func TestCloseDuringOperation(t *testing.T) {
	for _, c := range []struct {
		at string
		do func(s *Store, n *Namespace) Status
	}{
		{"read:acquired", func(_ *Store, n *Namespace) Status {
			_, b := getParts(0, raceSize)
			return n.Get(context.Background(), []GetBlock{b}, GetOptions{})[0].Status
		}},
		{"get:verified", func(_ *Store, n *Namespace) Status {
			_, b := getParts(0, raceSize)
			return n.Get(context.Background(), []GetBlock{b}, GetOptions{})[0].Status
		}},
		{"put:before-write", func(_ *Store, n *Namespace) Status { return putOne(n, blockOf(500, 0, raceSize)).Status }},
		{"put:before-log", func(_ *Store, n *Namespace) Status { return putOne(n, blockOf(500, 0, raceSize)).Status }},
		{"drop:before-log", func(_ *Store, n *Namespace) Status { return dropOne(n, 1).Status }},
		{"move:copied", evictStatus},
		{"evict:moved", evictStatus},
	} {
		t.Run(c.at, func(t *testing.T) {
			checkLeaks(t)
			mem, points := vfs.NewMem(), &rendezvous{}
			o := liveOptions(mem)
			o.private.points = points.at
			s, n := evictable(t, o)
			held := points.arm(t, c.at)
			done := start(t, "the operation", func() Status { return c.do(s, n) })
			held.wait(t)
			if err := closeSoon(s); !errors.Is(err, ErrClosing) {
				t.Fatalf("close: %v", err)
			}
			wantRefused(t, s, n)
			wantLocked(t, mem)
			held.open()
			if st := done(); st != StatusOK {
				t.Errorf("the operation under way answered %v", st)
			}
			mustClose(t, s)
			wantRefused(t, s, n)
			mustClose(t, s) // again: nothing
			s = mustOpen(t, testOptions(mem))
			wantBlock(t, mustSpace(t, s), 0, 0, raceSize)
			mustClose(t, s)
		})
	}
}

// wantLocked: the store's own lock is held, not only that of the index.
func wantLocked(t *testing.T, fs vfs.FS) {
	t.Helper()
	var locked *meta.LockedError
	if _, err := Open("mem", testOptions(fs)); !errors.As(err, &locked) {
		t.Fatalf("second open while closing: %v", err)
	}
}

func evictStatus(s *Store, _ *Namespace) Status {
	if ok, err := s.EvictOnce(context.Background()); !ok || err != nil {
		return StatusIOError
	}
	return StatusOK
}

// wantRefused calls everything on a store that is closing or closed.
func wantRefused(t *testing.T, s *Store, n *Namespace) {
	t.Helper()
	ctx, one := context.Background(), [][]byte{hashOf(0)}
	p, b := getParts(0, raceSize)
	if r := n.Get(ctx, []GetBlock{b}, GetOptions{})[0]; r.Status != StatusClosed || !errors.Is(r.Err, ErrClosed) || !untouched(p) {
		t.Errorf("get: %v %v", r.Status, r.Err)
	}
	if r := putOne(n, blockOf(900, 0, 100)); r.Status != StatusClosed || !errors.Is(r.Err, ErrClosed) {
		t.Errorf("put: %v %v", r.Status, r.Err)
	}
	if r := dropOne(n, 0); r.Status != StatusClosed || !errors.Is(r.Err, ErrClosed) {
		t.Errorf("drop: %v %v", r.Status, r.Err)
	}
	if st := n.Has(ctx, one)[0]; st != StatusClosed {
		t.Errorf("has: %v", st)
	}
	if st := n.Touch(ctx, one)[0]; st != StatusClosed {
		t.Errorf("touch: %v", st)
	}
	_, matchErr := n.Match(ctx, one)
	_, bumpErr := n.BumpEpoch(ctx)
	_, spaceErr := s.Namespace(ctx, testLayout(), "other", NamespaceOptions{})
	_, evictErr := s.EvictOnce(ctx)
	for call, err := range map[string]error{
		"match": matchErr, "bump": bumpErr, "namespace": spaceErr, "evict": evictErr, "flush": s.Flush(ctx),
		"submit": s.Submit(&GetOp{Namespace: n}, func() { t.Error("done of an operation that was refused") }),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", call, err)
		}
	}
	s.Stats() // has nothing to refuse
	s.Events(0)
	if st := s.Health().State; s.closed && st != HealthClosed {
		t.Errorf("health %v", st)
	}
}

// TestEverythingAtOnce lets all operations race on few keys while segments
// are evicted and epochs bumped, and closes in the middle. A get with status
// OK gave one put's bytes of that key, whole; any other left its memory alone.
func TestEverythingAtOnce(t *testing.T) {
	checkLeaks(t)
	mem := vfs.NewMem()
	o := liveOptions(mem)
	o.CapacityBytes = 4 * mib
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for life := range 3 {
		s := mustOpen(t, o)
		runEverything(t, s, seed+uint64(life))
		if life == 1 {
			loseIndex(t, mem)
		}
	}
}

const (
	everyKeys     = 24
	everyVariants = 4
)

func runEverything(t *testing.T, s *Store, seed uint64) {
	var space atomic.Pointer[Namespace]
	space.Store(mustSpace(t, s))
	var wg sync.WaitGroup
	var ops atomic.Int64
	const opsMax = 3000
	for w := range 12 {
		rng := rand.New(rand.NewPCG(seed, uint64(w)))
		wg.Go(func() {
			for ops.Add(1) < opsMax+1000 { // the last thousand meet the close
				oneOfEverything(t, s, &space, rng)
			}
		})
	}
	eventually(t, "most is done", func() bool {
		time.Sleep(time.Millisecond) // gives the processor away, decides nothing
		return ops.Load() >= opsMax
	})
	mustClose(t, s)
	wg.Wait()
	for _, e := range s.Events(0) {
		if e.Kind == EventHealth && s.Health().Reasons != nil || e.Kind == EventIndexTrouble || e.Kind == EventSyncFailed || e.Kind == EventQuarantine {
			t.Errorf("%s", e)
		}
	}
}

func sizeOf(id int) int { return 500 + 2100*id }

func oneOfEverything(t *testing.T, s *Store, space *atomic.Pointer[Namespace], rng *rand.Rand) {
	ctx := context.Background()
	if rng.IntN(8) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(rng.IntN(300))*time.Microsecond)
		defer cancel()
	}
	n, id := space.Load(), rng.IntN(everyKeys)
	switch k := rng.IntN(100); {
	case k < 35:
		p, b := getParts(id, sizeOf(id))
		r := n.Get(ctx, []GetBlock{b}, GetOptions{})[0]
		switch {
		case r.Status == StatusOK && variantOf(id, p, everyVariants) < 0:
			t.Errorf("get %d: WRONG BYTES with status OK", id)
		case r.Status != StatusOK && !untouched(p):
			t.Errorf("get %d: status %v and the destination was written", id, r.Status)
		case r.Status == StatusCorrupt, r.Status == StatusIOError:
			t.Errorf("get %d: %v %v", id, r.Status, r.Err)
		}
	case k < 75:
		b := blockOf(id, rng.IntN(everyVariants), sizeOf(id))
		if rng.IntN(4) == 0 {
			b.Parent = hashOf(rng.IntN(everyKeys))
		}
		r := n.Put(ctx, []PutBlock{b}, PutOptions{Durable: rng.IntN(16) == 0})[0]
		if r.Status == StatusIOError || r.Status == StatusCorrupt {
			t.Errorf("put %d: %v %v", id, r.Status, r.Err)
		}
	case k < 85:
		if r := n.Drop(ctx, [][]byte{hashOf(id)})[0]; r.Status == StatusIOError {
			t.Errorf("drop %d: %v %v", id, r.Status, r.Err)
		}
	case k < 92:
		if l, err := n.Match(ctx, [][]byte{hashOf(id), hashOf(rng.IntN(everyKeys))}); err == nil && rng.IntN(2) == 0 {
			l.Release()
		}
	case k < 96:
		n.Touch(ctx, [][]byte{hashOf(id)})
		s.Stats()
	case k < 99:
		_, _ = s.EvictOnce(ctx)
	default:
		if m, err := n.BumpEpoch(ctx); err == nil {
			space.Store(m)
		}
	}
}
