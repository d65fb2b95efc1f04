package engine

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/engine/layout"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

func mustStats(t testing.TB, fs vfs.FS) *StoreStats {
	t.Helper()
	i, err := inspect("mem", testOptions(fs).private)
	if err != nil {
		t.Fatal(err)
	}
	calls := int64(0)
	st, err := i.Stats(context.Background(), func(done, total int64) { calls++ })
	if err := errors.Join(err, i.Close()); err != nil {
		t.Fatal(err)
	}
	if calls != int64(st.Segments) {
		t.Errorf("%d calls of progress for %d segments", calls, st.Segments)
	}
	return st
}

// TestInspectStats: the figures are those that verify comes to by reading all,
// with an index and without.
func TestInspectStats(t *testing.T) {
	for _, rebuild := range []bool{false, true} {
		fs := verifyStore(t)
		if rebuild {
			if err := fs.RemoveAll(indexDir); err != nil {
				t.Fatal(err)
			}
		}
		r := wantClean(t, fs)
		st := mustStats(t, fs)
		h := st.Totals
		if h.Blocks != 7 || h.RawBytes != r.Namespaces[0].RawBytes || h.StoredBytes != r.Segments.LiveBytes+r.Segments.AliasBytes {
			t.Errorf("totals %+v, verify says %+v", h, r.Segments)
		}
		if h.SharedBlocks != 2 || h.SharedRawBytes != 2*9000 || h.DeadBytes == 0 || h.DeadBytes > r.Segments.DeadBytes {
			t.Errorf("totals %+v, verify says %+v", h, r.Segments)
		}
		unique := int64(3 + 4095 + 9000 + 64<<10 + 20000)
		if want := ratioOf(unique, h.PayloadBytes); h.Ratio != want || want == 0 {
			t.Errorf("ratio %v, want %v", h.Ratio, want)
		}
		if n := st.Namespaces; len(n) != 1 || n[0].HeldBytes != h || n[0].Tenant != "tenant" || n[0].RootHash == "" || n[0].Epoch != 1 || n[0].EpochDeadBytes != 0 {
			t.Errorf("%+v", n)
		}
		var fill, age SegmentGroup
		for _, g := range st.ByFill {
			fill.add(g)
		}
		for _, g := range st.ByAge {
			age.add(g)
		}
		if fill != age || fill.Segments != 2 || len(st.ByAge) != 2 || fill.FileBytes != r.Segments.FileBytes || fill.FileBytes-fill.LiveBytes-fill.DeadBytes != st.UnusedBytes {
			t.Errorf("by fill %+v, by age %+v, unused %d", st.ByFill, st.ByAge, st.UnusedBytes)
		}
		if (st.Rebuild != "") != rebuild || len(st.Warnings) != 0 || st.Sealed != 1 {
			t.Errorf("%+v", st)
		}
	}
}

// TestInspectStatsEpoch: what a bumped epoch has hidden is dead.
func TestInspectStatsEpoch(t *testing.T) {
	fs := verifyStore(t)
	s := mustOpen(t, testOptions(fs))
	if _, err := mustSpace(t, s).BumpEpoch(context.Background()); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	st := mustStats(t, fs)
	if n := st.Namespaces[0]; n.Blocks != 0 || n.StoredBytes != 0 || n.DeadBytes == 0 || n.EpochDeadBytes != n.DeadBytes {
		t.Errorf("%+v", n)
	}
}

// TestInspectStatsDamaged: a bad footer is said, and the rest is counted.
func TestInspectStatsDamaged(t *testing.T) {
	fs := verifyStore(t)
	l := mustLocate(t, fs, 1)
	i, err := fs.Stat(l.File)
	if err != nil {
		t.Fatal(err)
	}
	flipAt(t, fs, l.File, i.SizeBytes-4096+100)
	st := mustStats(t, fs)
	if st.Totals.Blocks != 7 || len(st.Warnings) != 1 || !strings.Contains(st.Warnings[0], disk.SegmentName(l.Segment)) {
		t.Errorf("%+v", st)
	}
}

// TestStatsRootHash: an engine that draws its root hash anew finds nothing of
// what it put before, and the store can not mend that. The figures show blocks
// per root hash, and a warning says what to do. This is field case 2.
func TestStatsRootHash(t *testing.T) {
	fs := vfs.NewMem()
	s := mustOpen(t, testOptions(fs))
	for n, root := range []string{strings.Repeat("aa", 32), strings.Repeat("bb", 32)} {
		l := layout.Opaque("model")
		l.Hash.Root = root
		ns, err := s.Namespace(context.Background(), l, "tenant", NamespaceOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for id := range 3 - n {
			b := PutBlock{Hash: hashOf(id), Planes: []PlaneData{{Name: "value", Spans: [][]byte{contentOf(id, n, 5000)}}}}
			mustPut(t, ns, b)
		}
	}
	mustClose(t, s)
	st := mustStats(t, fs)
	if len(st.Namespaces) != 2 || st.Namespaces[0].Blocks != 3 || st.Namespaces[1].Blocks != 2 || st.Namespaces[1].RootHash != strings.Repeat("bb", 32) {
		t.Errorf("%+v", st.Namespaces)
	}
	if len(st.Warnings) != 1 || !strings.Contains(st.Warnings[0], "namespaces 1 and 2 differ in the root hash alone") {
		t.Errorf("%q", st.Warnings)
	}
}
