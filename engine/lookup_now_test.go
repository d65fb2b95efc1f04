package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/vfs"
)

func nowOf(n *Namespace, ids ...int) []Status {
	var hashes [][]byte
	for _, id := range ids {
		hashes = append(hashes, hashOf(id))
	}
	return n.LookupNow(hashes)
}

func wantNow(t testing.TB, n *Namespace, id int, want Status) {
	t.Helper()
	if st := nowOf(n, id); st[0] != want {
		t.Errorf("block %d: %v, want %v", id, st[0], want)
	}
}

// TestLookupNowKnows: what is only in the overlay is known at once, what is in
// the index as far as the table has it, and nothing is denied before the table
// is complete.
func TestLookupNowKnows(t *testing.T) {
	fs := vfs.NewMem()
	s := mustOpen(t, testOptions(fs))
	n := mustSpace(t, s)
	mustPut(t, n, blockOf(0, 0, 500))
	wantNow(t, n, 0, StatusOK)
	mustFlush(t, s)
	wantNow(t, n, 0, StatusOK)      // entered when it was applied
	wantNow(t, n, 1, StatusTimeout) // nobody has read the index yet
	s.fillHint()
	wantNow(t, n, 1, StatusMiss)
	mustPut(t, n, blockOf(1, 0, 500))
	if got, want := nowOf(n, 1, 2, 0), []Status{StatusOK, StatusMiss, StatusOK}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	mustClose(t, s)
	s = mustOpen(t, testOptions(fs))
	defer mustClose(t, s)
	n = mustSpace(t, s)
	wantNow(t, n, 0, StatusTimeout)
	s.fillHint()
	wantNow(t, n, 0, StatusOK)
	wantNow(t, n, 3, StatusMiss)
}

// TestLookupNowForgets: drops, epochs, evictions and quarantines are seen.
func TestLookupNowForgets(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	next := fillSegment(t, s, n, 0)
	mustFlush(t, s)
	s.fillHint()
	mustDrop(t, n, 0)
	wantNow(t, n, 0, StatusMiss) // the index has it still
	mustPut(t, n, blockOf(0, 1, 500))
	wantNow(t, n, 0, StatusOK)
	mustFlush(t, s)
	wantNow(t, n, 0, StatusOK)
	mustEvict(t, s)
	if has := n.Has(context.Background(), [][]byte{hashOf(1), hashOf(next - 1)}); !slices.Equal(has, nowOf(n, 1, next-1)) || has[0] != StatusMiss {
		t.Errorf("after an eviction: has %v, now %v", has, nowOf(n, 1, next-1))
	}
	older := n
	n = mustBump(t, n)
	wantNow(t, older, 0, StatusStaleEpoch)
	wantNow(t, n, 0, StatusMiss) // in the table, under the floor
	mustPut(t, n, blockOf(0, 2, 500))
	wantNow(t, n, 0, StatusOK)

	e := entryOf(t, s, n, 0)
	s.quarantine(index.Key{Namespace: n.info.Number, Hash: string(hashOf(0))}, e, "by the test")
	mustFlush(t, s)
	wantNow(t, n, 0, StatusMiss)
}

// TestLookupNowRefusals: what is wrong with one hash is that hash's alone; a
// store that answers misses, or is closed, does so here.
func TestLookupNowRefusals(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	n := mustSpace(t, s)
	mustPut(t, n, blockOf(0, 0, 500))
	s.fillHint()
	got := n.LookupNow([][]byte{nil, hashOf(0), make([]byte, MaxHashBytes+1), hashOf(1), make([]byte, MinHashBytes-1)})
	if want := []Status{StatusInvalid, StatusOK, StatusInvalid, StatusMiss, StatusInvalid}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := n.LookupNow(nil); len(got) != 0 {
		t.Errorf("no hashes: %v", got)
	}
	s.health.set("test", HealthAllMiss, "all are misses")
	wantNow(t, n, 0, StatusMiss)
	s.health.clear("test")
	wantNow(t, n, 0, StatusOK)
	mustClose(t, s)
	wantNow(t, n, 0, StatusClosed)
}

// TestLookupNowWithoutTable: no table, or one that was given up, knows nothing
// of what has left the overlay, and does not deny it.
func TestLookupNowWithoutTable(t *testing.T) {
	for _, c := range []struct {
		state string
		bytes int64
	}{{"off", -1}, {"overflowed", hintSlotBytes * hintFirstSlots}} {
		t.Run(c.state, func(t *testing.T) {
			o := testOptions(vfs.NewMem())
			o.HintBytes = c.bytes
			s := mustOpen(t, o)
			defer mustClose(t, s)
			n := mustSpace(t, s)
			for id := range 40 {
				mustPut(t, n, blockOf(id, 0, 100))
			}
			wantNow(t, n, 39, StatusOK)
			mustFlush(t, s)
			s.fillHint()
			for _, id := range []int{0, 39, 40} {
				wantNow(t, n, id, StatusTimeout)
			}
		})
	}
}

// TestLookupNowIsHas: with a complete table it says what the index says, in
// batches of every size, whatever was put, dropped, applied or outdated.
func TestLookupNowIsHas(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := mustOpen(t, testOptions(vfs.NewMem()))
		defer mustClose(t, s)
		n := mustSpace(t, s)
		const ids = 12
		if rapid.Bool().Draw(rt, "filled before") {
			s.fillHint()
		}
		for step := range rapid.IntRange(1, 25).Draw(rt, "steps") {
			id := rapid.IntRange(0, ids-1).Draw(rt, fmt.Sprint("id ", step))
			switch rapid.SampledFrom([]string{"put", "put", "put", "drop", "flush", "bump"}).Draw(rt, fmt.Sprint("step ", step)) {
			case "put":
				mustPut(t, n, blockOf(id, step, 300))
			case "drop":
				dropOne(n, id)
			case "flush":
				mustFlush(t, s)
			case "bump":
				n = mustBump(t, n)
			}
		}
		s.fillHint()
		hashes := make([][]byte, rapid.SampledFrom([]int{1, ids, lookupNowPortion, lookupNowPortion + 1, 3*lookupNowPortion - 1}).Draw(rt, "asked"))
		for i := range hashes {
			hashes[i] = hashOf(i % (ids + 2))
		}
		if now, has := n.LookupNow(hashes), n.Has(context.Background(), hashes); !slices.Equal(now, has) {
			rt.Fatalf("now %v\nhas %v", now, has)
		}
	})
}

// TestLookupNowDuringPuts: whoever has seen a put acknowledged is never told
// that the block is not there, while it goes from memory into the index and the
// table is filled.
func TestLookupNowDuringPuts(t *testing.T) {
	duringPuts(t, 40, func(n *Namespace, id int) Status { return nowOf(n, id)[0] })
}

// TestLookupNowOnStalledDevice: while reads of segments, the index and the
// log all hang, look-ups are answered.
func TestLookupNowOnStalledDevice(t *testing.T) {
	hang := make(chan struct{})
	var mu sync.Mutex
	stalled, held := false, 0
	o := testOptions(vfs.WithHook(vfs.NewMem(), func(op vfs.Op) error {
		mu.Lock()
		wait := stalled && !strings.HasPrefix(op.Name, "LOCK")
		if wait {
			held++
		}
		mu.Unlock()
		if wait {
			<-hang
		}
		return nil
	}))
	s := mustOpen(t, o)
	n := mustSpace(t, s)
	mustPut(t, n, blockOf(0, 0, 500))
	mustFlush(t, s)
	s.fillHint()
	mustPut(t, n, blockOf(1, 0, 500))
	mu.Lock()
	stalled = true
	mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	for range 3 {
		n.Put(ctx, []PutBlock{blockOf(7, 0, 500)}, PutOptions{})
		n.Get(ctx, []GetBlock{{Hash: hashOf(0), Parts: []Part{{Plane: "k", Spans: [][]byte{make([]byte, 166)}}}}}, GetOptions{})
	}
	if got, want := nowOf(n, 0, 1, 2), []Status{StatusOK, StatusOK, StatusMiss}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	mu.Lock()
	if stalled = false; held == 0 {
		t.Error("nothing hangs: the test shows nothing")
	}
	mu.Unlock()
	close(hang)
	mustClose(t, s)
}

// BenchmarkLookupNow is a batch of 64 look-ups, half of them of stored blocks.
func BenchmarkLookupNow(b *testing.B) {
	s := mustOpen(b, testOptions(vfs.NewMem()))
	defer mustClose(b, s)
	n := mustSpace(b, s)
	var hashes [][]byte
	for id := range 64 {
		if hashes = append(hashes, hashOf(id)); id%2 == 0 {
			mustPut(b, n, blockOf(id, 0, 100))
		}
	}
	mustFlush(b, s)
	s.fillHint()
	b.ReportAllocs()
	for b.Loop() {
		n.LookupNow(hashes)
	}
}
