package engine

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/vfs"
)

func hintKey(id int) index.Key { return index.Key{Namespace: 1, Hash: string(hashOf(id))} }

type hintSlot struct{ sum, seq uint64 }

// TestHintShardIsASet: whatever was added and removed, in a table so small that
// probes collide and go round its end, and with sums that several blocks share.
func TestHintShardIsASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h hintShard
		defer h.free()
		want := map[hintSlot]bool{}
		// Sums near the end of the range have their home at the table's end.
		sums := rapid.SampledFrom([]uint64{0, 1, 2, 1 << 55, ^uint64(0), ^uint64(0) - 1, ^uint64(0) >> 8, ^uint64(0)>>8 - 3})
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			s := hintSlot{sums.Draw(t, "sum"), rapid.Uint64Range(1, 40).Draw(t, "seq")}
			if rapid.IntRange(0, 2).Draw(t, "remove") == 0 {
				h.remove(s.sum, s.seq)
				delete(want, s)
			} else {
				if h.isFull() || rapid.IntRange(0, 9).Draw(t, "grow") == 0 {
					if err := h.grow(h.grownSlots()); err != nil {
						t.Fatal(err)
					}
				}
				h.add(s.sum, s.seq)
				want[s] = true
			}
			checkShard(t, &h, want)
		}
	})
}

func checkShard(t *rapid.T, h *hintShard, want map[hintSlot]bool) {
	if h.used != uint64(len(want)) {
		t.Fatalf("%d slots used, want %d", h.used, len(want))
	}
	sums := map[uint64]bool{}
	for s := range want {
		sums[s.sum] = true
		if !h.has(s.sum) {
			t.Fatalf("sum %x is lost", s.sum)
		}
	}
	for i := range h.slots {
		if sum, seq := h.at(i); seq != 0 && !want[hintSlot{sum, seq}] {
			t.Fatalf("slot %d holds %x %d, which is not in", i, sum, seq)
		}
	}
	for _, sum := range []uint64{3, 1 << 54, 1 << 63} {
		if h.has(sum) && !sums[sum] {
			t.Fatalf("sum %x is in", sum)
		}
	}
}

// TestHintTableStates: before it is complete everything may be there; then a
// no is exact; over the budget everything may be there again, and the memory
// is given back.
func TestHintTableStates(t *testing.T) {
	const budget = 4 << 20
	table := newHintTable(budget)
	defer table.close()
	if !table.maybe(hintKey(1)) {
		t.Error("an empty table that fills denies a key")
	}
	table.add(hintKey(1), 1)
	if !table.complete() || !table.maybe(hintKey(1)) || table.maybe(hintKey(2)) {
		t.Error("complete: the one key, and no other, should be there")
	}
	table.add(hintKey(2), 2)
	table.remove(hintKey(1), 7) // another put of it
	if !table.maybe(hintKey(1)) || !table.maybe(hintKey(2)) {
		t.Error("a key is lost")
	}
	table.remove(hintKey(1), 1)
	if table.maybe(hintKey(1)) {
		t.Error("a key that was removed is there")
	}
	added := 2
	for ; table.is(hintComplete); added++ {
		table.add(hintKey(added+1), uint64(added+1))
		if used := table.bytes.Load(); used > budget {
			t.Fatalf("%d bytes, the budget is %d", used, budget)
		}
	}
	// The budget holds most of the blocks that its slots would.
	if slots := budget / hintSlotBytes; added < slots*6/10 {
		t.Errorf("given up after %d blocks, the budget has %d slots", added, slots)
	}
	if !table.maybe(hintKey(1)) || table.complete() {
		t.Error("a table that has overflowed denies a key")
	}
	table.giveBack()
	if st := table.stats(); st.Bytes != 0 || st.Blocks != 0 || st.State != "overflowed" {
		t.Errorf("given back: %+v", st)
	}
	table.remove(hintKey(5), 5) // nothing to take out of
	table.add(hintKey(5), 5)
	if st := table.stats(); st.Bytes != 0 || st.Blocks != 0 {
		t.Errorf("it takes memory again: %+v", st)
	}
}

func TestHintOff(t *testing.T) {
	for _, table := range []*hintTable{nil, newHintTable(0), newHintTable(-1)} {
		if !table.is(hintOff) || table.is(hintComplete) {
			t.Error("a table without a budget is not off")
		}
	}
}

// TestHintFollowsTheIndex: through puts, drops, evictions, moves and a reopen
// the complete table holds the keys of the index and nothing else.
func TestHintFollowsTheIndex(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	fs := vfs.NewMem()
	s := mustOpen(t, testOptions(fs))
	n := mustSpace(t, s)
	next := fillSegment(t, s, n, 0)
	mustFlush(t, s)
	wantHints(t, s)
	verifyDrop(t, n, 1)
	next = fillSegment(t, s, n, next)
	n.Touch(context.Background(), [][]byte{hashOf(2), hashOf(3)})
	mustFlush(t, s)
	wantHints(t, s)
	mustEvict(t, s)
	wantHints(t, s)
	mustPut(t, n, blockOf(1, 0, 5000)) // in the overlay alone
	wantStatus(t, n, 1, 5000, StatusOK)
	if st := n.Has(context.Background(), [][]byte{hashOf(1), hashOf(2), hashOf(next + 1)}); st[0] != StatusOK || st[1] != StatusOK || st[2] != StatusMiss {
		t.Errorf("has: %v", st)
	}
	if st := s.Stats().Hint; st.State != "complete" || st.Skipped == 0 || st.Bytes == 0 || st.Bytes > st.BudgetBytes {
		t.Errorf("stats: %+v", st)
	}
	mustClose(t, s)
	s = mustOpen(t, testOptions(fs))
	wantHints(t, s)
	mustClose(t, s)
	if st := s.hint.stats(); st.Bytes != 0 || st.State != "off" {
		t.Errorf("after Close: %+v", st)
	}
}

// wantHints fills the table, where that has not happened, and compares it with
// the index.
func wantHints(t *testing.T, s *Store) {
	t.Helper()
	s.fillHint()
	if !s.hint.is(hintComplete) {
		t.Fatalf("the table is %v", s.hint.stats())
	}
	keys := int64(0)
	err := s.idx.Keys(context.Background(), func(k index.KeyEntry) error {
		keys++
		if !s.hint.maybe(k.Key) {
			return fmt.Errorf("key %x is denied", k.Hash)
		}
		return nil
	})
	if got := s.hint.blocks.Load(); err != nil || got != keys {
		t.Errorf("%d blocks in the table, %d keys in the index, %v", got, keys, err)
	}
}

// TestHintOverflowIsTold: a budget too small costs speed and nothing else.
func TestHintOverflowIsTold(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.HintBytes = hintSlotBytes * hintFirstSlots * 4 // four of the 256 shards
	s := mustOpen(t, o)
	defer mustClose(t, s)
	n := mustSpace(t, s)
	for id := range 40 {
		mustPut(t, n, blockOf(id, 0, 100))
	}
	mustFlush(t, s)
	s.fillHint()
	for id := range 40 {
		wantStatus(t, n, id, 100, StatusOK)
	}
	if st := s.Stats().Hint; st.State != "overflowed" || st.Bytes != 0 {
		t.Errorf("stats: %+v", st)
	}
	if !eventWith(s, EventHint, "HintBytes") {
		t.Errorf("no event: %v", s.Events(0))
	}
}

// TestHintDuringPuts: while blocks are put, applied and the table is filled,
// whoever has seen a put acknowledged finds it.
func TestHintDuringPuts(t *testing.T) {
	duringPuts(t, 60, func(n *Namespace, id int) Status { return n.Has(context.Background(), [][]byte{hashOf(id)})[0] })
}

// duringPuts has some put blocks, each so many, and ask for the last ones that
// were acknowledged, while these go from memory into the index and the hint
// table is filled. In the end the table has them all.
func duringPuts(t *testing.T, each int, statusOf func(n *Namespace, id int) Status) {
	t.Helper()
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	o := testOptions(vfs.NewMem())
	o.CapacityBytes = 64 * mib
	s := mustOpen(t, o)
	n := mustSpace(t, s)
	stop := make(chan struct{})
	var background, puts sync.WaitGroup
	background.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				s.syncAndApply()
				s.applyAll()
				s.fillHint()
			}
		}
	})
	for w := range 4 {
		puts.Go(func() {
			for i := range each {
				id := w*each + i
				if r := putOne(n, blockOf(id, 0, 200)); r.Status != StatusOK {
					t.Errorf("put %d: %v %v", id, r.Status, r.Err)
					return
				}
				for back := range min(i+1, 8) {
					if st := statusOf(n, id-back); st != StatusOK {
						t.Errorf("block %d, put before: %v", id-back, st)
					}
				}
			}
		})
	}
	puts.Wait()
	close(stop)
	background.Wait()
	wantHints(t, s)
	mustClose(t, s)
}

// TestHintStateNames: every state has a name of its own.
func TestHintStateNames(t *testing.T) {
	var names []string
	for s := hintOff; s <= hintOverflowed; s++ {
		names = append(names, s.String())
	}
	if got := strings.Join(names, " "); got != "off filling complete overflowed" {
		t.Error(got)
	}
}

// BenchmarkHintMiss is what a no of a full table costs.
func BenchmarkHintMiss(b *testing.B) {
	table := newHintTable(64 << 20)
	defer table.close()
	const blocks = 1_000_000
	for id := range blocks {
		table.add(hintKey(id), uint64(id+1))
	}
	if !table.complete() {
		b.Fatal("it has overflowed")
	}
	b.Logf("%.1f bytes a block", float64(table.bytes.Load())/blocks)
	keys := make([]index.Key, 4096)
	for i := range keys {
		keys[i] = hintKey(blocks + i)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if table.maybe(keys[i%len(keys)]) {
			b.Fatal("a key that is not there")
		}
	}
}
