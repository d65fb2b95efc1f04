package engine

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
	"pgregory.net/rapid"
)

const compactBlock = 8000

// compactStore fills a store with blocks 0 to n-1 and closes it.
func compactStore(t *testing.T, fs vfs.FS, n int, drop func(id int) bool) {
	t.Helper()
	s := mustOpen(t, testOptions(fs))
	space := mustSpace(t, s)
	for id := range n {
		mustPut(t, space, blockOf(id, 0, compactBlock))
		if id%32 == 31 {
			mustFlush(t, s)
		}
	}
	dropAll(t, space, n, drop)
	mustClose(t, s)
}

func dropAll(t *testing.T, n *Namespace, ids int, drop func(id int) bool) {
	t.Helper()
	var hashes [][]byte
	for id := range ids {
		if drop(id) {
			hashes = append(hashes, hashOf(id))
		}
	}
	for i, r := range n.Drop(context.Background(), hashes) {
		if r.Status != StatusOK {
			t.Fatalf("drop %x: %v %v", hashes[i][:4], r.Status, r.Err)
		}
	}
}

// mustCompact compacts the closed store on fs.
func mustCompact(t *testing.T, fs vfs.FS, o CompactOptions) *CompactReport {
	t.Helper()
	r, err := compactDir(context.Background(), "mem", o, testOptions(fs).private)
	if err != nil {
		t.Fatalf("compact: %v", err)
	}
	return r
}

func wantAfter(t *testing.T, fs vfs.FS, ids int, dropped func(id int) bool) {
	t.Helper()
	s := mustOpen(t, testOptions(fs))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	checkIndex(t, s, "after the compaction")
	for id := range ids {
		if dropped(id) {
			wantStatus(t, n, id, compactBlock, StatusMiss)
			continue
		}
		wantBlock(t, n, id, 0, compactBlock)
	}
}

// TestCompactScattered: 5 % of the blocks live, some in every segment (field
// case 37).
func TestCompactScattered(t *testing.T) {
	mem := vfs.NewMem()
	const ids = 300
	dropped := func(id int) bool { return id%20 != 0 }
	compactStore(t, mem, ids, dropped)
	plan := mustCompact(t, mem, CompactOptions{DryRun: true})
	if plan.Removed != 0 || plan.Planned == 0 || plan.BytesCopied == 0 || plan.Before.LiveShare() > 0.1 {
		t.Errorf("dry run: %+v", plan)
	}
	r := mustCompact(t, mem, CompactOptions{})
	if r.Removed != r.Planned || r.Before.LiveBytes != r.After.LiveBytes || r.Interrupted || len(r.Kept) != 0 {
		t.Errorf("%+v", r)
	}
	if r.Removed < plan.Planned || r.BytesCopied != r.After.LiveBytes || r.After.LiveShare() < 0.75 { // header, footer and sidecar of one small segment
		t.Errorf("planned %+v, done %+v", plan, r)
	}
	if d := r.After.SegmentBytes - plan.After.SegmentBytes; d > 16*kib || d < -16*kib {
		t.Errorf("estimated %d bytes, left are %d", plan.After.SegmentBytes, r.After.SegmentBytes)
	}
	wantAfter(t, mem, ids, dropped)
	if again := mustCompact(t, mem, CompactOptions{}); again.Planned != 0 {
		t.Errorf("nothing is to be gained, and %+v", again)
	}
}

// TestCompactAllDropped: what is all dead needs no room and leaves nothing
// (field case 37).
func TestCompactAllDropped(t *testing.T) {
	mem := vfs.NewMem()
	compactStore(t, mem, 200, func(int) bool { return true })
	r := mustCompact(t, mem, CompactOptions{})
	if r.After.SegmentBytes != 0 || r.BytesCopied != 0 || r.TombstonesCarried != 0 {
		t.Errorf("%+v", r)
	}
	wantAfter(t, mem, 200, func(int) bool { return true })
}

// TestCompactOverwritten: the same keys again and again, 20 times, end within
// 1.3 times of what is live (field case 37).
func TestCompactOverwritten(t *testing.T) {
	mem := vfs.NewMem()
	const ids = 64
	rounds := 20
	if testing.Short() {
		rounds = 4
	}
	for range rounds {
		s := mustOpen(t, testOptions(mem))
		n := mustSpace(t, s)
		for id := range ids {
			mustPut(t, n, blockOf(id, 0, compactBlock))
		}
		mustFlush(t, s)
		dropAll(t, n, ids, func(int) bool { return true })
		for id := range ids {
			mustPut(t, n, blockOf(id, 0, compactBlock))
		}
		mustClose(t, s)
		r := mustCompact(t, mem, CompactOptions{})
		if float64(r.After.SegmentBytes) > 1.3*float64(r.After.LiveBytes) {
			t.Fatalf("%d bytes for %d live ones", r.After.SegmentBytes, r.After.LiveBytes)
		}
		s = mustOpen(t, testOptions(mem))
		dropAll(t, mustSpace(t, s), ids, func(int) bool { return true })
		mustClose(t, s)
	}
}

// TestCompactDryRunChangesNothing also where the store was not closed.
func TestCompactDryRunChangesNothing(t *testing.T) {
	mem := vfs.NewMem()
	compactStore(t, mem, 60, func(id int) bool { return id%3 != 0 })
	crashed := mem.CrashClone(vfs.CrashOptions{KeepAll: true})
	writes := 0
	hooked := vfs.WithHook(crashed, func(op vfs.Op) error {
		if op.Mutates() && op.Kind != vfs.OpLock {
			t.Log(op)
			writes++
		}
		return nil
	})
	mustCompact(t, hooked, CompactOptions{DryRun: true})
	if writes != 0 {
		t.Errorf("a dry run did %d changes", writes)
	}
}

// TestFaultCompactDiskFull: without room for one more segment a compaction says
// so, and loses nothing; what is all dead is removed first, and makes room.
func TestFaultCompactDiskFull(t *testing.T) {
	mem := vfs.NewMem()
	dropped := func(id int) bool { return id%3 != 0 }
	compactStore(t, mem, 120, dropped)
	full := func() { // to the last page, as another process may
		u, err := mem.Statfs()
		if err != nil {
			t.Fatal(err)
		}
		mem.SetCapacityBytes(u.TotalBytes - u.AvailableBytes + 96*kib) // for index and log
	}
	full()
	r, err := compactDir(context.Background(), "mem", CompactOptions{}, testOptions(mem).private)
	if !errors.Is(err, ErrShed) || !strings.Contains(err.Error(), "no room for the segment") || r == nil || r.Removed != 0 {
		t.Fatalf("compact without room: %+v, %v", r, err)
	}
	mem.SetCapacityBytes(64 * mib)
	wantAfter(t, mem, 120, dropped)

	s := mustOpen(t, testOptions(mem))
	dropAll(t, mustSpace(t, s), 32, func(id int) bool { return !dropped(id) }) // the first segment is dead now
	mustClose(t, s)
	full()
	if r := mustCompact(t, mem, CompactOptions{}); r.Removed != r.Planned || r.Removed < 3 {
		t.Fatalf("with a dead segment to begin with: %+v", r)
	}
	mem.SetCapacityBytes(64 * mib)
	wantAfter(t, mem, 120, func(id int) bool { return id < 32 || dropped(id) })
}

// TestCompactInterrupted: a compaction stops at the next block, and another
// one ends the work.
func TestCompactInterrupted(t *testing.T) {
	mem := vfs.NewMem()
	dropped := func(id int) bool { return id%2 != 0 }
	compactStore(t, mem, 200, dropped)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	blocks := 0
	r, err := compactDir(ctx, "mem", CompactOptions{Progress: func(done, total int64) {
		if blocks++; blocks == 20 {
			cancel()
		}
		if done > total {
			t.Errorf("%d of %d bytes", done, total)
		}
	}}, testOptions(mem).private)
	if !errors.Is(err, context.Canceled) || !r.Interrupted || blocks != 20 {
		t.Fatalf("%v after %d blocks: %+v", err, blocks, r)
	}
	wantAfter(t, mem, 200, dropped)
	if r := mustCompact(t, mem, CompactOptions{}); r.After.LiveShare() < 0.9 {
		t.Errorf("%+v", r)
	}
	wantAfter(t, mem, 200, dropped)
}

// TestCompactBadBlock: a block that does not verify is quarantined, and the
// others are moved.
func TestCompactBadBlock(t *testing.T) {
	mem := vfs.NewMem()
	compactStore(t, mem, 60, func(id int) bool { return id%2 != 0 })
	s := mustOpen(t, testOptions(mem))
	key := index.Key{Namespace: mustSpace(t, s).info.Number, Hash: string(hashOf(10))}
	found, err := s.lookup(context.Background(), []index.Key{key}, false)
	mustClose(t, s)
	if err != nil || !found[0].ok {
		t.Fatal(err)
	}
	at := found[0].entry.Address
	flipByte(t, mem, disk.SegmentName(at.Segment), at.Offset()+5000)
	r := mustCompact(t, mem, CompactOptions{})
	if r.Damaged != 1 || r.Removed != r.Planned {
		t.Errorf("%+v", r)
	}
	wantAfter(t, mem, 60, func(id int) bool { return id%2 != 0 || id == 10 })
}

func TestCompactOptions(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	for _, o := range []CompactOptions{{TargetShare: -0.1}, {TargetShare: 1.1}, {BytesPerSecond: -1}} {
		if _, err := s.Compact(context.Background(), o); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	mustClose(t, s)
	if _, err := s.Compact(context.Background(), CompactOptions{}); !errors.Is(err, ErrClosed) {
		t.Errorf("compact of a closed store: %v", err)
	}
	if _, err := CompactDir(context.Background(), t.TempDir()+"/none", CompactOptions{}); err == nil {
		t.Error("compacted a store that is not there")
	}
}

// TestCompactPlan: the plan never copies for nothing, never more than there
// is, and reaches the target where that can be reached by emptying segments.
func TestCompactPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const segment = int64(1 << 20)
		p := &compactPlan{segmentBytes: segment}
		var all []segmentUse
		for id := range rapid.IntRange(0, 30).Draw(t, "segments") {
			extents := int64(rapid.IntRange(0, 120).Draw(t, "extents"))
			live := extents * 8 * kib
			used := min(segment, live+extents*footerEntryBytes+3*4*kib+int64(rapid.IntRange(0, 1<<20).Draw(t, "dead")))
			all = append(all, segmentUse{id: uint64(id + 1), usedBytes: used, liveBytes: min(live, used), extents: extents})
			p.before.Segments++
			p.before.SegmentBytes += used
			p.before.LiveBytes += min(live, used)
		}
		target := rapid.Float64Range(0.05, 1).Draw(t, "target")
		p.choose(all, target)
		if len(p.victims) != p.chosen.segments || len(p.victims) > 0 && p.gainBytes(p.chosen) <= 0 {
			t.Fatalf("%d victims, gain %d", len(p.victims), p.gainBytes(p.chosen))
		}
		after := p.after()
		if after.LiveBytes != p.before.LiveBytes || after.SegmentBytes > p.before.SegmentBytes {
			t.Fatalf("before %+v, after %+v", p.before, after)
		}
		for _, v := range p.victims {
			if v.share() >= target {
				t.Fatalf("segment of live share %v taken for a target of %v", v.share(), target)
			}
		}
	})
}
