package engine

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
)

const raceSize = 30000

// evictable is a store whose oldest segment holds block 0, which was used, so
// that an eviction moves it on.
func evictable(t *testing.T, o Options) (*Store, *Namespace) {
	t.Helper()
	s := mustOpen(t, o)
	n := mustSpace(t, s)
	mustPut(t, n, blockOf(0, 0, raceSize))
	fillSegment(t, s, n, 1)
	mustFlush(t, s)
	wantBlock(t, n, 0, 0, raceSize)
	return s, n
}

// TestDropDuringMove drops a block at each point of an eviction that moves
// it on: it must not come back with the copy (rules dropkey, deadtomb).
func TestDropDuringMove(t *testing.T) {
	for _, at := range []string{"evict:drained", "move:copied", "evict:moved", "evict:applied"} {
		for _, again := range []bool{false, true} {
			name := at
			if again {
				name += " and put again"
			}
			t.Run(name, func(t *testing.T) { dropDuringMove(t, at, again) })
		}
	}
}

func dropDuringMove(t *testing.T, at string, again bool) {
	checkLeaks(t)
	fs, points := vfs.NewMem(), &rendezvous{}
	o := testOptions(fs)
	o.private.points = points.at
	s, n := evictable(t, o)
	held := points.arm(t, at)
	evicted := start(t, "the eviction", func() error { _, err := s.EvictOnce(context.Background()); return err })
	held.wait(t)
	mustDrop(t, n, 0)
	wantStatus(t, n, 0, raceSize, StatusMiss)
	if again {
		mustPut(t, n, blockOf(0, 7, raceSize))
	}
	held.open()
	if err := evicted(); err != nil {
		t.Fatal(err)
	}
	mustFlush(t, s)
	afterlives(t, s, fs, o, func(t *testing.T, _ *Store, n *Namespace) {
		if again {
			wantBlock(t, n, 0, 7, raceSize)
		} else {
			wantStatus(t, n, 0, raceSize, StatusMiss)
		}
	})
}

// TestMoveDuringDrop stops a drop while an eviction moves its block on: the
// record of the drop stands behind that of the move, or even that of the
// eviction has to wait for it.
func TestMoveDuringDrop(t *testing.T) {
	for _, at := range []string{"drop:before-tombstone", "drop:before-log"} {
		t.Run(at, func(t *testing.T) {
			checkLeaks(t)
			fs, points := vfs.NewMem(), &rendezvous{}
			o := liveOptions(fs)
			o.private.points = points.at
			s, n := evictable(t, o)
			// The eviction has begun; a drop may still write to the sidecar
			// until the EVICT is logged.
			drained := points.arm(t, "evict:drained")
			evicted := start(t, "the eviction", func() error { _, err := s.EvictOnce(context.Background()); return err })
			drained.wait(t)
			before := points.arm(t, at)
			dropped := start(t, "the drop", func() Result { return dropOne(n, 0) })
			before.wait(t)
			moved := points.arm(t, "evict:moved")
			drained.open()
			moved.wait(t) // the copy is applied, the drop is not logged
			if s.Stats().MovedBlocks != 1 {
				t.Fatalf("moved %d blocks, want 1", s.Stats().MovedBlocks)
			}
			wantBlock(t, n, 0, 0, raceSize)
			moved.open()
			before.open()
			if r := dropped(); r.Status != StatusOK {
				t.Fatalf("drop: %v %v", r.Status, r.Err)
			}
			if err := evicted(); err != nil {
				t.Fatal(err)
			}
			mustFlush(t, s)
			o.private.noBackground = true
			afterlives(t, s, fs, o, func(t *testing.T, _ *Store, n *Namespace) {
				wantStatus(t, n, 0, raceSize, StatusMiss)
			})
		})
	}
}

// TestEvictWaitsForDrop: a drop that holds the segment before the eviction
// chose it is waited for.
func TestEvictWaitsForDrop(t *testing.T) {
	checkLeaks(t)
	fs, points := vfs.NewMem(), &rendezvous{}
	o := liveOptions(fs)
	o.private.points = points.at
	s, n := evictable(t, o)
	held := points.arm(t, "drop:before-log")
	dropped := start(t, "the drop", func() Result { return dropOne(n, 0) })
	held.wait(t)
	evicted := start(t, "the eviction", func() error { _, err := s.EvictOnce(context.Background()); return err })
	eventually(t, "the eviction has begun", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return oldestSegment(s).victim
	})
	if s.Stats().EvictedSegments != 0 {
		t.Fatal("evicted under a drop")
	}
	held.open()
	if r := dropped(); r.Status != StatusOK {
		t.Fatalf("drop: %v %v", r.Status, r.Err)
	}
	if err := evicted(); err != nil {
		t.Fatal(err)
	}
	if st := s.Stats(); st.MovedBlocks != 0 || st.EvictedSegments != 1 {
		t.Errorf("moved %d blocks, evicted %d segments; want 0 and 1", st.MovedBlocks, st.EvictedSegments)
	}
	afterlives(t, s, fs, o, func(t *testing.T, _ *Store, n *Namespace) { wantStatus(t, n, 0, raceSize, StatusMiss) })
}

func oldestSegment(s *Store) *segment {
	var oldest *segment
	for _, seg := range s.segs {
		if oldest == nil || seg.id < oldest.id {
			oldest = seg
		}
	}
	return oldest
}

// TestEvictIdleStore: the oldest segment may be one that takes extents still,
// with nothing to sync or to apply.
func TestEvictIdleStore(t *testing.T) {
	for _, live := range []bool{false, true} {
		o := testOptions(vfs.NewMem())
		name := "driven"
		if live {
			o, name = liveOptions(o.private.fs), "by itself"
		}
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			s, n := evictable(t, o)
			mustEvict(t, s) // block 0 is moved on
			wantBlock(t, n, 0, 0, raceSize)
			for range 4 { // among them the segment of moved blocks, idle and not full
				ok, err := s.EvictOnce(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					break
				}
			}
			mustClose(t, s)
		})
	}
}

// TestReadOfEvicted: a read that holds the segment gets its bytes although
// the file is unlinked meanwhile, and one that comes later misses.
func TestReadOfEvicted(t *testing.T) {
	checkLeaks(t)
	points := &rendezvous{}
	o := testOptions(vfs.NewMem())
	o.MoveShare = -1 // nothing is moved on
	o.private.points = points.at
	s, n := evictable(t, o)
	defer mustClose(t, s)
	held := points.arm(t, "read:acquired")
	p, b := getParts(0, raceSize)
	got := start(t, "the get", func() GetResult { return n.Get(context.Background(), []GetBlock{b}, GetOptions{})[0] })
	held.wait(t)
	before := s.Stats().SegmentBytes
	mustEvict(t, s)
	if after := s.Stats().SegmentBytes; after < before-sidecarBytes {
		t.Errorf("%d bytes are given free while the unlinked file is open", before-after)
	}
	wantStatus(t, n, 0, raceSize, StatusMiss)
	held.open()
	if r := got(); r.Status != StatusOK || variantOf(0, p, 1) != 0 {
		t.Fatalf("get: %v %v", r.Status, r.Err)
	}
	if after := s.Stats().SegmentBytes; after >= before-sidecarBytes {
		t.Error("the last reader left and no space came back")
	}
}

// TestGetDuringDrop: a get that has verified its bytes may answer OK although
// the block is dropped, never with other bytes.
func TestGetDuringDrop(t *testing.T) {
	for _, at := range []string{"read:acquired", "get:verified"} {
		t.Run(at, func(t *testing.T) {
			points := &rendezvous{}
			o := testOptions(vfs.NewMem())
			o.private.points = points.at
			s := mustOpen(t, o)
			defer mustClose(t, s)
			n := mustSpace(t, s)
			mustPut(t, n, blockOf(0, 0, raceSize))
			held := points.arm(t, at)
			p, b := getParts(0, raceSize)
			got := start(t, "the get", func() GetResult { return n.Get(context.Background(), []GetBlock{b}, GetOptions{})[0] })
			held.wait(t)
			mustDrop(t, n, 0)
			mustPut(t, n, blockOf(0, 1, raceSize))
			held.open()
			if r := got(); r.Status != StatusOK || variantOf(0, p, 1) != 0 {
				t.Fatalf("get: %v %v, bytes of variant %d", r.Status, r.Err, variantOf(0, p, 2))
			}
			wantBlock(t, n, 0, 1, raceSize)
		})
	}
}

// TestSegmentListedDuringApply lists the keys of a segment while they are
// bound and unbound: what changes in between is no damage.
func TestSegmentListedDuringApply(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	const blocks, rounds = 25, 150
	var segment atomic.Uint64
	stop := make(chan struct{})
	lister := start(t, "the lister", func() error {
		for {
			if _, err := s.idx.SegmentKeys(context.Background(), segment.Load()); err != nil {
				return err
			}
			select {
			case <-stop:
				return nil
			default:
			}
		}
	})
	for range rounds {
		var hashes [][]byte
		for id := range blocks {
			putOne(n, blockOf(id, 0, 500))
			hashes = append(hashes, hashOf(id))
		}
		s.mu.Lock()
		segment.Store(s.active[classFresh].id)
		s.mu.Unlock()
		_ = s.Flush(context.Background())
		n.Drop(context.Background(), hashes)
		_ = s.Flush(context.Background())
	}
	close(stop)
	if err := lister(); err != nil {
		t.Error(err)
	}
	if h := s.Health(); h.State != HealthOK {
		t.Errorf("health %+v", h)
	}
}
