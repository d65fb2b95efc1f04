package engine

import (
	"context"
	"sync"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
)

// TestSameKeyFrom64 puts one key from 64 goroutines at once: one of them
// stores it, all others hear that it existed, and the bytes are one put's.
func TestSameKeyFrom64(t *testing.T) {
	checkLeaks(t)
	const writers, keys, size = 64, 12, 20000
	for _, c := range []struct {
		name     string
		variants int
	}{{"equal bytes", 1}, {"different bytes", writers}} {
		t.Run(c.name, func(t *testing.T) {
			fs := vfs.NewMem()
			o := liveOptions(fs)
			s := mustOpen(t, o)
			n := mustSpace(t, s)
			stored := make([]int, keys)
			for id := range keys {
				stored[id] = raceOneKey(t, n, id, writers, c.variants, size)
			}
			if st := s.Stats(); st.PutBlocks != keys || st.PutExisted != keys*(writers-1) {
				t.Errorf("stored %d blocks, %d existed; want %d and %d", st.PutBlocks, st.PutExisted, keys, keys*(writers-1))
			}
			mustFlush(t, s)
			afterlives(t, s, fs, o, func(t *testing.T, _ *Store, n *Namespace) {
				for id, v := range stored {
					wantBlock(t, n, id, v, size)
				}
			})
		})
	}
}

// raceOneKey returns the variant that was stored.
func raceOneKey(t *testing.T, n *Namespace, id, writers, variants, size int) int {
	t.Helper()
	results := make([]PutResult, writers)
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for w := range writers {
		b := blockOf(id, w%variants, size)
		wg.Go(func() {
			<-begin
			results[w] = putOne(n, b)
		})
	}
	close(begin)
	wg.Wait()
	winner := -1
	for w, r := range results {
		switch {
		case r.Status != StatusOK:
			t.Fatalf("key %d writer %d: %v %v", id, w, r.Status, r.Err)
		case !r.Existed && winner >= 0:
			t.Fatalf("key %d: writers %d and %d both stored it", id, winner, w)
		case !r.Existed:
			winner = w
		}
	}
	if winner < 0 {
		t.Fatalf("key %d: nobody stored it", id)
	}
	for w, r := range results {
		if want := w%variants != winner%variants; r.Differs != want {
			t.Fatalf("key %d: writer %d differs %v, want %v (stored by %d)", id, w, r.Differs, want, winner)
		}
	}
	wantBlock(t, n, id, winner%variants, size)
	return winner % variants
}

// TestBatchesOfEachOthersKeys puts batches whose keys other batches put in
// another order: nobody waits for ever.
func TestBatchesOfEachOthersKeys(t *testing.T) {
	checkLeaks(t)
	s := mustOpen(t, liveOptions(vfs.NewMem()))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	const batches, keys, rounds = 8, 16, 6
	for round := range rounds {
		var wg sync.WaitGroup
		news := make([]int, batches)
		for b := range batches {
			wg.Go(func() {
				batch := make([]PutBlock, keys)
				for i := range batch {
					batch[i] = blockOf(round*keys+(i*(2*b+1)+b)%keys, 0, 5000)
				}
				for i, r := range n.Put(context.Background(), batch, PutOptions{}) {
					if r.Status != StatusOK {
						t.Errorf("batch %d block %d: %v %v", b, i, r.Status, r.Err)
					}
					if !r.Existed {
						news[b]++
					}
				}
			})
		}
		wg.Wait()
		sum := 0
		for _, k := range news {
			sum += k
		}
		if sum != keys {
			t.Fatalf("round %d: %d blocks were new, want %d", round, sum, keys)
		}
	}
}

// TestPutDoesNotReadAfterReturn scribbles over all that a put was given as
// soon as it returned, in time or not. The race detector sees a late reader,
// and what is stored must be the bytes as they were.
func TestPutDoesNotReadAfterReturn(t *testing.T) {
	s := mustOpen(t, liveOptions(vfs.NewMem()))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	const rounds, size = 200, 40000
	var wg sync.WaitGroup
	for id := range rounds {
		b := blockOf(id, 0, size)
		seal := sealOf(id, 0, size)
		b.Seal = &seal
		ctx, cancel := context.WithCancel(context.Background())
		wg.Go(cancel) // somewhere in the middle of the put
		r := n.Put(ctx, []PutBlock{b}, PutOptions{})[0]
		for i := range b.Planes {
			for j := range b.Planes[i].Spans {
				clear(b.Planes[i].Spans[j])
				b.Planes[i].Spans[j] = nil
			}
			b.Planes[i].Name = "gone"
		}
		clear(b.Hash)
		clear(seal.ChunkSums)
		seal.ContentID = [16]byte{}
		if r.Status != StatusOK && r.Status != StatusTimeout {
			t.Fatalf("put %d: %v %v", id, r.Status, r.Err)
		}
		cancel()
	}
	wg.Wait()
	mustFlush(t, s)
	for id := range rounds {
		p, r := getBlock(t, n, id, size)
		if r.Status == StatusOK && variantOf(id, p, 1) != 0 {
			t.Fatalf("block %d: WRONG BYTES with status OK", id)
		}
	}
}

// sealOf is the seal of blockOf, whose planes stand in the layout's order k, v.
func sealOf(id, variant, size int) Seal {
	p := contentOf(id, variant, size)
	return SealOf(p[:size/3], p[size/3:])
}
