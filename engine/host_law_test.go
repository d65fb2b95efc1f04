package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/sealstone/sealstone/internal/faults/faulttest"
	"github.com/sealstone/sealstone/internal/vfs"
)

// TestLaw1HostFlip flips bits of blocks in memory: none is served. The block
// is read from disk instead, is not quarantined, and counts apart.
func TestLaw1HostFlip(t *testing.T) {
	y := faulttest.New(t)
	s := mustOpen(t, hostOptions(vfs.NewMem()))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	const size = 200_000
	mustPut(t, n, blockOf(1, 0, size))
	ways := []func(){
		func() { wantBlock(t, n, 1, 0, size) },
		func() { wantView(t, n, 1, 0, size) },
		func() { wantHostRanges(t, n, 1, size) },
	}
	for _, seed := range seedsToRun(t, 20, 2000) {
		y.Seeds(1)
		r := rand.New(rand.NewPCG(seed, 7))
		at, bit, way := r.IntN(size), r.IntN(8), r.IntN(len(ways))
		if way == 2 { // within the range that it asks for
			at = r.IntN(size / 3)
		}
		f := y.Try(fmt.Sprintf("bit %d of byte %d in memory, read in way %d", bit, at, way))
		before := s.Stats()
		if !flipInHost(t, n, 1, at, bit) {
			t.Fatal("the block is not in memory")
		}
		f.Fire()
		ways[way]()
		after := s.Stats()
		if after.Host.Corrupt != before.Host.Corrupt+1 || after.Fetches+after.ReadAlone == before.Fetches+before.ReadAlone {
			t.Fatalf("found %d times, %d reads of the disk", after.Host.Corrupt-before.Host.Corrupt, after.Fetches+after.ReadAlone-before.Fetches-before.ReadAlone)
		}
		if after.Quarantined != 0 || after.Rereads != 0 || s.Health().State != HealthOK {
			t.Fatalf("the disk is blamed: %d quarantined, %d rereads, health %v", after.Quarantined, after.Rereads, s.Health())
		}
		wantBlock(t, n, 1, 0, size) // fills the cache again, where a range did not
		f.Survive()
	}
	if !eventWith(s, EventHostMemory, "did not verify") {
		t.Error("nothing was said of it")
	}
}

// TestLaw1HostSums: the sums beside the bytes are held against the content id
// of the index, so that a flip there is found too.
func TestLaw1HostSums(t *testing.T) {
	y := faulttest.New(t)
	s := mustOpen(t, hostOptions(vfs.NewMem()))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	mustPut(t, n, blockOf(1, 0, 200_000))
	for i := range 4 {
		f := y.Try(fmt.Sprintf("sum %d in memory", i))
		b := hostHolds(t, n, 1)
		b.ChunkSums()[i] ^= 1 << (7 * i)
		b.Planes()[0][i*9] ^= 1 // and bytes, of the first chunk: only the sums say so of the others
		b.Release()
		f.Fire()
		wantBlock(t, n, 1, 0, 200_000)
		if h := s.Stats().Host; h.Corrupt != int64(i+1) {
			t.Fatalf("stats %+v", h)
		}
		f.Survive()
	}
}

// TestHostRace: gets, views, puts, drops, epochs, evictions and flips of bits
// in memory at once. What is OK has the bytes of the block's id and of a
// variant that was put in the epoch of the handle.
func TestHostRace(t *testing.T) {
	checkLeaks(t)
	o := liveOptions(vfs.NewMem())
	o.CapacityBytes, o.SegmentBytes, o.MaxBlockBytes = 12*mib, mib, 256*kib
	o.HostCacheBytes = 2 * mib
	s := mustOpen(t, o)
	rounds := 300
	if testing.Short() {
		rounds = 80
	}
	const ids, size = 40, 30_000
	var mu sync.Mutex
	now := mustSpace(t, s)
	handle := func() *Namespace {
		mu.Lock()
		defer mu.Unlock()
		return now
	}
	bump := func() {
		mu.Lock()
		defer mu.Unlock()
		now = mustBump(t, now)
	}
	check := func(n *Namespace, id int, p []byte) {
		// The variant is the epoch, so old bytes show.
		if string(p) != string(contentOf(id, int(n.Info().Epoch), size)) {
			t.Errorf("block %d: WRONG BYTES, or those of another epoch", id)
		}
	}
	var wg sync.WaitGroup
	for w := range 6 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 3))
			for i := range rounds {
				n, id := handle(), r.IntN(ids)
				switch {
				case w == 0:
					hostRaceWrite(n, id, i, size, bump)
				case w == 1 && i%4 == 0:
					if _, err := s.EvictOnce(context.Background()); err != nil {
						t.Errorf("evict: %v", err)
					}
				case w == 2:
					vs := n.View(context.Background(), [][]byte{hashOf(id), hashOf((id + 1) % ids)}, ViewOptions{})
					for j, v := range vs {
						if v.Status == StatusOK {
							check(n, (id+j)%ids, joinedPlanes(v.Planes))
						}
						v.Release()
					}
				default:
					if p, res := getBlock(t, n, id, size); res.Status == StatusOK {
						check(n, id, p)
					}
				}
				if w == 1 {
					putOne(n, blockOf(id, int(n.Info().Epoch), size))
				}
			}
		})
	}
	wg.Wait()
	h := s.Stats().Host
	if h.Hits == 0 || h.LentBytes != 0 || h.Bytes > h.CapacityBytes || h.Corrupt != 0 {
		t.Errorf("stats %+v", h)
	}
	mustClose(t, s)
}

// hostRaceWrite puts, and now and then drops or begins an epoch.
func hostRaceWrite(n *Namespace, id, i, size int, bump func()) {
	switch {
	case i%50 == 49:
		bump()
	case i%5 == 4:
		n.Drop(context.Background(), [][]byte{hashOf(id)})
	default:
		putOne(n, blockOf(id, int(n.Info().Epoch), size))
	}
}

func joinedPlanes(planes [][]byte) (all []byte) {
	for _, p := range planes {
		all = append(all, p...)
	}
	return all
}
