package engine

import (
	"context"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
)

func mustBump(t testing.TB, n *Namespace) *Namespace {
	t.Helper()
	m, err := n.BumpEpoch(context.Background())
	if err != nil {
		t.Fatalf("bump: %v", err)
	}
	return m
}

// TestPutDuringBumpEpoch: a put that is under way when the weights are
// swapped answers StaleEpoch and never becomes visible (rule epochrecheck),
// be it written in full or as an alias.
func TestPutDuringBumpEpoch(t *testing.T) {
	for _, at := range []string{"put:before-write", "put:before-log"} {
		for _, c := range []struct {
			name  string
			again bool // the new epoch puts the same key
			alias bool // the put shares the bytes of another block
		}{{"", false, false}, {" and put again", true, false}, {" as an alias", false, true}} {
			t.Run(at+c.name, func(t *testing.T) { putDuringBump(t, at, c.again, c.alias) })
		}
	}
}

func putDuringBump(t *testing.T, at string, again, alias bool) {
	checkLeaks(t)
	fs, points := vfs.NewMem(), &rendezvous{}
	o := testOptions(fs)
	o.private.points = points.at
	s := mustOpen(t, o)
	old := mustSpace(t, s)
	b := blockOf(0, 0, raceSize)
	if alias {
		twin := b
		twin.Hash = hashOf(1)
		mustPut(t, old, twin)
		mustFlush(t, s)
	}
	held := points.arm(t, at)
	put := start(t, "the put", func() PutResult { return putOne(old, b) })
	held.wait(t)
	now := mustBump(t, old)
	if again {
		// The old epoch's put of the key is still under way: the new one
		// waits for its end, and does not take its outcome for its own.
		held.open()
	}
	if again {
		mustPut(t, now, blockOf(0, 5, raceSize))
	}
	held.open()
	if r := put(); r.Status != StatusStaleEpoch {
		t.Fatalf("put of the old epoch: %v %v", r.Status, r.Err)
	}
	wantStatus(t, old, 0, raceSize, StatusStaleEpoch)
	mustFlush(t, s)
	afterlives(t, s, fs, o, func(t *testing.T, _ *Store, n *Namespace) {
		if n.Info().Epoch != now.Info().Epoch {
			t.Errorf("epoch %d, want %d", n.Info().Epoch, now.Info().Epoch)
		}
		if again {
			wantBlock(t, n, 0, 5, raceSize)
		} else {
			wantStatus(t, n, 0, raceSize, StatusMiss)
		}
		wantStatus(t, n, 1, raceSize, StatusMiss)
	})
}

// TestBumpEpochHides: what was put before is gone at once and for good,
// applied or not, and its keys are free (rule floorabsent).
func TestBumpEpochHides(t *testing.T) {
	fs := vfs.NewMem()
	o := testOptions(fs)
	s := mustOpen(t, o)
	old := mustSpace(t, s)
	for id := range 4 {
		mustPut(t, old, blockOf(id, 0, raceSize))
		if id == 1 {
			mustFlush(t, s)
		}
	}
	now := mustBump(t, old)
	if r := putOne(old, blockOf(9, 0, raceSize)); r.Status != StatusStaleEpoch {
		t.Errorf("put by the old handle: %v", r.Status)
	}
	if r := dropOne(old, 0); r.Status != StatusStaleEpoch {
		t.Errorf("drop by the old handle: %v", r.Status)
	}
	if _, err := old.Match(context.Background(), [][]byte{hashOf(0)}); err == nil {
		t.Error("match by the old handle")
	}
	if _, err := old.BumpEpoch(context.Background()); err == nil {
		t.Error("the old handle bumped again")
	}
	for id := range 4 {
		wantStatus(t, old, id, raceSize, StatusStaleEpoch)
		wantStatus(t, now, id, raceSize, StatusMiss)
	}
	for _, id := range []int{1, 3} {
		if r := mustPut(t, now, blockOf(id, 8, raceSize)); r.Existed {
			t.Errorf("put %d of the new epoch existed", id)
		}
	}
	mustFlush(t, s)
	afterlives(t, s, fs, o, func(t *testing.T, _ *Store, n *Namespace) {
		for id := range 4 {
			if id%2 == 1 {
				wantBlock(t, n, id, 8, raceSize)
			} else {
				wantStatus(t, n, id, raceSize, StatusMiss)
			}
		}
	})
}

// TestGetDuringBumpEpoch: bytes that verified under the old epoch may be
// served to the get that began there, and to nobody later.
func TestGetDuringBumpEpoch(t *testing.T) {
	points := &rendezvous{}
	o := testOptions(vfs.NewMem())
	o.private.points = points.at
	s := mustOpen(t, o)
	defer mustClose(t, s)
	old := mustSpace(t, s)
	mustPut(t, old, blockOf(0, 0, raceSize))
	held := points.arm(t, "read:acquired")
	p, b := getParts(0, raceSize)
	got := start(t, "the get", func() GetResult { return old.Get(context.Background(), []GetBlock{b}, GetOptions{})[0] })
	held.wait(t)
	now := mustBump(t, old)
	held.open()
	switch r := got(); {
	case r.Status == StatusOK && variantOf(0, p, 1) == 0:
	case r.Status == StatusStaleEpoch && untouched(p):
	default:
		t.Fatalf("get: %v %v", r.Status, r.Err)
	}
	wantStatus(t, now, 0, raceSize, StatusMiss)
}
