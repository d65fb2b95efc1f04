package engine

import (
	"context"
	"sync"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
)

// fullStore (driven by the test) has no room for another segment and none that takes extents;
// block 0 lies in the oldest one.
func fullStore(t *testing.T, o Options) (*Store, *Namespace, int) {
	t.Helper()
	s := mustOpen(t, o)
	n := mustSpace(t, s)
	id := 0
	for ; s.roomFor(classFresh, 0); id++ {
		mustPut(t, n, blockOf(id, 0, raceSize))
		mustFlush(t, s)
	}
	if s.Stats().EvictedSegments != 0 {
		t.Fatal("evicted already")
	}
	s.retire(s.active[classFresh])
	return s, n, id
}

// TestSharerMakesRoom: a put that shares bytes of the very segment that has
// to be evicted for its own page does not wait for itself.
func TestSharerMakesRoom(t *testing.T) {
	s, n, _ := fullStore(t, testOptions(vfs.NewMem()))
	defer mustClose(t, s)
	if r := mustPut(t, n, twinOf(10_000)); r.Shared {
		t.Error("shares bytes of the segment that was evicted")
	}
	if st := s.Stats(); st.EvictedSegments == 0 {
		t.Error("nothing was evicted: the test tests nothing")
	}
	wantTwin(t, n, 10_000)
	wantStatus(t, n, 0, raceSize, StatusMiss)
}

// TestBatchLargerThanStore: one put of more than the store can hold evicts
// its own first blocks in the end, instead of waiting for itself.
func TestBatchLargerThanStore(t *testing.T) {
	for _, live := range []bool{false, true} {
		o := testOptions(vfs.NewMem())
		if live {
			o = liveOptions(vfs.NewMem())
		}
		s := mustOpen(t, o)
		n := mustSpace(t, s)
		batch := make([]PutBlock, 2*o.CapacityBytes/60000)
		for id := range batch {
			batch[id] = blockOf(id, 0, 60000)
		}
		for id, r := range n.Put(context.Background(), batch, PutOptions{Durable: true}) {
			if r.Status != StatusOK || !r.Durable {
				t.Fatalf("put %d: %v %v", id, r.Status, r.Err)
			}
		}
		wantBlock(t, n, len(batch)-1, 0, 60000)
		wantStatus(t, n, 0, 60000, StatusMiss)
		wantNoBuffers(t, s)
		mustClose(t, s)
	}
}

// TestEvictionNeedsNoBuffersOfPuts: puts that wait for room hold the memory
// of operations; the eviction they wait for must do without.
func TestEvictionNeedsNoBuffersOfPuts(t *testing.T) {
	o := testOptions(vfs.NewMem())
	s, n, _ := fullStore(t, o)
	defer mustClose(t, s)
	wantBlock(t, n, 0, 0, raceSize) // used: to be moved on
	for {
		buf, err := s.pool.TryGet(64 << 10)
		if err != nil {
			break
		}
		defer buf.Free()
	}
	mustEvict(t, s)
	if st := s.Stats(); st.MovedBlocks != 1 {
		t.Errorf("moved %d blocks, want 1", st.MovedBlocks)
	}
}

// TestLittleMemory: with memory for two blocks many puts and gets at once are
// served, shed or wait for each other, and none waits for ever.
func TestLittleMemory(t *testing.T) {
	checkLeaks(t)
	o := liveOptions(vfs.NewMem())
	o.MaxInflightBytes = 1 // raised to 4 blocks, two with their headers
	s := mustOpen(t, o)
	n := mustSpace(t, s)
	const size = 64 << 10
	mustPut(t, n, blockOf(0, 0, size))
	mustFlush(t, s)
	var wg sync.WaitGroup
	var shed, stored sync.Map
	for w := range 8 {
		wg.Go(func() {
			for i := range 12 {
				b := blockOf(0, 0, size) // equal bytes: compared with the stored ones
				b.Hash = hashOf(1000 + 100*w + i)
				switch r := putOne(n, b); r.Status {
				case StatusOK:
					stored.Store(string(b.Hash), r.Shared)
				case StatusShed:
					shed.Store(string(b.Hash), true)
				default:
					t.Errorf("put: %v %v", r.Status, r.Err)
				}
				p := make([]byte, 3000)
				r := n.Get(context.Background(), []GetBlock{{Hash: hashOf(0), Parts: []Part{
					{Plane: "k", OffsetBytes: 5, LengthBytes: 1000, Spans: [][]byte{p[:1000]}},
					{Plane: "v", OffsetBytes: 7, LengthBytes: 2000, Spans: [][]byte{p[1000:]}},
				}}}, GetOptions{})[0]
				if r.Status != StatusOK {
					t.Errorf("get: %v %v", r.Status, r.Err)
				}
			}
		})
	}
	wg.Wait()
	count := func(m *sync.Map) (n int) { m.Range(func(any, any) bool { n++; return true }); return n }
	if count(&stored) == 0 || count(&stored)+count(&shed) != 8*12 {
		t.Errorf("%d stored, %d shed of %d", count(&stored), count(&shed), 8*12)
	}
	// What was shed is not there, what was stored is.
	stored.Range(func(h, _ any) bool {
		if st := n.Has(context.Background(), [][]byte{[]byte(h.(string))})[0]; st != StatusOK {
			t.Errorf("stored block: %v", st)
		}
		return true
	})
	shed.Range(func(h, _ any) bool {
		if st := n.Has(context.Background(), [][]byte{[]byte(h.(string))})[0]; st != StatusMiss {
			t.Errorf("shed block: %v", st)
		}
		return true
	})
	wantNoBuffers(t, s)
	mustClose(t, s)
}
