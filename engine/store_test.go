package engine

import (
	"context"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
)

func TestPutGetReopen(t *testing.T) {
	fs := vfs.NewMem()
	s := mustOpen(t, testOptions(fs))
	n := mustSpace(t, s)
	sizes := []int{3, 100, 4095, 4096, 4097, 40000, 64 << 10}
	for id, size := range sizes {
		mustPut(t, n, blockOf(id, 0, size))
	}
	for range 2 {
		for id, size := range sizes {
			wantBlock(t, n, id, 0, size)
		}
		wantStatus(t, n, 99, 10, StatusMiss)
		mustFlush(t, s)
	}
	mustClose(t, s)
	s = mustOpen(t, testOptions(fs))
	defer mustClose(t, s)
	n = mustSpace(t, s)
	written := s.Stats().WrittenBytes
	for id, size := range sizes {
		wantBlock(t, n, id, 0, size)
		if r := mustPut(t, n, blockOf(id, 0, size)); !r.Existed {
			t.Fatalf("put %d again: %+v", id, r)
		}
	}
	if got := s.Stats().WrittenBytes; got != written {
		t.Errorf("replaying the puts wrote %d bytes", got-written)
	}
	if s.rebuilds != 0 {
		t.Errorf("a clean reopen rebuilt the index")
	}
}

func TestEvict(t *testing.T) {
	fs := vfs.NewMem()
	s := mustOpen(t, testOptions(fs))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	for id := range 400 {
		mustPut(t, n, blockOf(id, 0, 60000))
		if id%10 == 0 {
			wantBlock(t, n, id, 0, 60000)
		}
	}
	st := s.Stats()
	if st.EvictedSegments == 0 || st.DiskBytesMax > st.CapacityBytes || st.MovedBlocks == 0 {
		t.Fatalf("evicted %d segments, moved %d, disk max %d of %d", st.EvictedSegments, st.MovedBlocks, st.DiskBytesMax, st.CapacityBytes)
	}
	hits := 0
	for id := range 400 {
		p, r := getBlock(t, n, id, 60000)
		if r.Status == StatusOK {
			hits++
			if string(p) != string(contentOf(id, 0, 60000)) {
				t.Fatal("wrong bytes")
			}
		} else if r.Status != StatusMiss {
			t.Fatalf("get %d: %v %v", id, r.Status, r.Err)
		}
	}
	if hits == 0 {
		t.Fatal("nothing left")
	}
	if r := n.Drop(context.Background(), [][]byte{hashOf(399)}); r[0].Status != StatusOK {
		t.Fatalf("drop: %+v", r[0])
	}
	wantStatus(t, n, 399, 60000, StatusMiss)
}

// TestPutOfManyBlocks: a batch whose records are more than one log file holds
// is logged in several groups.
func TestPutOfManyBlocks(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.CapacityBytes = 32 * mib
	s := mustOpen(t, o)
	n := mustSpace(t, s)
	blocks := make([]PutBlock, 600)
	for i := range blocks {
		blocks[i] = blockOf(i, 0, 10)
	}
	for i, r := range n.Put(context.Background(), blocks, PutOptions{}) {
		if r.Status != StatusOK {
			t.Fatalf("block %d: %v %v", i, r.Status, r.Err)
		}
	}
	if logged := s.Stats().LogWrittenBytes; logged <= s.room.logFileBytes {
		t.Fatalf("%d bytes of log: one file of %d holds that", logged, s.room.logFileBytes)
	}
	if evicted := s.Stats().EvictedBlocks; evicted != 0 {
		t.Fatalf("%d blocks evicted: the store is too small for the test", evicted)
	}
	mustClose(t, s)
	s = mustOpen(t, o)
	defer mustClose(t, s)
	n = mustSpace(t, s)
	for i := range blocks {
		wantBlock(t, n, i, 0, 10)
	}
}

// TestEventsClosedAtOnce: a ring may be closed before its goroutine has begun.
func TestEventsClosedAtOnce(t *testing.T) {
	for range 2000 {
		r := newEventRing(func(Event) {})
		r.close(context.Background())
		<-r.done
	}
}
