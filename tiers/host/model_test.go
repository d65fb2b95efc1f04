package host

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// TestAgainstMap: whatever is done, a hit is the latest version of the key
// that came in, and verifies; what the model lacks is a miss; the bound holds
// after every step; and at the end nothing is left.
func TestAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := New(rapid.Int64Range(mib, 6*mib).Draw(t, "capacity"))
		model := map[uint64]Version{}
		type holder struct {
			id uint64
			b  *Block
		}
		var held []holder
		id := rapid.Uint64Range(0, 40)
		seq := uint64(0)
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				k := id.Draw(t, "id")
				seq++
				v, err := add(c, k, seq, rapid.SliceOfN(rapid.Int64Range(1, 150_000), 1, 3).Draw(t, "planes")...)
				switch {
				case err == nil:
					model[k] = v
				case !errors.Is(err, ErrNoRoom) && !errors.Is(err, ErrTooLarge):
					t.Fatal(err)
				}
			},
			"get": func(t *rapid.T) {
				k := id.Draw(t, "id")
				b := c.Get(keyOf(k), model[k])
				if b == nil {
					return
				}
				if err := b.Verify(); err != nil || model[k].Seq == 0 {
					t.Fatalf("block %d, version %v: %v", k, model[k], err)
				}
				held = append(held, holder{k, b})
			},
			"release": func(t *rapid.T) {
				if len(held) == 0 {
					return
				}
				h := held[0]
				held = held[1:]
				if err := h.b.Verify(); err != nil {
					t.Fatalf("block %d, held: %v", h.id, err)
				}
				h.b.Release()
			},
			"remove": func(t *rapid.T) {
				k := id.Draw(t, "id")
				c.Remove(keyOf(k), model[k].Seq)
				delete(model, k)
			},
			"": func(t *rapid.T) {
				checkBound(t, c)
				if s := c.Stats(); int(s.Blocks) > len(model) {
					t.Fatalf("%d blocks, the model has %d", s.Blocks, len(model))
				}
			},
		})
		c.Close()
		for _, h := range held {
			h.b.Release()
		}
		if s := c.Stats(); s.Bytes-c.policy.OverheadBytes() != 0 || s.LentBytes != 0 || s.Blocks != 0 {
			t.Fatalf("left: %+v", s)
		}
	})
}

// TestRace: readers, writers and removers at once; every hit verifies.
func TestRace(t *testing.T) {
	c := newCache(t, 4*mib)
	rounds := 400
	if testing.Short() {
		rounds = 100
	}
	var mu sync.Mutex
	latest := map[uint64]Version{}
	look := func(id uint64) Version {
		mu.Lock()
		defer mu.Unlock()
		return latest[id]
	}
	var wg sync.WaitGroup
	fail := make(chan error, 16)
	for w := range uint64(6) {
		wg.Go(func() {
			for i := range uint64(rounds) {
				id := (i*7 + w) % 24
				switch {
				case w < 2:
					v, err := add(c, id, w+2*i+1, 90_000, 10)
					if err == nil {
						mu.Lock()
						latest[id] = v
						mu.Unlock()
					}
				case w == 2 && i%5 == 0:
					c.Remove(keyOf(id), look(id).Seq)
				default:
					b := c.Get(keyOf(id), look(id))
					if b == nil {
						continue
					}
					if err := b.Verify(); err != nil {
						fail <- fmt.Errorf("block %d: %w", id, err)
					}
					b.Release()
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-fail:
		t.Error(err)
	default:
	}
	checkBound(t, c)
	if s := c.Stats(); s.LentBytes != 0 || s.Inserted == 0 {
		t.Errorf("stats %+v", s)
	}
}

// TestCountedOverhead: what the cache counts for finding a block is no less
// than what the heap grows by.
func TestCountedOverhead(t *testing.T) {
	const blocks = 20_000
	c := newCache(t, 256*mib)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for id := range uint64(blocks) {
		mustAdd(t, c, id, 1, 3000)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	c.mu.Lock()
	counted := c.metaBytes
	c.mu.Unlock()
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > counted {
		t.Errorf("the heap grew by %d bytes a block, %d are counted", grown/blocks, counted/blocks)
	} else {
		t.Logf("%d bytes a block on the heap, %d counted", grown/blocks, counted/blocks)
	}
	runtime.KeepAlive(c)
}
