package engine

import (
	"context"
	"slices"
	"testing"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/vfs"
)

func (n *Namespace) mustKeysOf(t testing.TB, hashes ...[]byte) []index.Key {
	t.Helper()
	keys, err := n.keys(hashes)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// TestStat: sizes, keys and depths of a chain of blocks, present and absent,
// applied and not; it reads headers alone and is no use.
func TestStat(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	for id := range 4 {
		b := blockOf(id, 0, 30000)
		if id > 0 {
			b.Parent = hashOf(id - 1)
		}
		mustPut(t, n, b)
	}
	before := s.Stats()
	s.used = usedBlocks{}
	for _, applied := range []bool{false, true} {
		if applied {
			mustFlush(t, s)
		}
		got := n.Stat(context.Background(), append(hashesOf(0, 1, 2, 3, 4), []byte("short")))
		for id := range 4 {
			st := got[id]
			parent := ""
			if id > 0 {
				parent = string(hashOf(id - 1))
			}
			if st.Status != StatusOK || st.Err != nil || !slices.Equal(st.PlaneBytes, []int64{10000, 20000}) ||
				st.Depth != uint32(id) || string(st.Parent) != parent || st.PlainKey != nil {
				t.Errorf("block %d: %+v", id, st)
			}
		}
		if got[4].Status != StatusMiss || got[4].Err == nil || got[4].PlaneBytes != nil || got[5].Status != StatusInvalid {
			t.Errorf("absent: %+v, short: %+v", got[4], got[5])
		}
	}
	after := s.Stats()
	if after.GetStatus[StatusOK] != before.GetStatus[StatusOK] || after.ServedBytes != 0 {
		t.Errorf("counted as gets: %v", after.GetStatus)
	}
	if read := after.FetchedBytes - before.FetchedBytes; read != 2*4*4096 {
		t.Errorf("%d bytes read for 8 headers", read)
	}
	if s.used.isMarked(entryOf(t, s, n, 0).Address) {
		t.Error("a stat counts as a use")
	}
	if got := n.Stat(context.Background(), nil); len(got) != 0 {
		t.Errorf("%d answers", len(got))
	}
	wantNoBuffers(t, s)
}

// TestStatOfSharers: blocks of two namespaces of a tenant with the same bytes
// and the same hash tell their own keys.
func TestStatOfSharers(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	defer mustClose(t, s)
	a := mustSpace(t, s)
	l := testLayout()
	l.Model = "another"
	b, err := s.Namespace(context.Background(), l, "tenant", NamespaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	first := keyed(1, blockOf(1, 0, 9000))
	mustPut(t, a, first)
	mustFlush(t, s)
	second := first
	second.PlainKey, second.Parent = nil, hashOf(7)
	if r := mustPut(t, b, second); !r.Shared {
		t.Fatalf("%+v", r)
	}
	wantKeyed(t, a, 1, nil)
	st := statOne(b, second.Hash)
	if st.Status != StatusOK || st.PlainKey != nil || string(st.Parent) != string(hashOf(7)) {
		t.Errorf("%+v", st)
	}
}

// TestStatMoved: a block that moves between the lookup and the read is found
// where it is then.
func TestStatMoved(t *testing.T) {
	points := &rendezvous{}
	o := testOptions(vfs.NewMem())
	o.private.points = points.at
	s := mustOpen(t, o)
	defer mustClose(t, s)
	n := mustSpace(t, s)
	mustPut(t, n, keyed(1, blockOf(1, 0, 9000)))
	mustPut(t, n, keyed(2, blockOf(2, 0, 9000)))
	fillSegment(t, s, n, 10)
	mustFlush(t, s)
	touchAll(t, n, []int{1})
	held := points.arm(t, "lookup:read")
	stat := start(t, "the stat", func() []BlockStat {
		return n.Stat(context.Background(), [][]byte{KeyHash(plainKey(1)), KeyHash(plainKey(2))})
	})
	held.wait(t)
	evictMoves(t, s)
	held.open()
	got := stat()
	if got[0].Status != StatusOK || string(got[0].PlainKey) != string(plainKey(1)) || got[1].Status != StatusMiss {
		t.Errorf("%+v", got)
	}
}
