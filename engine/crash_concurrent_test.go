package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/sealstone/sealstone/internal/vfs"
)

// herd is several goroutines at work on one store that has its own background
// goroutines too. Each worker owns some keys, so that it knows what they must
// hold; contents, segments and log are shared by all.
type herd struct {
	t    *testing.T
	seed uint64
	s    *Store
	n    *Namespace
	m    *crashModel
	// evicting: segments go at any time, and absence is no error.
	evicting bool

	mem   *vfs.Mem
	mu    sync.Mutex
	plans []crashPlan // those still to come, by operation
	left  []crashed
	names []string
}

const (
	herdWorkers = 3
	herdKeys    = 12
	herdSteps   = 25
)

// TestLaw3CrashConcurrent crashes a store at random operations while puts,
// drops, gets, syncs and evictions run at the same time. Which operation comes
// where is not the same in every run of a seed.
func TestLaw3CrashConcurrent(t *testing.T) {
	seeds := seedsToRun(t, 40, 3000)
	for _, seed := range seeds {
		runHerd(t, seed)
		if t.Failed() {
			t.Fatalf("seed %d (SEALSTONE_SEED=%d draws the same operations again)", seed, seed)
		}
	}
	t.Logf("%d histories from seed %d on", len(seeds), seeds[0])
}

func runHerd(t *testing.T, seed uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 2))
	h := &herd{t: t, seed: seed, mem: vfs.NewMem(), m: newModel(herdKeys), evicting: rng.IntN(2) == 0}
	for range 4 {
		p := randomCrash(rng)
		p.at = 40 + uint64(rng.IntN(300))
		h.plans = append(h.plans, p)
	}
	o := modelOptions(vfs.WithHook(h.mem, h.crashAt))
	o.private.noBackground, o.private.now, o.SyncInterval = false, time.Now, time.Millisecond
	o.MoveShare = []float64{0.25, 1}[rng.IntN(2)]
	h.s = mustOpen(t, o)
	h.n = mustSpace(t, h.s)
	h.m.all(func(k *modelKey) { k.mayMiss = h.evicting })
	h.work(rng)
	h.crashNow(crashPlan{options: vfs.CrashOptions{}}, "the end")
	mustClose(t, h.s)
	for i, left := range h.left {
		for _, lost := range []crashPlan{{}, {loseIndex: true}, {loseLog: true}} {
			clone := left.fs.CrashClone(vfs.CrashOptions{KeepAll: true})
			lose(t, clone, lost)
			s := mustOpen(t, modelOptions(clone))
			left.m.snapshot(vfs.CrashOptions{KeepAll: true}).check(t, s, mustSpace(t, s), lost.loseLog,
				fmt.Sprintf("seed %d, %s, index lost %v, log lost %v", seed, h.names[i], lost.loseIndex, lost.loseLog))
			mustClose(t, s)
		}
	}
}

// crashAt is the hook of the file system.
func (h *herd) crashAt(op vfs.Op) error {
	if !op.Mutates() {
		return nil
	}
	h.mu.Lock()
	var due []crashPlan
	rest := h.plans[:0]
	for _, p := range h.plans {
		if op.Index >= p.at {
			due = append(due, p)
		} else {
			rest = append(rest, p)
		}
	}
	h.plans = rest
	h.mu.Unlock()
	for _, p := range due {
		h.crashNow(p, fmt.Sprintf("%s: %s", p, op))
	}
	return nil
}

// crashNow takes a clone. No operation begins or is acknowledged meanwhile, as
// far as the model goes: what is under way may be done or not.
func (h *herd) crashNow(p crashPlan, name string) {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	c := crashed{m: h.m.snapshotLocked(p.options), fs: h.mem.CrashClone(p.options)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.left, h.names = append(h.left, c), append(h.names, name)
}

// work runs the workers to their ends, and beside them who evicts and who
// flushes the index.
func (h *herd) work(rng *rand.Rand) {
	var workers, others sync.WaitGroup
	done := make(chan struct{})
	for w := range herdWorkers {
		seed := rng.Uint64()
		workers.Go(func() { h.worker(w, rand.New(rand.NewPCG(seed, 3))) })
	}
	others.Go(func() { h.until(done, func() { _ = h.s.idx.Flush(context.Background()) }) })
	if h.evicting {
		others.Go(func() {
			h.until(done, func() {
				if _, err := h.s.EvictOnce(context.Background()); err != nil {
					h.t.Errorf("evict: %v", err)
				}
			})
		})
	}
	workers.Wait()
	close(done)
	others.Wait()
}

// until repeats fn, each time after something was synced or applied.
func (h *herd) until(done chan struct{}, fn func()) {
	for {
		h.s.mu.Lock()
		moved := h.s.moved
		h.s.mu.Unlock()
		select {
		case <-done:
			return
		case <-moved:
			fn()
		}
	}
}

func (h *herd) worker(w int, rng *rand.Rand) {
	for range herdSteps {
		k := w + herdWorkers*rng.IntN(herdKeys/herdWorkers)
		var err error
		switch p := rng.IntN(100); {
		case p < 50:
			err = h.put(w, rng, k)
		case p < 70:
			err = h.drop(w, k)
		case p < 75:
			if err = h.s.Flush(context.Background()); err == nil {
				h.durable(w)
			}
		case p < 80:
			_, err = h.n.Match(context.Background(), [][]byte{hashOf(k)})
		default:
			err = h.get(k)
		}
		if err != nil {
			h.t.Errorf("worker %d key %d: %v", w, k, err)
			return
		}
	}
}

// durable notes that all that the worker was told is durable.
func (h *herd) durable(w int) {
	for k := w; k < herdKeys; k += herdWorkers {
		h.m.with(k, (*modelKey).nowDurable)
	}
}

// put stores one key, or two in a batch, perhaps durably.
func (h *herd) put(w int, rng *rand.Rand, k int) error {
	keys := []int{k}
	if other := w + herdWorkers*rng.IntN(herdKeys/herdWorkers); other != k {
		keys = append(keys, other)
	}
	var blocks []PutBlock
	var contents []int
	for i, k := range keys {
		contents = append(contents, rng.IntN(modelContents))
		blocks = append(blocks, modelBlock(k, contents[i]))
		h.m.with(k, func(mk *modelKey) { mk.putting = contents[i] })
	}
	durable := rng.IntN(3) == 0
	var err error
	for i, r := range h.n.Put(context.Background(), blocks, PutOptions{Durable: durable}) {
		h.m.with(keys[i], func(mk *modelKey) {
			if e := mk.wasPut(contents[i], r); e != nil {
				err = e
			}
			mk.mayMiss = h.evicting
			if durable && r.Status == StatusOK && !r.Existed {
				mk.nowDurable()
			}
		})
	}
	return err
}

func (h *herd) drop(w, k int) (err error) {
	h.m.with(k, func(mk *modelKey) { mk.dropping = true })
	r := h.n.Drop(context.Background(), [][]byte{hashOf(k)})[0]
	h.m.with(k, func(mk *modelKey) {
		mk.dropping = false
		switch {
		case r.Status == StatusOK && mk.set, r.Status == StatusMiss && (!mk.set || mk.mayMiss):
			if r.Status == StatusOK {
				mk.undone = nil
			} else if mk.set {
				mk.undone = map[int]bool{mk.content: true}
			}
			mk.set, mk.orphans = false, map[int]bool{}
		default:
			err = fmt.Errorf("drop: %v %w; stored %v", r.Status, r.Err, mk.set)
		}
	})
	if r.Status == StatusOK {
		h.durable(w)
	}
	return err
}

func (h *herd) get(k int) (err error) {
	got, status := readContent(h.n, k)
	h.m.with(k, func(mk *modelKey) {
		switch {
		case status == StatusMiss && (!mk.set || mk.mayMiss):
		case status == StatusOK && mk.set && got == mk.content:
		default:
			err = fmt.Errorf("get: %v, content %d; stored %v, content %d", status, got, mk.set, mk.content)
		}
	})
	return err
}
