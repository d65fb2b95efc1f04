package engine

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sealstone/sealstone/internal/vfs"
)

// TestInflightBytes: without memory puts are shed and nothing of them is
// visible, gets wait for their turn; and then all goes on.
func TestInflightBytes(t *testing.T) {
	checkLeaks(t)
	points := &rendezvous{}
	o := testOptions(vfs.NewMem())
	o.MaxInflightBytes = 1 // raised to 4 blocks of MaxBlockBytes
	o.private.points = points.at
	s := mustOpen(t, o)
	n := mustSpace(t, s)
	mustPut(t, n, blockOf(0, 0, raceSize))
	const size = 60000
	var puts []func() PutResult
	var held []*stop
	for id := 1; id <= 4; id++ { // each takes 64 KiB
		at := points.arm(t, "put:before-write")
		puts = append(puts, start(t, "a put", func() PutResult { return putOne(n, blockOf(id, 0, size)) }))
		at.wait(t)
		held = append(held, at)
	}
	st := s.Stats()
	if st.InflightBytesMax != 256*kib || st.InflightBytes != st.InflightBytesMax {
		t.Fatalf("%d of %d bytes in flight", st.InflightBytes, st.InflightBytesMax)
	}
	if r := putOne(n, blockOf(9, 0, size)); r.Status != StatusShed || !errors.Is(r.Err, ErrShed) || !strings.Contains(r.Err.Error(), "MaxInflightBytes") {
		t.Errorf("put without memory: %v %v", r.Status, r.Err)
	}
	wantStatus(t, n, 9, size, StatusMiss)
	p, b := getParts(0, raceSize)
	if r := n.Get(withSoon(t), []GetBlock{b}, GetOptions{})[0]; r.Status != StatusTimeout || !untouched(p) {
		t.Errorf("get without memory: %v %v", r.Status, r.Err)
	}
	waiting := start(t, "a get", func() GetResult { return n.Get(context.Background(), []GetBlock{b}, GetOptions{})[0] })
	for i, at := range held {
		at.open()
		if r := puts[i](); r.Status != StatusOK {
			t.Errorf("put: %v %v", r.Status, r.Err)
		}
	}
	if r := waiting(); r.Status != StatusOK || variantOf(0, p, 1) != 0 {
		t.Errorf("get that waited: %v %v", r.Status, r.Err)
	}
	mustPut(t, n, blockOf(9, 0, size))
	wantNoBuffers(t, s)
	mustClose(t, s)
}

// TestPendingBytes: what is not applied yet is bounded; past it puts are shed
// until the next sync.
func TestPendingBytes(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.MaxPendingBytes = 200_000
	s := mustOpen(t, o)
	defer mustClose(t, s)
	n := mustSpace(t, s)
	id := 0
	for ; id < 100; id++ {
		r := putOne(n, blockOf(id, 0, 30000))
		if r.Status == StatusShed {
			if !strings.Contains(r.Err.Error(), "MaxPendingBytes") {
				t.Errorf("shed: %v", r.Err)
			}
			break
		}
		if st := s.Stats(); st.PendingBytes > o.MaxPendingBytes+36864 {
			t.Fatalf("%d bytes pending", st.PendingBytes)
		}
	}
	if id < 5 || id == 100 {
		t.Fatalf("shed after %d puts", id)
	}
	wantStatus(t, n, id, 30000, StatusMiss)
	mustFlush(t, s)
	if st := s.Stats(); st.PendingBytes != 0 || st.PendingRecords != 0 {
		t.Errorf("%d bytes, %d records pending after a flush", st.PendingBytes, st.PendingRecords)
	}
	mustPut(t, n, blockOf(id, 0, 30000))
}

// TestSecondTouch: a hash is worth a write when it was asked for before.
func TestSecondTouch(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.Admission = AdmitSecondTouch
	s := mustOpen(t, o)
	defer mustClose(t, s)
	n := mustSpace(t, s)
	for _, want := range []Status{StatusShed, StatusOK} {
		if r := putOne(n, blockOf(0, 0, 5000)); r.Status != want {
			t.Errorf("put: %v %v, want %v", r.Status, r.Err, want)
		}
	}
	if l, err := n.Match(context.Background(), [][]byte{hashOf(1)}); err != nil || l.Blocks() != 0 {
		t.Fatalf("match: %v", err)
	}
	if r := putOne(n, blockOf(1, 0, 5000)); r.Status != StatusOK {
		t.Errorf("put of a hash that was matched: %v %v", r.Status, r.Err)
	}
	wantBlock(t, n, 0, 0, 5000)
	wantBlock(t, n, 1, 0, 5000)
}

// TestWriteBudget spreads bytes over the day: an hour's worth at once, and
// more as time goes on.
func TestWriteBudget(t *testing.T) {
	clock := newFakeClock()
	o := testOptions(vfs.NewMem())
	o.WriteBudgetBytesPerDay = 24 * 100_000
	o.private.now = clock.get
	s := mustOpen(t, o)
	defer mustClose(t, s)
	n := mustSpace(t, s)
	for id, want := range []Status{StatusOK, StatusOK, StatusShed} {
		if r := putOne(n, blockOf(id, 0, 40_000)); r.Status != want {
			t.Errorf("put %d: %v %v, want %v", id, r.Status, r.Err, want)
		}
	}
	if r := putOne(n, blockOf(0, 0, 40_000)); r.Status != StatusOK || !r.Existed {
		t.Errorf("put of a stored block: %+v, it writes nothing", r)
	}
	clock.add(12 * time.Minute) // 20,000 bytes
	if r := putOne(n, blockOf(2, 0, 40_000)); r.Status != StatusOK {
		t.Errorf("put after 12 minutes: %v %v", r.Status, r.Err)
	}
	clock.add(100 * time.Hour)
	for id, want := range []Status{StatusOK, StatusOK, StatusShed} {
		if r := putOne(n, blockOf(10+id, 0, 40_000)); r.Status != want {
			t.Errorf("put %d after days: %v %v, want %v", id, r.Status, r.Err, want)
		}
	}
	wantStatus(t, n, 12, 40_000, StatusMiss)
}

// TestMoveShare: an eviction moves at most the set share of a segment, the
// shallowest blocks first, and what is written in all stays within bounds.
func TestMoveShare(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	for id := range 5 { // a chain: block 0 is the shallowest
		b := blockOf(id, 0, raceSize)
		if id > 0 {
			b.Parent = hashOf(id - 1)
		}
		mustPut(t, n, b)
	}
	fillSegment(t, s, n, 5)
	mustFlush(t, s)
	for id := range 5 {
		wantBlock(t, n, id, 0, raceSize)
	}
	size := entryOf(t, s, n, 0).Bytes()
	fit := int64(defaultMoveShare * float64(s.room.segmentBytes) / float64(size))
	mustEvict(t, s)
	if st := s.Stats(); st.MovedBlocks != fit || st.MovedBytes != fit*size {
		t.Errorf("moved %d blocks, %d bytes; %d blocks fit", st.MovedBlocks, st.MovedBytes, fit)
	}
	for id := range 5 {
		if int64(id) < fit {
			wantBlock(t, n, id, 0, raceSize)
		} else {
			wantStatus(t, n, id, raceSize, StatusMiss)
		}
	}
	// A long run in which everything is used all the time.
	for id := 1000; id < 1600; id++ {
		mustPut(t, n, blockOf(id, 0, 60000))
		n.Touch(context.Background(), [][]byte{hashOf(id)})
	}
	st := s.Stats()
	if st.EvictedSegments < 20 {
		t.Fatalf("only %d evictions", st.EvictedSegments)
	}
	if a := st.WriteAmplification(); a < 1 || a > 1.6 {
		t.Errorf("write amplification %.2f (segments %d, moved %d, log %d, index %d, put %d)",
			a, st.WrittenBytes, st.MovedBytes, st.LogWrittenBytes, st.IndexWrittenBytes, st.PutBytes)
	}
	if st.DiskBytesMax > st.CapacityBytes || st.DiskBytes > st.DiskBytesMax {
		t.Errorf("disk %d, most %d, capacity %d", st.DiskBytes, st.DiskBytesMax, st.CapacityBytes)
	}
}

// TestStatsAddUp: the figures of a short history, one by one.
func TestStatsAddUp(t *testing.T) {
	o := testOptions(vfs.NewMem())
	s := mustOpen(t, o)
	defer mustClose(t, s)
	n := mustSpace(t, s)
	for id := range 10 {
		mustPut(t, n, blockOf(id, 0, 10_000))
	}
	mustPut(t, n, blockOf(0, 0, 10_000))
	putOne(n, blockOf(99, 0, 1<<20))
	wantBlock(t, n, 3, 0, 10_000)
	wantStatus(t, n, 77, 10_000, StatusMiss)
	mustMatch(t, n, 0, 1, 2).Release()
	mustDrop(t, n, 4)
	before := s.Stats()
	if before.PendingRecords == 0 && before.DurablePosition == before.LogEndPosition && before.AppliedPosition != before.LogEndPosition {
		t.Errorf("positions %d %d %d", before.AppliedPosition, before.DurablePosition, before.LogEndPosition)
	}
	mustFlush(t, s)
	st := s.Stats()
	size := entryOf(t, s, n, 0).Bytes()
	for name, c := range map[string]struct{ got, want int64 }{
		"PutBlocks": {st.PutBlocks, 10}, "PutBytes": {st.PutBytes, 100_000}, "PutExisted": {st.PutExisted, 1},
		"put OK": {st.PutStatus[StatusOK], 11}, "put TooLarge": {st.PutStatus[StatusTooLarge], 1},
		"get OK": {st.GetStatus[StatusOK], 1}, "get Miss": {st.GetStatus[StatusMiss], 1},
		"ServedBytes": {st.ServedBytes, 10_000}, "Dropped": {st.Dropped, 1},
		"MatchBlocks": {st.MatchBlocks, 3}, "MatchHits": {st.MatchHits, 3},
		"LiveBytes": {st.LiveBytes, 9 * size}, "WrittenBytes": {st.WrittenBytes, 10 * size},
		"LeasedBytes": {st.LeasedBytes, 0}, "InflightBytes": {st.InflightBytes, 0},
		"Segments": {int64(st.Segments), 1}, "Rebuilds": {int64(st.Rebuilds), 0}, "Quarantined": {st.Quarantined, 0},
		"CapacityBytes": {st.CapacityBytes, o.CapacityBytes}, "PendingBytes": {st.PendingBytes, 0},
	} {
		if c.got != c.want {
			t.Errorf("%s is %d, want %d", name, c.got, c.want)
		}
	}
	if st.VerifiedBytes < 10_000 || st.LogWrittenBytes == 0 || st.Syncs == 0 || st.IndexBytes < 0 || st.LogBytes == 0 {
		t.Errorf("%+v", st)
	}
	if st.DiskBytes < st.SegmentBytes+st.LogBytes || st.DiskBytesMax < st.DiskBytes || st.PathRead == "" {
		t.Errorf("disk %d of segments %d, log %d, index %d; most %d; path %q", st.DiskBytes, st.SegmentBytes, st.LogBytes, st.IndexBytes, st.DiskBytesMax, st.PathRead)
	}
	if st.CachedBufferBytes == 0 || st.HugePages == "" || st.HugePages == "none" && st.HugePagesReason == "" {
		t.Errorf("%d bytes of buffers kept, on %q pages because %q", st.CachedBufferBytes, st.HugePages, st.HugePagesReason)
	}
	if st.AppliedPosition != st.DurablePosition {
		t.Errorf("applied %d, durable %d after a flush", st.AppliedPosition, st.DurablePosition)
	}
}

// TestBuffers: aligned memory is given out, counted and given back.
func TestBuffers(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	defer mustClose(t, s)
	for _, size := range []int{0, -1, 1<<30 + 1} {
		if _, err := s.NewBuffer(size); !errors.Is(err, ErrInvalid) {
			t.Errorf("buffer of %d bytes: %v", size, err)
		}
	}
	b, err := s.NewBuffer(10_000)
	if err != nil || len(b.Bytes()) != 10_000 {
		t.Fatalf("%v, %d bytes", err, len(b.Bytes()))
	}
	if got := s.Stats().BufferBytes; got != 10_000 {
		t.Errorf("%d bytes of buffers", got)
	}
	n := mustSpace(t, s)
	copy(b.Bytes(), contentOf(0, 0, 10_000))
	put := PutBlock{Hash: hashOf(0), Planes: []PlaneData{{Name: "k", Spans: [][]byte{b.Bytes()[:1]}}, {Name: "v", Spans: [][]byte{b.Bytes()[1:]}}}}
	mustPut(t, n, put)
	clear(b.Bytes())
	r := n.Get(context.Background(), []GetBlock{{Hash: hashOf(0), Parts: []Part{
		{Plane: "k", Spans: [][]byte{b.Bytes()[:1]}}, {Plane: "v", Spans: [][]byte{b.Bytes()[1:]}},
	}}}, GetOptions{})[0]
	if r.Status != StatusOK || variantOf(0, b.Bytes(), 1) != 0 {
		t.Errorf("get: %v %v", r.Status, r.Err)
	}
	b.Free()
	b.Free()
	if got := s.Stats().BufferBytes; got != 0 || b.Bytes() != nil {
		t.Errorf("%d bytes of buffers after Free", got)
	}
}
