package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
)

// TestCompactBesideOthers compacts again and again while other goroutines put,
// get, drop and evict. A get answers the block's own bytes or a miss, and what
// was put durably, not dropped and not evicted is found in the end, also by a
// rebuild.
func TestCompactBesideOthers(t *testing.T) {
	checkLeaks(t)
	mem := vfs.NewMem()
	s := mustOpen(t, liveOptions(mem))
	n := mustSpace(t, s)
	const writers, keys = 3, 24
	rounds := 60
	if testing.Short() {
		rounds = 8
	}
	var stop atomic.Bool
	var work, others sync.WaitGroup
	kept := make([]map[int]bool, writers) // what each writer has stored
	for w := range writers {
		work.Go(func() { kept[w] = compactWriter(t, n, w*keys, keys, rounds) })
	}
	others.Go(func() {
		rng := rand.New(rand.NewPCG(1, 1))
		for !stop.Load() {
			id := rng.IntN(writers * keys)
			p, r := getBlock(t, n, id, compactBlock)
			if r.Status == StatusOK && string(p) != string(contentOf(id/2, 0, compactBlock)) {
				t.Errorf("get %d: WRONG BYTES with status OK", id)
			}
			if r.Status != StatusOK && r.Status != StatusMiss {
				t.Errorf("get %d: %v %v", id, r.Status, r.Err)
			}
		}
	})
	compactions := 0
	others.Go(func() {
		for !stop.Load() {
			r, err := s.Compact(context.Background(), CompactOptions{TargetShare: 1})
			if err != nil && !errors.Is(err, ErrShed) {
				t.Errorf("compact: %v", err)
			}
			compactions += r.Removed
		}
	})
	work.Wait()
	stop.Store(true)
	others.Wait()
	if compactions == 0 {
		t.Error("no segment was compacted")
	}
	mustClose(t, s)
	lose(t, mem, crashPlan{loseIndex: true})
	s = mustOpen(t, testOptions(mem))
	defer mustClose(t, s)
	n = mustSpace(t, s)
	for w := range writers {
		for i := range keys {
			id := w*keys + i
			_, r := getBlock(t, n, id, compactBlock)
			if want := kept[w][id]; want != (r.Status == StatusOK) {
				t.Errorf("block %d: stored %v, and a get after a rebuild says %v", id, want, r.Status)
			}
		}
	}
}

// compactWriter puts and drops its own keys; two neighbours have equal bytes,
// so that aliases come and go.
func compactWriter(t *testing.T, n *Namespace, first, keys, rounds int) map[int]bool {
	rng := rand.New(rand.NewPCG(uint64(first), 2))
	stored := map[int]bool{}
	for range rounds {
		for range keys / 2 {
			id := first + rng.IntN(keys)
			if stored[id] {
				if r := n.Drop(context.Background(), [][]byte{hashOf(id)})[0]; r.Status != StatusOK {
					t.Errorf("drop %d: %v %v", id, r.Status, r.Err)
				}
				delete(stored, id)
				continue
			}
			b := blockOf(id/2, 0, compactBlock)
			b.Hash = hashOf(id)
			if r := putOne(n, b); r.Status != StatusOK {
				t.Errorf("put %d: %v %v", id, r.Status, r.Err)
			}
			stored[id] = true
		}
	}
	return stored
}

// TestCompactYields: an eviction that waits gets its turn between two blocks.
func TestCompactYields(t *testing.T) {
	mem := vfs.NewMem()
	var meet rendezvous
	o := liveOptions(mem)
	o.private.points = meet.at
	s := mustOpen(t, o)
	defer mustClose(t, s)
	n := mustSpace(t, s)
	for id := range 120 {
		mustPut(t, n, blockOf(id, 0, compactBlock))
	}
	dropAll(t, n, 120, func(id int) bool { return id%2 == 1 })
	mustFlush(t, s)
	moving := meet.arm(t, "move:copied")
	compacted := start(t, "the compaction", func() error {
		_, err := s.Compact(context.Background(), CompactOptions{TargetShare: 1})
		return err
	})
	moving.wait(t)
	evicted := start(t, "the eviction", func() error {
		_, err := s.EvictOnce(context.Background())
		return err
	})
	eventually(t, "the eviction waits", func() bool { return s.evictWanted.Load() == 1 })
	moving.open()
	if err := evicted(); err != nil {
		t.Errorf("evict: %v", err)
	}
	if err := compacted(); err != nil {
		t.Errorf("compact: %v", err)
	}
}
