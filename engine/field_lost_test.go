package engine

import (
	"context"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
)

// The tests named TestField... show what broke for users of other stores, and
// does not here. docs/faults/field-cases.md lists the reports.

const fieldBytes = 6000

// fieldHashes are the keys of blocks [from, to).
func fieldHashes(from, to int) (all [][]byte) {
	for id := from; id < to; id++ {
		all = append(all, hashOf(id))
	}
	return all
}

// TestFieldRestart: the cache is dead after a restart (case 1). Here all that
// was acknowledged is found, after a close as after a kill; putting it again
// writes no block.
func TestFieldRestart(t *testing.T) {
	blocks := 300
	if fullTests {
		blocks = 10_000
	}
	for _, killed := range []bool{false, true} {
		fs := vfs.NewMem()
		o := testOptions(fs)
		o.CapacityBytes = int64(blocks)*16*kib + 16*mib
		s := mustOpen(t, o)
		n := mustSpace(t, s)
		for id := range blocks {
			mustPut(t, n, blockOf(id, 0, fieldBytes))
		}
		if killed {
			o.private.fs = fs.CrashClone(vfs.CrashOptions{KeepAll: true})
			defer mustClose(t, s)
		} else {
			mustClose(t, s)
		}
		s2 := mustOpen(t, o)
		n = mustSpace(t, s2)
		lease, err := n.Match(context.Background(), fieldHashes(0, blocks))
		if err != nil || lease.Blocks() != blocks {
			t.Fatalf("killed %v: %d of %d blocks match: %v", killed, lease.Blocks(), blocks, err)
		}
		lease.Release()
		for id := range blocks {
			wantBlock(t, n, id, 0, fieldBytes)
		}
		before := s2.Stats().WrittenBytes
		for id := range blocks {
			if r := mustPut(t, n, blockOf(id, 0, fieldBytes)); !r.Existed {
				t.Fatalf("killed %v: put %d again: %+v", killed, id, r)
			}
		}
		if wrote := s2.Stats().WrittenBytes - before; wrote != 0 {
			t.Errorf("killed %v: %d bytes written for what is stored already", killed, wrote)
		}
		mustClose(t, s2)
	}
}

// TestFieldOtherModel: the limit does not count the other model's files (case
// 4). Here it holds for all, and those of the model that is not used any more
// are the ones that go.
func TestFieldOtherModel(t *testing.T) {
	fs := vfs.NewMem()
	s := mustOpen(t, testOptions(fs))
	old := spaceOf(t, s, testLayout(), "tenant")
	id := 0
	for ; s.Stats().EvictedSegments == 0; id++ {
		mustPut(t, old, blockOf(id, 0, fieldBytes))
		if id%64 == 0 {
			mustFlush(t, s)
		}
	}
	mustClose(t, s)
	other := testLayout()
	other.Model = "the next model"
	s = mustOpen(t, testOptions(fs))
	defer mustClose(t, s)
	next := spaceOf(t, s, other, "tenant")
	const fresh = 100
	for i := range fresh {
		mustPut(t, next, blockOf(id+i, 0, fieldBytes))
		if i%32 == 0 {
			mustFlush(t, s)
		}
	}
	mustFlush(t, s)
	if used, limit := fs.UsedBytes(), testOptions(nil).CapacityBytes; used > limit {
		t.Errorf("%d bytes on disk, the capacity is %d", used, limit)
	}
	for i := range fresh {
		wantBlock(t, next, id+i, 0, fieldBytes)
	}
	gone := 0
	for i := range id {
		if _, r := getBlock(t, spaceOf(t, s, testLayout(), "tenant"), i, fieldBytes); r.Status == StatusMiss {
			gone++
		}
	}
	if gone < fresh {
		t.Errorf("%d blocks of the old model went for %d of the new one", gone, fresh)
	}
}
