package engine

import (
	"context"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
)

// TestFieldUnreachable is field case 2: an engine that draws the root of its
// hashes anew at each start finds nothing of what it put before. Opening its
// namespace says what differs, and calls that never hit raise a gauge and, once,
// an event.
func TestFieldUnreachable(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.CapacityBytes, o.SegmentBytes, o.private.logFileBytes = 32*mib, mib, mib
	s := mustOpen(t, o)
	defer mustClose(t, s)
	ctx := context.Background()
	open := func(root string) *Namespace {
		t.Helper()
		l := testLayout()
		l.Hash.Root = root
		n, err := s.Namespace(ctx, l, "tenant", NamespaceOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	a := open("aa")
	for id := range 1000 {
		mustPut(t, a, blockOf(id, 0, 3))
	}
	mustFlushByHand(t, s)
	wantBlock(t, a, 1, 0, 3)

	b := open("bb")
	if len(b.Warnings()) == 0 || !strings.Contains(b.Warnings()[0], "root hash differs") {
		t.Errorf("warnings: %q", b.Warnings())
	}
	ask := func(n *Namespace, i int) {
		hashes := [][]byte{hashOf(5000 + i), hashOf(6000 + i)}
		switch i % 3 {
		case 0:
			if l, err := n.Match(ctx, hashes); err != nil || l.Blocks() != 0 {
				t.Fatal(l, err)
			}
		case 1:
			n.Has(ctx, hashes)
		case 2:
			getBlock(t, n, 5000+i, 3)
		}
	}
	for i := range unansweredMax - 1 {
		ask(b, i)
	}
	if got := s.Stats().LookupsWithoutHit; got != unansweredMax-1 {
		t.Errorf("the gauge is %d after %d calls", got, unansweredMax-1)
	}
	if len(eventsOf(s, EventUnanswered)) != 0 {
		t.Error("told too early")
	}
	for i := range unansweredMax + 1 {
		ask(b, i)
	}
	told := eventsOf(s, EventUnanswered)
	if len(told) != 1 || !strings.Contains(told[0].Message, "hash seed") || !strings.Contains(told[0].Message, "hash.root") {
		t.Fatalf("%v", told)
	}
	if got := s.Stats().LookupsWithoutHit; got != 2*unansweredMax {
		t.Errorf("the gauge is %d", got)
	}

	// A hit begins the row anew, in its own namespace only.
	ask(a, 1)
	wantBlock(t, a, 2, 0, 3)
	if got := s.Stats().LookupsWithoutHit; got != 2*unansweredMax {
		t.Errorf("a hit elsewhere: the gauge is %d", got)
	}
	mustPut(t, b, blockOf(7, 0, 3))
	wantBlock(t, b, 7, 0, 3)
	if got := s.Stats().LookupsWithoutHit; got != 0 {
		t.Errorf("after a hit the gauge is %d", got)
	}
}

// TestUnansweredEmptyStore: a store that holds nothing answers nothing, and that
// is no news.
func TestUnansweredEmptyStore(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	for i := range 2 * unansweredMax {
		n.Has(context.Background(), [][]byte{hashOf(i)})
	}
	if told := eventsOf(s, EventUnanswered); len(told) != 0 {
		t.Errorf("%v", told)
	}
}
