// Package reports_test runs what users of other systems have reported, and the
// matrix of faults, through a whole store and the doubles of the GPU libraries.
// It is the one place below gpu that knows package engine: its tests belong to
// gpu, and what they show is what a caller of engine sees.
package reports_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/engine/layout"
	"github.com/sealstone/sealstone/gpu"
	"github.com/sealstone/sealstone/gpu/driver"
	"github.com/sealstone/sealstone/gpu/gputest"
)

// hangTimeout is how long a call may take by the still clock.
const hangTimeout = 10 * time.Second

// noKernel keeps the verify kernel from being proven.
const noKernel = "cuModuleLoadDataEx=218"

// stillClock never lets a timeout pass by itself, so that a slow machine is not
// taken for a hang.
type stillClock struct {
	mu    sync.Mutex
	now   time.Time
	waits map[*stillWait]struct{}
}

type stillWait struct {
	at time.Time
	d  time.Duration
	c  chan time.Time
}

func (c *stillClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *stillClock) After(d time.Duration) (<-chan time.Time, func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := &stillWait{c.now.Add(d), d, make(chan time.Time, 1)}
	if c.waits == nil {
		c.waits = map[*stillWait]struct{}{}
	}
	c.waits[w] = struct{}{}
	return w.c, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.waits, w)
	}
}

// waiting is how many wait for d now.
func (c *stillClock) waiting(d time.Duration) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.waits {
		if w.d == d {
			n++
		}
	}
	return n
}

// advance lets d pass.
func (c *stillClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	for w := range c.waits {
		if !w.at.After(c.now) {
			w.c <- c.now
			delete(c.waits, w)
		}
	}
}

// storeRig is a store in a directory, and one space of blocks of two planes.
type storeRig struct {
	t     *testing.T
	dir   string
	store *engine.Store
	space *engine.Namespace
}

func newStore(t *testing.T) *storeRig {
	t.Helper()
	s := &storeRig{t: t, dir: filepath.Join(t.TempDir(), "store")}
	var err error
	if s.store, err = engine.Open(s.dir, engine.Options{CapacityBytes: 512 << 20, MaxBlockBytes: 1 << 20, IndexCacheBytes: 1 << 20, HintBytes: -1, ScrubCycle: -1}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.store.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	l := layout.Opaque("reports")
	l.Planes = []layout.Plane{{Name: "k"}, {Name: "v"}}
	if s.space, err = s.store.Namespace(context.Background(), l, "tenant", engine.NamespaceOptions{}); err != nil {
		t.Fatal(err)
	}
	return s
}

// hashOf and contentOf make blocks of which no two have the same bytes.
func hashOf(id int) []byte {
	h := sha256.Sum256(fmt.Appendf(nil, "block %d", id))
	return h[:]
}

func contentOf(id, size int) []byte {
	p := make([]byte, size)
	x := uint64(id)*0x9e3779b97f4a7c15 + 1
	for i := 0; i+8 <= len(p); i += 8 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		binary.LittleEndian.PutUint64(p[i:], x)
	}
	return p
}

// planeCut is where a block's second plane begins: at a page, so that it may
// be read straight, for every other size.
func planeCut(size int) int { return size / 2 }

func (s *storeRig) put(id, size int) {
	s.t.Helper()
	p := contentOf(id, size)
	cut := planeCut(size)
	r := s.space.Put(context.Background(), []engine.PutBlock{{Hash: hashOf(id), Planes: []engine.PlaneData{
		{Name: "k", Spans: [][]byte{p[:cut]}}, {Name: "v", Spans: [][]byte{p[cut:]}},
	}}}, engine.PutOptions{Durable: true})[0]
	if r.Status != engine.StatusOK {
		s.t.Fatal(r.Err)
	}
}

// deviceRig is a GPU of the doubles, and memory of the caller there.
type deviceRig struct {
	t     *testing.T
	x     *gputest.Doubles
	dev   *gpu.Device
	c     *driver.Context
	clock *stillClock
	spans []gpu.Span
	bases []driver.DevicePtr
}

const guardBytes = 256

// poison is what spans hold before anything is read there.
const poison = 0xdd

func openDevice(t *testing.T, x *gputest.Doubles, ordinal int, change func(*gpu.Options)) *deviceRig {
	t.Helper()
	d := &deviceRig{t: t, x: x, clock: &stillClock{now: time.Unix(1_700_000_000, 0)}}
	dr := x.Open(t)
	o := gpu.Options{
		PinnedBytesMax: 32 << 20, PinnedChunkBytes: 4 << 20, StagingBytesMax: 8 << 20, LandingBytesMax: 4 << 20,
		HangTimeout: hangTimeout, Clock: d.clock, CuFileLogDir: t.TempDir(),
	}
	if change != nil {
		change(&o)
	}
	var err error
	if d.dev, err = gpu.OpenDevice(dr, ordinal, o); err != nil {
		t.Fatal(err)
	}
	if d.c, err = dr.RetainPrimary(ordinal); err != nil {
		t.Fatal(err)
	}
	return d
}

// span is poisoned device memory of the caller, with guards around it.
func (d *deviceRig) span(n int) gpu.Span {
	d.t.Helper()
	p, err := d.c.MemAlloc(int64(n) + 2*guardBytes)
	if err != nil {
		d.t.Fatal(err)
	}
	d.bases = append(d.bases, p)
	s := gpu.Span{Ptr: p + guardBytes, LengthBytes: int64(n)}
	d.spans = append(d.spans, s)
	d.poison(s)
	return s
}

func (d *deviceRig) poison(s gpu.Span) {
	d.x.Write(s.Ptr-guardBytes, bytes.Repeat([]byte{poison}, int(s.LengthBytes)+2*guardBytes))
}

// holds says what a span holds, of which data are the right bytes.
func (d *deviceRig) holds(s gpu.Span, data []byte) string {
	all := d.x.Bytes(s.Ptr-guardBytes, s.LengthBytes+2*guardBytes)
	got := all[guardBytes:][:s.LengthBytes]
	trim := func(p []byte, b byte) int { return len(bytes.Trim(p, string([]byte{b}))) }
	switch {
	case bytes.Count(all[:guardBytes], []byte{poison}) != guardBytes || bytes.Count(all[guardBytes+len(got):], []byte{poison}) != guardBytes:
		return "a byte beside the span was written"
	case bytes.Equal(got, data):
		return "whole"
	case bytes.Count(got, []byte{poison}) == len(got):
		return "untouched"
	case trim(got, 0) == 0:
		return "zeros"
	}
	return "WRONG BYTES"
}

// proven is a verdict of a canary that passed for this GPU.
func (d *deviceRig) proven(dir string) gpu.Verdict {
	return gpu.Verdict{State: gpu.VerdictProven, Dir: dir, Key: gpu.VerdictKey{GPU: d.dev.UUID(), Device: "8:1"}}
}

// allow turns the direct path of a directory on.
func (d *deviceRig) allow(dir string) *gpu.Route {
	d.t.Helper()
	r := d.dev.AllowDirect(dir, d.proven(dir))
	if st := r.Status(); st.State != gpu.RouteProven {
		d.t.Fatalf("the route is %+v", st)
	}
	return r
}

// close gives everything back, and finds that nothing is left and no rule was
// broken.
func (d *deviceRig) close() {
	d.t.Helper()
	lost := d.dev.Stats().DeviceLost
	for _, p := range d.bases {
		if err := d.c.MemFree(p); err != nil && !lost {
			d.t.Error(err)
		}
	}
	if err := d.c.Release(); err != nil && !lost {
		d.t.Error(err)
	}
	if err := d.dev.Close(context.Background()); err != nil && !lost {
		d.t.Error(err)
	}
}

// wanted is a block, or a range of it, wanted on the GPU.
type wanted struct {
	id, size int
	block    engine.DeviceGetBlock
	spans    []gpu.Span
	data     [][]byte // by span
}

// whole wants both planes, the second in two spans.
func (d *deviceRig) whole(id, size int) *wanted {
	w := &wanted{id: id, size: size, block: engine.DeviceGetBlock{Hash: hashOf(id)}}
	p, cut := contentOf(id, size), planeCut(size)
	w.add(d, "k", 0, p[:cut], false, cut)
	w.add(d, "v", 0, p[cut:], false, 1000, size-cut-1000)
	return w
}

// ranged wants bytes of the second plane that begin and end within chunks.
func (d *deviceRig) ranged(id, size int) *wanted {
	w := &wanted{id: id, size: size, block: engine.DeviceGetBlock{Hash: hashOf(id)}}
	p := contentOf(id, size)[planeCut(size):]
	from, n := len(p)/4, len(p)/2
	w.add(d, "v", from, p[from:from+n], true, 700, n-700)
	return w
}

func (w *wanted) add(d *deviceRig, plane string, off int, data []byte, ranged bool, pieces ...int) {
	part := engine.DevicePart{Plane: plane}
	if ranged {
		part.OffsetBytes, part.LengthBytes = int64(off), int64(len(data))
	}
	for _, n := range pieces {
		s := d.span(n)
		part.Spans, w.spans, w.data = append(part.Spans, s), append(w.spans, s), append(w.data, data[:n])
		data = data[n:]
	}
	w.block.Parts = append(w.block.Parts, part)
}

// poison makes the destinations as they were at first.
func (w *wanted) poison(d *deviceRig) {
	for _, s := range w.spans {
		d.poison(s)
	}
}

// judge holds a result to what is in the destination.
func (w *wanted) judge(t testing.TB, d *deviceRig, r engine.DeviceGetResult) {
	t.Helper()
	for i, s := range w.spans {
		got := d.holds(s, w.data[i])
		if r.Status == engine.StatusOK && got != "whole" || r.Status != engine.StatusOK && got != "untouched" && got != "zeros" {
			t.Errorf("block %d, span %d: %v (%v), and it is %s", w.id, i, r.Status, r.Err, got)
		}
	}
	if (r.Status == engine.StatusOK) != (r.Err == nil) || (r.Path == engine.PathNone) != (r.Err != nil) {
		t.Errorf("block %d: %+v", w.id, r)
	}
}

func (s *storeRig) get(d *deviceRig, all []*wanted) []engine.DeviceGetResult {
	blocks := make([]engine.DeviceGetBlock, len(all))
	for i, w := range all {
		blocks[i] = w.block
	}
	return s.space.GetToDevice(context.Background(), d.dev, blocks, engine.DeviceGetOptions{})
}

// checkLeaks fails if goroutines of this test are left at its end.
func checkLeaks(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		if !t.Failed() {
			if err := goleak.Find(before); err != nil {
				t.Error(err)
			}
		}
	})
}

// checkLogs fails if cuFile's log was written to the working directory.
func checkLogs(t *testing.T) {
	if _, err := os.Stat("cufile.log"); err == nil {
		t.Error("cufile.log in the working directory")
	}
}
