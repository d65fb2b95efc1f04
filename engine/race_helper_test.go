package engine

import (
	"bytes"
	"context"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sealstone/sealstone/internal/vfs"
	"go.uber.org/goleak"
)

// hangTimeout only catches a test that hangs; nothing is measured with it.
const hangTimeout = 60 * time.Second

// liveOptions is testOptions with the store's own goroutines at work.
func liveOptions(fs vfs.FS) Options {
	o := testOptions(fs)
	o.private.noBackground = false
	o.SyncInterval = 2 * time.Millisecond
	return o
}

// rendezvous stops goroutines at the store's numbered points, so that a test
// decides in which order things happen.
type rendezvous struct {
	mu    sync.Mutex
	stops map[string]*stop
}

// stop holds the first goroutine that comes to a point, until it is opened.
type stop struct {
	point   string
	reached chan struct{}
	gate    chan struct{}
	once    sync.Once
}

// at is Options.private.points.
func (r *rendezvous) at(point string) {
	r.mu.Lock()
	s := r.stops[point]
	delete(r.stops, point)
	r.mu.Unlock()
	if s != nil {
		close(s.reached)
		<-s.gate
	}
}

// arm lets the next goroutine that comes to point stop there. It is opened
// when the test ends at the latest.
func (r *rendezvous) arm(t testing.TB, point string) *stop {
	t.Helper()
	s := &stop{point: point, reached: make(chan struct{}), gate: make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stops == nil {
		r.stops = map[string]*stop{}
	}
	r.stops[point] = s
	t.Cleanup(s.open)
	return s
}

func (s *stop) wait(t testing.TB) {
	t.Helper()
	waitOr(t, s.reached, "nobody came to "+s.point)
}

func (s *stop) open() { s.once.Do(func() { close(s.gate) }) }

func waitOr(t testing.TB, c <-chan struct{}, hang string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(hangTimeout):
		t.Fatal("hangs: " + hang)
	}
}

// start runs fn beside the test and returns how to wait for it.
func start[T any](t testing.TB, what string, fn func() T) func() T {
	t.Helper()
	var out T
	done := make(chan struct{})
	go func() {
		defer close(done)
		out = fn()
	}()
	return func() T {
		t.Helper()
		waitOr(t, done, what)
		return out
	}
}

// eventually waits for a state that nothing announces.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(hangTimeout); !ok(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("hangs: waiting until " + what)
		}
	}
}

// stallFS blocks the operations that match until it is released.
type stallFS struct {
	vfs.FS
	kind    vfs.OpKind
	prefix  string
	gate    atomic.Pointer[chan struct{}]
	stalled atomic.Int64 // operations held now
	seen    atomic.Int64 // operations ever held
}

func newStallFS(under vfs.FS, kind vfs.OpKind, prefix string) *stallFS {
	s := &stallFS{kind: kind, prefix: prefix}
	s.FS = vfs.WithHook(under, s.hook)
	return s
}

func (s *stallFS) hook(op vfs.Op) error {
	gate := s.gate.Load()
	if gate == nil || op.Kind != s.kind || !strings.HasPrefix(op.Name, s.prefix) {
		return nil
	}
	s.stalled.Add(1)
	s.seen.Add(1)
	<-*gate
	s.stalled.Add(-1)
	return nil
}

func (s *stallFS) stall(t testing.TB) {
	gate := make(chan struct{})
	s.gate.Store(&gate)
	t.Cleanup(s.release)
}

func (s *stallFS) release() {
	if gate := s.gate.Swap(nil); gate != nil {
		close(*gate)
	}
}

// checkLeaks fails if goroutines of this test are left at its end.
func checkLeaks(t testing.TB) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		if t.Failed() {
			return // it may not have closed its store
		}
		if err := goleak.Find(before); err != nil {
			t.Error(err)
		}
	})
}

// wantNoBuffers fails if a buffer of the pools is still out.
func wantNoBuffers(t testing.TB, s *Store) {
	t.Helper()
	eventually(t, "all buffers are back", func() bool {
		a, _, _ := s.pool.Stats()
		b, _, _ := s.readerPool.Stats()
		return a == 0 && b == 0
	})
}

// loseIndex closes nothing and deletes the index, so that the next Open
// rebuilds it from the segments.
func loseIndex(t testing.TB, fs vfs.FS) {
	t.Helper()
	if err := fs.RemoveAll(indexDir); err != nil {
		t.Fatal(err)
	}
}

// afterlives runs check on the store as it is, then on what a kill and a
// power cut at this instant would leave, with the index and without it, and
// then reopened after Close, and rebuilt. All that was put must be flushed. It
// closes s.
func afterlives(t *testing.T, s *Store, mem *vfs.Mem, o Options, check func(t *testing.T, s *Store, n *Namespace)) {
	t.Helper()
	o.private.points = nil
	life := func(name string, s *Store, rebuilt bool) {
		t.Helper()
		if (s.rebuilds > 0) != rebuilt {
			t.Fatalf("%s: %d rebuilds", name, s.rebuilds)
		}
		t.Run(name, func(t *testing.T) { check(t, s, mustSpace(t, s)) })
		wantNoBuffers(t, s)
		mustClose(t, s)
	}
	crash := o
	for _, c := range []struct {
		name    string
		options vfs.CrashOptions
		lost    bool
	}{
		{"killed", vfs.CrashOptions{KeepAll: true}, false},
		{"killed and rebuilt", vfs.CrashOptions{KeepAll: true}, true},
		{"power cut", vfs.CrashOptions{}, false},
		{"power cut and rebuilt", vfs.CrashOptions{}, true},
	} {
		clone := mem.CrashClone(c.options)
		if c.lost {
			loseIndex(t, clone)
		}
		crash.private.fs = clone
		life(c.name, mustOpen(t, crash), c.lost)
	}
	life("running", s, false)
	life("reopened", mustOpen(t, o), false)
	loseIndex(t, mem)
	life("rebuilt", mustOpen(t, o), true)
}

// variantOf tells which variant of a block some bytes are, or -1.
func variantOf(id int, p []byte, variants int) int {
	for v := range variants {
		if bytes.Equal(p, contentOf(id, v, len(p))) {
			return v
		}
	}
	return -1
}

func getParts(id, size int) ([]byte, GetBlock) {
	p := bytes.Repeat([]byte{0xa5}, size)
	cut := size / 3
	return p, GetBlock{Hash: hashOf(id), Parts: []Part{{Plane: "k", Spans: [][]byte{p[:cut]}}, {Plane: "v", Spans: [][]byte{p[cut:]}}}}
}

func untouched(p []byte) bool {
	for _, b := range p {
		if b != 0xa5 {
			return false
		}
	}
	return true
}

func dropOne(n *Namespace, id int) Result {
	return n.Drop(context.Background(), [][]byte{hashOf(id)})[0]
}

func mustDrop(t testing.TB, n *Namespace, id int) {
	t.Helper()
	if r := dropOne(n, id); r.Status != StatusOK {
		t.Fatalf("drop %d: %v %v", id, r.Status, r.Err)
	}
}

// mustEvict runs one pass of eviction.
func mustEvict(t testing.TB, s *Store) {
	t.Helper()
	if ok, err := s.EvictOnce(context.Background()); !ok || err != nil {
		t.Fatalf("evict: %v %v", ok, err)
	}
}

// fillSegment puts blocks from id on until the segment of the first is full
// and another one active, and returns the next free id.
func fillSegment(t testing.TB, s *Store, n *Namespace, id int) int {
	t.Helper()
	s.mu.Lock()
	first := s.active[classFresh]
	s.mu.Unlock()
	for {
		mustPut(t, n, blockOf(id, 0, 30000))
		id++
		s.mu.Lock()
		now := s.active[classFresh]
		s.mu.Unlock()
		if first == nil {
			first = now
		}
		if now != first {
			return id
		}
	}
}
