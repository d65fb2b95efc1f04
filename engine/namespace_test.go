package engine

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sealstone/sealstone/engine/layout"
	"github.com/sealstone/sealstone/internal/vfs"
)

func spaceOf(t testing.TB, s *Store, l Layout, tenant string) *Namespace {
	t.Helper()
	n, err := s.Namespace(context.Background(), l, tenant, NamespaceOptions{})
	if err != nil {
		t.Fatalf("namespace: %v", err)
	}
	return n
}

// TestNamespaceOfSameLayout: the same layout and tenant are the same
// namespace, in this life of the store and the next.
func TestNamespaceOfSameLayout(t *testing.T) {
	o := testOptions(vfs.NewMem())
	s := mustOpen(t, o)
	a, b := spaceOf(t, s, testLayout(), "tenant"), spaceOf(t, s, testLayout(), "tenant")
	other := spaceOf(t, s, testLayout(), "other")
	if a.Info() != b.Info() || a.Info().Number == other.Info().Number {
		t.Errorf("%+v, %+v, other tenant %+v", a.Info(), b.Info(), other.Info())
	}
	if len(a.Differences())+len(b.Differences())+len(other.Differences()) != 0 {
		t.Error("differences without another layout of the tenant")
	}
	if fp := testLayout().Fingerprint(); a.Info().Fingerprint != fp || a.Info().Tenant != "tenant" {
		t.Errorf("info %+v", a.Info())
	}
	mustClose(t, s)
	s = mustOpen(t, o)
	defer mustClose(t, s)
	if again := spaceOf(t, s, testLayout(), "tenant"); again.Info() != a.Info() {
		t.Errorf("reopened: %+v, was %+v", again.Info(), a.Info())
	}
}

// TestNamespaceDifferences names each field that differs, with both values,
// and refuses with RequireMatch.
func TestNamespaceDifferences(t *testing.T) {
	for _, c := range []struct {
		field  string
		change func(*Layout)
		a, b   string
	}{
		{"dtype", func(l *Layout) { l.DType = "fp8" }, "bytes", "fp8"},
		{"tokens_per_block", func(l *Layout) { l.TokensPerBlock = 32 }, "1", "32"},
		{"hybrid_kv_manager", func(l *Layout) { l.HybridKVManager = layout.On }, "off", "on"},
		{"weights_digest", func(l *Layout) { l.WeightsDigest = "abc" }, "none", "abc"},
		{"tp", func(l *Layout) { l.TP = layout.Parallel{Size: 2, Rank: 1} }, "agnostic", "2"},
		{"planes.v", func(l *Layout) { l.Planes[1].SizeBytes = 64 }, "", "64"},
		{"extra.pool", func(l *Layout) { l.Extra = map[string]string{"pool": "x"} }, "absent", "x"},
		{"hash.root", func(l *Layout) { l.Hash.Root = "ab" }, "none", "ab"},
	} {
		t.Run(c.field, func(t *testing.T) {
			s := mustOpen(t, testOptions(vfs.NewMem()))
			defer mustClose(t, s)
			old := spaceOf(t, s, testLayout(), "tenant")
			mustPut(t, old, blockOf(0, 0, 96))
			l := testLayout()
			c.change(&l)

			_, err := s.Namespace(context.Background(), l, "tenant", NamespaceOptions{RequireMatch: true})
			var mismatch *LayoutMismatchError
			if !errors.As(err, &mismatch) || !errors.Is(err, ErrLayoutMismatch) || !strings.Contains(err.Error(), c.field) {
				t.Fatalf("RequireMatch: %v", err)
			}
			wantDifference(t, mismatch.Differences, c.field, c.a, c.b)

			n := spaceOf(t, s, l, "tenant")
			if n.Info().Number == old.Info().Number {
				t.Fatal("another layout, the same namespace")
			}
			wantDifference(t, n.Differences(), c.field, c.a, c.b)
			wantStatus(t, n, 0, 96, StatusMiss) // never the other layout's bytes
			if warned := len(n.Warnings()) > 0; warned != (c.field == "hash.root") {
				t.Errorf("warnings: %q", n.Warnings())
			}
			// It exists now: it matches, and differs from nothing.
			n, err = s.Namespace(context.Background(), l, "tenant", NamespaceOptions{RequireMatch: true})
			if err != nil || len(n.Differences()) != 0 {
				t.Errorf("opened again: %v %v", err, n.Differences())
			}
			// Another tenant's layouts are none of its business.
			if _, err := s.Namespace(context.Background(), l, "other", NamespaceOptions{RequireMatch: true}); err != nil {
				t.Errorf("other tenant: %v", err)
			}
		})
	}
}

func wantDifference(t *testing.T, ds []layout.Difference, field, a, b string) {
	t.Helper()
	if len(ds) != 1 || ds[0].Field != field || !strings.Contains(ds[0].A, a) || !strings.Contains(ds[0].B, b) {
		t.Errorf("differences %v, want only %s: %s / %s", ds, field, a, b)
	}
}

// TestTenants: a block is its tenant's alone, also where key and bytes are
// equal, and equal bytes are shared within a tenant only.
func TestTenants(t *testing.T) {
	for _, noSharing := range []bool{false, true} {
		fs := vfs.NewMem()
		o := testOptions(fs)
		o.NoSharing = noSharing
		s := mustOpen(t, o)
		a, b := spaceOf(t, s, testLayout(), "a"), spaceOf(t, s, testLayout(), "b")
		other := testLayout()
		other.DType = "fp8"
		a2 := spaceOf(t, s, other, "a")
		mustPut(t, a, blockOf(0, 0, raceSize))
		mustFlush(t, s)
		wantStatus(t, b, 0, raceSize, StatusMiss)
		wantStatus(t, a2, 0, raceSize, StatusMiss)

		if r := mustPut(t, b, blockOf(0, 0, raceSize)); r.Existed || r.Shared {
			t.Errorf("tenant b: %+v", r)
		}
		if r := mustPut(t, b, blockOf(1, 1, raceSize)); r.Shared {
			t.Errorf("tenant b: %+v", r)
		}
		for _, n := range []*Namespace{a, a2} {
			if r := mustPut(t, n, twinOf(1)); r.Existed || r.Shared == noSharing {
				t.Errorf("tenant a, namespace %d, NoSharing %v: %+v", n.Info().Number, noSharing, r)
			}
		}
		if st := s.Stats(); st.PutShared != map[bool]int64{false: 2, true: 0}[noSharing] {
			t.Errorf("%d shared", st.PutShared)
		}
		wantTwin(t, a, 1)
		wantTwin(t, a2, 1)
		wantBlock(t, b, 1, 1, raceSize)
		mustDrop(t, a, 0)
		mustDrop(t, a, 1)
		wantTwin(t, a2, 1)
		wantBlock(t, b, 0, 0, raceSize)
		mustClose(t, s)
	}
}

// TestDiffersFlag: the first put wins, and the second hears that it differs.
func TestDiffersFlag(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	mustPut(t, n, blockOf(0, 0, raceSize))
	for _, flushed := range []bool{false, true} {
		for variant, differs := range []bool{false, true} {
			if r := mustPut(t, n, blockOf(0, variant, raceSize)); !r.Existed || r.Differs != differs || r.WrittenBytes != 0 || r.Durable != flushed {
				t.Errorf("flushed %v variant %d: %+v", flushed, variant, r)
			}
		}
		mustFlush(t, s)
	}
	wantBlock(t, n, 0, 0, raceSize)
	if st := s.Stats(); st.PutDiffers != 2 || st.PutExisted != 4 {
		t.Errorf("%d differ, %d existed", st.PutDiffers, st.PutExisted)
	}
	if len(eventsOf(s, EventDiffers)) != 1 {
		t.Errorf("events: %v", s.Events(0))
	}
}

// TestParents: a put that builds upon a block keeps it from eviction and is
// one deeper; without its parent it is counted as out of reach.
func TestParents(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	mustPut(t, n, blockOf(0, 0, raceSize))
	mustPut(t, n, blockOf(1, 0, raceSize))
	next := fillSegment(t, s, n, 2)
	s.used = usedBlocks{} // whatever the filling did
	child := blockOf(next, 0, raceSize)
	child.Parent = hashOf(0)
	grandchild := blockOf(next+1, 0, raceSize)
	grandchild.Parent = hashOf(next)
	orphan := blockOf(next+2, 0, raceSize)
	orphan.Parent = hashOf(999_999)
	for i, r := range n.Put(context.Background(), []PutBlock{child, grandchild, orphan}, PutOptions{}) {
		if r.Status != StatusOK {
			t.Fatalf("put %d: %v %v", i, r.Status, r.Err)
		}
	}
	for id, want := range map[int]uint32{0: 0, next: 1, next + 1: 2, next + 2: 0} {
		if d := entryOf(t, s, n, id).Depth; d != want {
			t.Errorf("block %d: depth %d, want %d", id, d, want)
		}
	}
	if c := s.Stats().Unreachable; c != 1 {
		t.Errorf("%d out of reach, want 1", c)
	}
	mustEvict(t, s)
	wantBlock(t, n, 0, 0, raceSize)
	wantStatus(t, n, 1, raceSize, StatusMiss)
}

// TestMatchPrefix: the longest stored prefix, whatever lies behind the gap.
func TestMatchPrefix(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	var chain [][]byte
	for id := range 10 {
		chain = append(chain, hashOf(id))
		if id != 6 {
			mustPut(t, n, blockOf(id, 0, 500))
		}
		if id == 3 {
			mustFlush(t, s) // half of it in the index, half in memory
		}
	}
	match := func(hashes [][]byte) int {
		l, err := n.Match(context.Background(), hashes)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Release()
		return l.Blocks()
	}
	for _, c := range []struct{ from, want int }{{0, 6}, {3, 3}, {6, 0}, {7, 3}} {
		if got := match(chain[c.from:]); got != c.want {
			t.Errorf("from %d: %d blocks, want %d", c.from, got, c.want)
		}
	}
	if got := match(nil); got != 0 {
		t.Errorf("no hashes: %d", got)
	}
	mustDrop(t, n, 2)
	if got := match(chain); got != 2 {
		t.Errorf("after a drop: %d", got)
	}
	want := []Status{StatusOK, StatusOK, StatusMiss, StatusOK, StatusOK, StatusOK, StatusMiss, StatusOK, StatusOK, StatusOK}
	if got := n.Has(context.Background(), chain); !slices.Equal(got, want) {
		t.Errorf("has %v", got)
	}
	if got := n.Touch(context.Background(), chain); !slices.Equal(got, want) {
		t.Errorf("touch %v", got)
	}
}

func eventsOf(s *Store, kind EventKind) (out []Event) {
	for _, e := range s.Events(0) {
		if e.Kind == kind {
			out = append(out, e)
		}
	}
	return out
}

// TestEvents: the ring is bounded and numbered without gaps, the callback is
// called one at a time and sees what the ring sees, and a slow one holds
// nobody up.
func TestEvents(t *testing.T) {
	checkLeaks(t)
	var mu sync.Mutex
	var called []Event
	inside := false
	gate := make(chan struct{})
	o := testOptions(vfs.NewMem())
	o.OnEvent = func(e Event) {
		mu.Lock()
		if inside {
			t.Error("two callbacks at a time")
		}
		inside = true
		mu.Unlock()
		<-gate
		mu.Lock()
		called, inside = append(called, e), false
		mu.Unlock()
	}
	s := mustOpen(t, o)
	n := mustSpace(t, s)
	for range eventRingLength + 50 {
		n = mustBump(t, n)
	}
	ring := s.Events(0)
	if len(ring) != eventRingLength {
		t.Fatalf("%d events in the ring", len(ring))
	}
	for i := 1; i < len(ring); i++ {
		if ring[i].Seq != ring[i-1].Seq+1 {
			t.Fatalf("event %d follows %d", ring[i].Seq, ring[i-1].Seq)
		}
	}
	last := ring[len(ring)-1]
	if got := s.Events(last.Seq - 3); len(got) != 3 || got[2] != last {
		t.Errorf("the last three: %v", got)
	}
	if got := s.Events(last.Seq); len(got) != 0 {
		t.Errorf("after the last: %v", got)
	}
	close(gate)
	mustClose(t, s)
	mu.Lock()
	defer mu.Unlock()
	if len(called) < 2 || called[0].Kind != EventProbe || called[0].Seq != 1 || called[1].Kind != EventOpened {
		t.Errorf("first callbacks: %v", called[:min(len(called), 2)])
	}
	if !slices.IsSortedFunc(called, func(a, b Event) int { return int(a.Seq) - int(b.Seq) }) {
		t.Error("callbacks out of order")
	}
}

// TestLoggerAndHealth: silent by default, one line per change of state.
func TestLoggerAndHealth(t *testing.T) {
	var out strings.Builder
	mem := vfs.NewMem()
	broken := errors.New("broken device")
	var fail bool
	fs := vfs.WithHook(mem, func(op vfs.Op) error {
		if fail && op.Kind == vfs.OpSync && strings.HasPrefix(op.Name, "segments/") {
			return broken
		}
		return nil
	})
	o := testOptions(fs)
	o.Logger = slog.New(slog.NewTextHandler(&out, nil))
	s := mustOpen(t, o)
	n := mustSpace(t, s)
	if h := s.Health(); h.State != HealthOK || len(h.Reasons) != 0 {
		t.Errorf("health %+v", h)
	}
	if strings.Contains(out.String(), "health") {
		t.Errorf("logged without a change: %s", out.String())
	}
	mustPut(t, n, blockOf(0, 0, 500))
	mustFlush(t, s)
	fail = true
	mustPut(t, n, blockOf(1, 0, 500))
	if err := s.Flush(context.Background()); !errors.Is(err, ErrReadOnly) {
		t.Errorf("flush: %v", err)
	}
	h := s.Health()
	if h.State != HealthReadOnly || len(h.Reasons) != 1 || !strings.Contains(h.Reasons[0], broken.Error()) {
		t.Errorf("health %+v", h)
	}
	if c := strings.Count(out.String(), "health is now read-only"); c != 1 {
		t.Errorf("%d lines on the change: %s", c, out.String())
	}
	// Reads go on, writes are shed, what the sync covered is withdrawn.
	wantBlock(t, n, 0, 0, 500)
	wantStatus(t, n, 1, 500, StatusMiss)
	if r := putOne(n, blockOf(2, 0, 500)); r.Status != StatusShed || !errors.Is(r.Err, ErrReadOnly) {
		t.Errorf("put: %v %v", r.Status, r.Err)
	}
	if r := dropOne(n, 0); r.Status != StatusShed {
		t.Errorf("drop: %v %v", r.Status, r.Err)
	}
	mustClose(t, s)
	if h := s.Health(); h.State != HealthClosed {
		t.Errorf("health %+v", h)
	}
	// A reopen is whole again.
	fail = false
	s = mustOpen(t, o)
	defer mustClose(t, s)
	n = mustSpace(t, s)
	wantBlock(t, n, 0, 0, 500)
	mustPut(t, n, blockOf(2, 0, 500))
}
