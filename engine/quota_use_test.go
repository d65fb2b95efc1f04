package engine

import (
	"context"
	"sync"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
	"pgregory.net/rapid"
)

// TestUseOfWhatWasAnswered: the number of blocks is right as soon as a put or a
// drop is answered, whatever the applier has come to.
func TestUseOfWhatWasAnswered(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		o := testOptions(vfs.NewMem())
		o.private.noBackground = false
		s := mustOpen(t, o)
		defer mustClose(t, s)
		n := mustSpace(t, s)
		stored := map[int]bool{}
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			id := rapid.IntRange(0, 3).Draw(rt, "id")
			if rapid.Bool().Draw(rt, "put") {
				mustPut(t, n, blockOf(id, 0, 3000))
				stored[id] = true
			} else {
				n.Drop(context.Background(), [][]byte{hashOf(id)})
				delete(stored, id)
			}
			if u := n.Use(); u.Blocks != int64(len(stored)) {
				rt.Fatalf("use %+v, %d blocks are stored", u, len(stored))
			}
			if u := s.TenantUse("tenant"); u.Blocks != int64(len(stored)) {
				rt.Fatalf("use of the tenant %+v, %d blocks are stored", u, len(stored))
			}
		}
		mustFlush(t, s)
		wantCounts(t, s)
	})
}

// TestUseAfterDropsAtOnce: a block that several drop at a time is one block less
// when their drops are applied, and before that never counted as still there.
func TestUseAfterDropsAtOnce(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.private.noBackground = false
	s := mustOpen(t, o)
	defer mustClose(t, s)
	n := mustSpace(t, s)
	for id := range 20 {
		mustPut(t, n, blockOf(id, 0, 3000))
	}
	for id := range 10 {
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { n.Drop(context.Background(), [][]byte{hashOf(id)}) })
		}
		all.Wait()
		if u := n.Use(); u.Blocks > int64(19-id) {
			t.Errorf("use %+v, %d blocks are stored", u, 19-id)
		}
		mustFlush(t, s)
		if u := n.Use(); u.Blocks != int64(19-id) {
			t.Errorf("applied: use %+v, %d blocks are stored", u, 19-id)
		}
	}
	mustFlush(t, s)
	wantCounts(t, s)
}

// TestUseAfterDropThatFailed: a drop that a failed sync takes back, and that is
// logged anew, counts once.
func TestUseAfterDropThatFailed(t *testing.T) {
	rig := newFaultyRig(t)
	for id := range 3 {
		mustPut(t, rig.n, blockOf(id, 0, 9000))
	}
	mustFlush(t, rig.s)
	rig.failing(vfs.OpSync, "wal")
	if r := rig.n.Drop(context.Background(), [][]byte{hashOf(1)})[0]; r.Status == StatusOK {
		t.Fatal("durable without a sync")
	}
	rig.fail.Store(nil)
	rig.resume()
	if u := rig.n.Use(); u.Blocks != 2 {
		t.Errorf("logged anew: use %+v", u)
	}
	mustFlush(t, rig.s)
	wantCounts(t, rig.s)
	if u := rig.n.Use(); u.Blocks != 2 {
		t.Errorf("use %+v", u)
	}
}
