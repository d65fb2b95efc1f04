package engine

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers"
)

// fakePath is a reader that can be made to return wrong bytes or errors.
type fakePath struct {
	tiers.ReadWriter
	flip atomic.Bool
	fail atomic.Pointer[error]
	// failOnly, if not 0, is the one item of a batch, from 1 on, that fails.
	failOnly atomic.Int64
	reads    atomic.Int64
}

func (f *fakePath) ReadBatch(ctx context.Context, items []tiers.Item) error {
	f.reads.Add(int64(len(items)))
	inner := make([]tiers.Item, len(items))
	copy(inner, items)
	for i := range inner {
		it := &items[i]
		inner[i].Done = func(in *tiers.Item) {
			if err, only := f.fail.Load(), f.failOnly.Load(); err != nil && (only == 0 || only == int64(i+1)) {
				in.Err, in.N = *err, 0
				clearAll(in.Spans)
			} else if f.flip.Load() {
				in.Spans[len(in.Spans)-1][0] ^= 1
			}
			it.N, it.Path, it.Err = in.N, in.Path, in.Err
			if it.Done != nil {
				it.Done(it)
			}
		}
	}
	return f.ReadWriter.ReadBatch(ctx, inner)
}

// fakePaths puts two fakes over the store's reader, first and second.
func fakePaths(s *Store) (first, second *fakePath) {
	under := s.paths.use().rw
	first, second = &fakePath{ReadWriter: under}, &fakePath{ReadWriter: under}
	s.paths.list = nil
	s.paths.current.Store(nil)
	s.paths.add(&ioPath{name: "first", rw: first})
	s.paths.add(&ioPath{name: "second", rw: second})
	return first, second
}

// TestLaw6Demotion: a path that returns wrong bytes where another one does
// not is used no more, and the block is served and kept.
func TestLaw6Demotion(t *testing.T) {
	var mu sync.Mutex
	var events []string
	o := testOptions(vfs.NewMem())
	o.OnEvent = func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, e.String())
	}
	s := mustOpen(t, o)
	n := mustSpace(t, s)
	for id := range 4 {
		mustPut(t, n, blockOf(id, 0, 9000))
	}
	first, second := fakePaths(s)
	wantBlock(t, n, 0, 0, 9000)
	if first.reads.Load() != 1 || second.reads.Load() != 0 {
		t.Fatalf("%d reads by the first path, %d by the second", first.reads.Load(), second.reads.Load())
	}
	first.flip.Store(true)
	wantBlock(t, n, 1, 0, 9000)
	if got := first.reads.Load(); got != 1+readTriesMax {
		t.Errorf("%d reads by the bad path, want %d", got, 1+readTriesMax)
	}
	before := first.reads.Load()
	wantBlock(t, n, 2, 0, 9000)
	if first.reads.Load() != before {
		t.Error("the demoted path is still used")
	}
	st := s.Stats()
	if st.PathRead != "second" || st.Quarantined != 0 || len(st.Paths) != 2 || st.Paths[0].Demoted == "" || !st.Paths[1].Current {
		t.Errorf("path %s, %d quarantined, %+v", st.PathRead, st.Quarantined, st.Paths)
	}
	// The last path stays: what it returns wrong is quarantined.
	second.flip.Store(true)
	if _, r := getBlock(t, n, 3, 9000); r.Status != StatusCorrupt {
		t.Errorf("%v %v", r.Status, r.Err)
	}
	if st := s.Stats(); st.PathRead != "second" || st.Quarantined != 1 {
		t.Errorf("path %s, %d quarantined", st.PathRead, st.Quarantined)
	}
	mustClose(t, s)
	mu.Lock()
	defer mu.Unlock()
	if all := strings.Join(events, "\n"); strings.Count(all, "path-demoted: path first is not used any more") != 1 {
		t.Errorf("events: %s", all)
	}
}

// TestSingleReadsTakeTheShortPath: a read that comes alone takes the path that
// is made for it, until that is demoted; the path to blame is the one that
// read.
func TestSingleReadsTakeTheShortPath(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	for id := range 8 {
		putPages(t, n, id, 12288)
	}
	first, second := fakePaths(s)
	s.paths.alone = s.paths.list[1]
	get := func(ids ...int) {
		t.Helper()
		var batch []GetBlock
		p := make([]byte, len(ids)*12288)
		for i, id := range ids {
			batch = append(batch, wholeOf(id, p[i*12288:][:12288]))
		}
		for i, r := range n.Get(context.Background(), batch, GetOptions{}) {
			if r.Status != StatusOK {
				t.Fatalf("block %d: %v %v", ids[i], r.Status, r.Err)
			}
		}
	}
	get(0)
	if first.reads.Load() != 0 || second.reads.Load() != 1 {
		t.Errorf("%d and %d reads", first.reads.Load(), second.reads.Load())
	}
	get(0, 0) // never joined
	if first.reads.Load() != 2 || second.reads.Load() != 1 {
		t.Errorf("%d and %d reads", first.reads.Load(), second.reads.Load())
	}
	second.flip.Store(true)
	get(1)
	if st := s.Stats(); st.PathRead != "first" || st.Paths[1].Demoted == "" || st.Paths[0].Demoted != "" {
		t.Errorf("%+v", st.Paths)
	}
	before := second.reads.Load()
	get(2)
	if second.reads.Load() != before {
		t.Error("the demoted path is still used")
	}
}

// TestDamagedBlockDemotesNobody: bytes that are wrong by every path are the
// block's fault.
func TestDamagedBlockDemotesNobody(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	mustPut(t, n, blockOf(0, 0, 9000))
	mustPut(t, n, blockOf(1, 0, 9000))
	first, second := fakePaths(s)
	first.flip.Store(true)
	second.flip.Store(true)
	if _, r := getBlock(t, n, 0, 9000); r.Status != StatusCorrupt {
		t.Fatalf("%v %v", r.Status, r.Err)
	}
	if st := s.Stats(); st.PathRead != "first" || st.Quarantined != 1 {
		t.Errorf("path %s, %d quarantined", st.PathRead, st.Quarantined)
	}
	// A path that fails to read says nothing about what another returned.
	broken := errors.New("broken")
	second.flip.Store(false)
	second.fail.Store(&broken)
	if _, r := getBlock(t, n, 1, 9000); r.Status != StatusCorrupt {
		t.Fatalf("%v %v", r.Status, r.Err)
	}
	if st := s.Stats(); st.PathRead != "first" {
		t.Errorf("path %s", st.PathRead)
	}
}

// TestDemotionsAtOnce: many readers find the path bad at a time; it is
// demoted once, and the last path never.
func TestDemotionsAtOnce(t *testing.T) {
	var p ioPaths
	a, b, c := &ioPath{name: "a"}, &ioPath{name: "b"}, &ioPath{name: "c"}
	for _, path := range []*ioPath{a, b, c} {
		p.add(path)
	}
	var done atomic.Int64
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for _, path := range []*ioPath{a, b, c} {
				if p.demote(path, "bad") {
					done.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if done.Load() != 2 || p.use().demoted.Load() != nil {
		t.Errorf("%d paths demoted, %s in use", done.Load(), p.use().name)
	}
}

// TestDepthMeter: one request all the time, and two for a part of it.
func TestDepthMeter(t *testing.T) {
	var m depthMeter
	if n, busy, weight := m.read(); n != 0 || busy != 0 || weight != 0 {
		t.Errorf("new: %d %v %v", n, busy, weight)
	}
	at := time.Unix(0, 0)
	step := func(delta int, after time.Duration) {
		m.mu.Lock()
		defer m.mu.Unlock()
		at = at.Add(after)
		m.settle(at)
		m.n += delta
	}
	step(1, 0)
	step(2, time.Second)    // 1 s of 1
	step(-2, 2*time.Second) // 2 s of 3
	step(-1, time.Second)   // 1 s of 1
	step(1, time.Hour)      // idle
	step(-1, time.Second)   // 1 s of 1
	if m.busy != 5*time.Second || m.weight != 9*time.Second {
		t.Errorf("busy %v, weight %v", m.busy, m.weight)
	}
}
