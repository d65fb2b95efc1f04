package host

import (
	"bytes"
	"errors"
	"testing"
)

const mib = 1 << 20

func newCache(t *testing.T, capacityBytes int64) *Cache {
	t.Helper()
	c := New(capacityBytes)
	t.Cleanup(func() {
		c.Close()
		if inUse, cached, _ := c.pool.Stats(); inUse != 0 || cached != 0 {
			t.Errorf("after Close the pool has %d bytes in use and %d cached", inUse, cached)
		}
	})
	return c
}

func TestGetBindsToVersion(t *testing.T) {
	c := newCache(t, 8*mib)
	old := mustAdd(t, c, 1, 10, 5000, 100_000)
	mustHold(t, c, 1, old).Release()
	if b := c.Get(keyOf(1), Version{Seq: 9, Content: old.Content}); b != nil {
		t.Error("an older version was served")
	}
	mustHold(t, c, 1, old).Release() // who asked late takes nothing away
	if b := c.Get(keyOf(1), Version{Seq: 10, Content: [8]byte{1}}); b != nil {
		t.Error("other content was served")
	}
	if b := c.Get(keyOf(1), Version{Seq: 11, Content: old.Content}); b != nil {
		t.Error("a newer version was served with old bytes")
	}
	if b := c.Get(keyOf(1), old); b != nil {
		t.Error("a version that has a successor is kept")
	}
	if s := c.Stats(); s.Stale != 1 || s.Hits != 2 || s.Misses != 4 || s.Blocks != 0 {
		t.Errorf("stats %+v", s)
	}
}

func TestInsertKeepsNewest(t *testing.T) {
	c := newCache(t, 8*mib)
	v2 := mustAdd(t, c, 1, 20, 4096)
	mustAdd(t, c, 1, 19, 4096)
	mustHold(t, c, 1, v2).Release()
	v3 := mustAdd(t, c, 1, 21, 4096)
	mustHold(t, c, 1, v3).Release()
	if s := c.Stats(); s.Inserted != 2 || s.Blocks != 1 {
		t.Errorf("stats %+v", s)
	}
}

func TestRemove(t *testing.T) {
	c := newCache(t, 8*mib)
	v := mustAdd(t, c, 1, 20, 4096)
	c.Remove(keyOf(1), 19) // of an earlier put
	mustHold(t, c, 1, v).Release()
	c.Remove(keyOf(1), 20)
	c.Remove(keyOf(2), 20)
	if c.Get(keyOf(1), v) != nil {
		t.Error("removed, and still there")
	}
	if s := c.Stats(); s.Stale != 1 {
		t.Errorf("stats %+v", s)
	}
}

// TestReaderKeepsBytes: what a reader holds stays as it is while the cache
// turns over many times, counts, and is given back at the end.
func TestReaderKeepsBytes(t *testing.T) {
	c := newCache(t, 4*mib)
	v := mustAdd(t, c, 1, 1, 300_000)
	b := mustHold(t, c, 1, v)
	want := bytes.Clone(b.Planes()[0])
	c.Remove(keyOf(1), 1)
	for id := uint64(100); id < 200; id++ {
		mustAdd(t, c, id, id, 300_000)
		checkBound(t, c)
	}
	if err := b.Verify(); err != nil || !bytes.Equal(b.Planes()[0], want) {
		t.Errorf("the reader's bytes changed: %v", err)
	}
	if s := c.Stats(); s.LentBytes == 0 || s.Evicted == 0 {
		t.Errorf("stats %+v", s)
	}
	b.Retain()
	b.Release()
	if s := c.Stats(); s.LentBytes == 0 {
		t.Error("held twice, released once, and not lent any more")
	}
	b.Release()
	if s := c.Stats(); s.LentBytes != 0 {
		t.Errorf("stats %+v", s)
	}
}

// TestHeldBlocksAreNoRoom: with readers on all of it the cache refuses, and
// goes on when they have left.
func TestHeldBlocksAreNoRoom(t *testing.T) {
	c := newCache(t, 4*mib)
	var held []*Block
	for id := uint64(0); ; id++ {
		v, err := add(c, id, id+1, 500_000)
		if errors.Is(err, ErrNoRoom) {
			break
		}
		if err != nil || id > 100 {
			t.Fatalf("block %d: %v", id, err)
		}
		held = append(held, mustHold(t, c, id, v))
	}
	checkBound(t, c)
	if s := c.Stats(); s.Rejected != 1 || s.Evicted != 0 || int(s.Blocks) != len(held) {
		t.Errorf("%d held, stats %+v", len(held), s)
	}
	for _, b := range held {
		b.Release()
	}
	mustAdd(t, c, 200, 1, 500_000)
}

func TestRefused(t *testing.T) {
	c := newCache(t, 4*mib)
	for _, tc := range []struct {
		planes []int64
		want   error
	}{
		{[]int64{2 * mib}, ErrTooLarge},
		{[]int64{mib, 1}, ErrTooLarge},
		{nil, ErrInvalid},
		{[]int64{10, 0}, ErrInvalid},
		{[]int64{-5}, ErrInvalid},
	} {
		if _, err := c.New(tc.planes); !errors.Is(err, tc.want) {
			t.Errorf("planes %v: %v, expected %v", tc.planes, err, tc.want)
		}
	}
	c.Close()
	if _, err := c.New([]int64{10}); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	c.Close()
}

func TestNilCache(t *testing.T) {
	var c *Cache
	if c.Get(keyOf(1), Version{}) != nil || c.Stats() != (Stats{}) {
		t.Error("a nil cache holds something")
	}
	if _, err := c.New([]int64{1}); err == nil {
		t.Error("a nil cache gives room")
	}
	c.Remove(keyOf(1), 1)
	c.Close()
}

// TestCloseWhileLent: a view outlives the cache.
func TestCloseWhileLent(t *testing.T) {
	c := New(4 * mib)
	b := mustHold(t, c, 1, mustAdd(t, c, 1, 1, 100_000))
	late, err := c.New([]int64{5000})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if err := b.Verify(); err != nil {
		t.Error(err)
	}
	fillPlanes(late, 2, 2)
	c.Insert(keyOf(2), versionOf(late, 2), late)
	if s := c.Stats(); s.Blocks != 0 {
		t.Errorf("stats %+v", s)
	}
	late.Release()
	b.Release()
	if inUse, cached, _ := c.pool.Stats(); inUse != 0 || cached != 0 {
		t.Errorf("%d bytes in use, %d cached after the last release", inUse, cached)
	}
}

// TestScanLeavesUsedBlocks: a hundred times the cache in blocks that nobody
// asks for again does not push out what is asked for.
func TestScanLeavesUsedBlocks(t *testing.T) {
	c := newCache(t, 4*mib)
	versions := map[uint64]Version{}
	for id := uint64(0); id < 30; id++ {
		versions[id] = mustAdd(t, c, id, 1, 65536)
	}
	for range 2 {
		for id, v := range versions {
			mustHold(t, c, id, v).Release()
		}
	}
	for id := uint64(1000); id < 1000+6400; id++ {
		mustAdd(t, c, id, 1, 65536)
	}
	kept := 0
	for id, v := range versions {
		if b := c.Get(keyOf(id), v); b != nil {
			kept++
			b.Release()
		}
	}
	if kept < 25 {
		t.Errorf("%d of 30 blocks in use are left after a scan", kept)
	}
}
