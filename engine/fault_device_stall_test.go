package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/sealstone/sealstone/internal/faults/faulttest"
	"github.com/sealstone/sealstone/internal/vfs"
)

// deviceStalls are the operations that hang in TestFaultStall, one kind at a
// time. Those of short are what -short runs. (Reads of the index that hang are
// tested in its own package: here all of it is in its cache.)
var deviceStalls = []struct {
	kind   vfs.OpKind
	prefix string
	short  bool
}{
	{vfs.OpRead, "segments/", true},
	{vfs.OpOpen, "segments/", true},
	{vfs.OpWrite, "segments/", false},
	{vfs.OpSync, "segments/", true},
	{vfs.OpCreate, "segments/", false},
	{vfs.OpPreallocate, "segments/", false},
	{vfs.OpRemove, "segments/", false},
	{vfs.OpSyncDir, "segments/", false},
	{vfs.OpTruncate, "segments/", false},
	{vfs.OpWrite, "wal/", true},
	{vfs.OpSync, "wal/", false},
	{vfs.OpCreate, "NAMESPACES", true},
	{vfs.OpWrite, "NAMESPACES", false},
	{vfs.OpSync, "NAMESPACES", false},
	{vfs.OpRename, "NAMESPACES", false},
	{vfs.OpSyncDir, ".", false},
	{vfs.OpStat, ".", false},
	{vfs.OpCreate, "index/", true},
	{vfs.OpWrite, "index/", false},
	{vfs.OpSync, "index/", false},
	{vfs.OpSyncDir, "index", false},
}

// TestFaultStall is law 4, and field cases 12 and 13: one kind of operation
// hangs until it is released. Meanwhile every call is answered by its deadline,
// those without one by themselves, and goroutines stay few. When the device
// answers again the same store does all of it again, without a reopen. Then the
// device hangs once more, and Close gives up by its context.
func TestFaultStall(t *testing.T) {
	tally := faulttest.New(t)
	for _, c := range deviceStalls {
		if testing.Short() && !c.short {
			continue
		}
		name := fmt.Sprintf("%v of %s hangs", c.kind, c.prefix)
		t.Run(name, func(t *testing.T) {
			r := newStallRig(t, c.kind, c.prefix)
			fault := tally.Try(name)
			r.hang(fault)
			r.recovered()
			r.closed()
			if !t.Failed() {
				fault.Survive()
			}
		})
	}
}

const (
	// stallKept are blocks in a segment that no eviction of the test reaches.
	stallKept = 8
	// stallEvictions are the most that the test asks for: the blocks that are
	// kept lie in a later segment.
	stallEvictions = 3
)

// stallRig is a store whose device can hang, and who uses it.
type stallRig struct {
	t     *testing.T
	mem   *vfs.Mem
	fs    *stallFS
	o     Options
	s     *Store
	n     *Namespace // of the blocks
	other *Namespace // whose epoch is bumped

	mu      sync.Mutex
	stored  []int        // blocks whose put was OK
	dropped map[int]bool // those that may be gone by a drop
	next    int          // the first id that was not put
	evicts  int
	calls   int
}

func newStallRig(t *testing.T, kind vfs.OpKind, prefix string) *stallRig {
	checkLeaks(t)
	r := &stallRig{t: t, mem: vfs.NewMem(), dropped: map[int]bool{}}
	r.fs = newStallFS(r.mem, kind, prefix)
	r.o = liveOptions(r.fs)
	r.o.SegmentBytes, r.o.MaxOpenFiles = 192*kib, 16 // few blocks fill one, few stay open
	r.s = mustOpen(t, r.o)
	r.n = mustSpace(t, r.s)
	r.other = r.space("other")
	id := 1000
	for range stallEvictions {
		id = fillSegment(t, r.s, r.n, id)
	}
	for kept := range stallKept {
		mustPut(t, r.n, blockOf(kept, 0, raceSize))
	}
	r.next = fillSegment(t, r.s, r.n, id)
	mustFlush(t, r.s)
	return r
}

func (r *stallRig) space(tenant string) *Namespace {
	r.t.Helper()
	n, err := r.s.Namespace(context.Background(), testLayout(), tenant, NamespaceOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

// hang lets the device hang, and uses the store until something meets that and
// once more.
func (r *stallRig) hang(fault *faulttest.Fault) {
	r.t.Helper()
	before := runtime.NumGoroutine()
	r.fs.stall(r.t)
	for round := 0; r.fs.seen.Load() == 0; round++ {
		if round == 100 {
			r.t.Fatal("nothing came to the operation that hangs")
		}
		r.useAll()
	}
	fault.Fire()
	r.useAll()
	if now, most := runtime.NumGoroutine(), before+4*r.calls+r.s.o.ReadWorkers; now > most {
		r.t.Errorf("%d goroutines, %d before the device hung and %d calls", now, before, r.calls)
	}
}

// useAll makes each call once, all at a time and each with a deadline of 20 ms,
// and those without one. It returns when all are answered.
func (r *stallRig) useAll() {
	r.t.Helper()
	s, n := r.s, r.n
	first := r.next
	r.next += 6
	r.dropped[first-1] = true
	uses := []func(){
		func() { s.Stats() },
		func() { s.Health() },
		func() { s.Events(0) },
		func() { n.Has(withSoon(r.t), [][]byte{hashOf(0)}) },
		func() { n.Touch(withSoon(r.t), [][]byte{hashOf(1)}) },
		func() {
			_, _ = s.Namespace(withSoon(r.t), testLayout(), fmt.Sprint("tenant of ", first), NamespaceOptions{})
		},
		func() { _, _ = r.other.BumpEpoch(withSoon(r.t)) },
		func() { n.Drop(withSoon(r.t), [][]byte{hashOf(first - 1)}) },
		func() { _ = s.Flush(withSoon(r.t)) },
		func() { _ = s.idx.Flush(withSoon(r.t)) },
		func() {
			if l, err := n.Match(withSoon(r.t), [][]byte{hashOf(0), hashOf(1)}); err == nil {
				l.Release()
			}
		},
	}
	if r.evicts++; r.evicts <= stallEvictions {
		uses = append(uses, func() { _, _ = s.EvictOnce(withSoon(r.t)) })
	}
	for id := first; id < r.next; id++ {
		uses = append(uses, func() { r.put(id, PutOptions{Durable: id%2 == 0}) })
	}
	for id := range stallKept {
		uses = append(uses, func() { r.get(id) }, func() { r.get(1000 + id) })
	}
	r.calls += len(uses)
	var all sync.WaitGroup
	for _, use := range uses {
		all.Go(use)
	}
	answered := make(chan struct{})
	go func() { defer close(answered); all.Wait() }()
	waitOr(r.t, answered, "a call that should have left with its context")
}

func (r *stallRig) put(id int, o PutOptions) {
	res := r.n.Put(withSoon(r.t), []PutBlock{blockOf(id, 0, raceSize)}, o)[0]
	switch res.Status {
	case StatusOK:
		r.mu.Lock()
		r.stored = append(r.stored, id)
		r.mu.Unlock()
	case StatusShed, StatusTimeout, StatusIOError:
	default:
		r.t.Errorf("put %d: %v %v", id, res.Status, res.Err)
	}
}

func (r *stallRig) get(id int) {
	size := raceSize
	if id >= 1000 {
		size = 30000 // of fillSegment
	}
	p, b := getParts(id, size)
	switch res := r.n.Get(withSoon(r.t), []GetBlock{b}, GetOptions{})[0]; res.Status {
	case StatusOK:
		if variantOf(id, p, 1) != 0 {
			r.t.Errorf("get %d: WRONG BYTES with status OK", id)
		}
	case StatusMiss, StatusTimeout, StatusLengthMismatch:
		if !untouched(p) {
			r.t.Errorf("get %d: %v, and the destination was written", id, res.Status)
		}
	default:
		r.t.Errorf("get %d: %v %v", id, res.Status, res.Err)
	}
}

// recovered lets the device answer again: nothing is lost but time.
func (r *stallRig) recovered() {
	r.t.Helper()
	r.fs.release()
	eventually(r.t, "what hung has ended", func() bool {
		return r.s.slots.running()+r.s.asks.running()+r.s.controls.running() == 0
	})
	eventually(r.t, "the store is well", func() bool { return r.s.Health().State == HealthOK })
	mustFlush(r.t, r.s)
	r.check(r.n)
	mustPut(r.t, r.n, blockOf(r.next, 0, raceSize))
	mustDrop(r.t, r.n, r.next)
	r.next++
	mustBump(r.t, r.space("other"))
	r.space("a tenant after the stall")
	wantNoBuffers(r.t, r.s)
}

// check reads what must be there.
func (r *stallRig) check(n *Namespace) {
	r.t.Helper()
	for id := range stallKept {
		wantBlock(r.t, n, id, 0, raceSize)
	}
	for _, id := range r.stored {
		p, res := getBlock(r.t, n, id, raceSize)
		if res.Status == StatusOK && variantOf(id, p, 1) != 0 {
			r.t.Fatalf("get %d: WRONG BYTES with status OK", id)
		} else if res.Status != StatusOK && !r.dropped[id] {
			r.t.Fatalf("get %d, whose put was OK: %v %v", id, res.Status, res.Err)
		}
	}
}

// closed lets the device hang again, closes the store meanwhile, and opens it
// again when the device answers.
func (r *stallRig) closed() {
	r.t.Helper()
	r.fs.stall(r.t)
	r.useAll()
	closing := start(r.t, "Close on a device that hangs", func() error { return r.s.Close(withSoon(r.t)) })
	err := closing()
	if errors.Is(err, ErrClosing) {
		wantLocked(r.t, r.mem)
	}
	r.fs.release()
	// An index that was left behind says so.
	if err := r.s.Close(context.Background()); err != nil && r.fs.prefix != "index/" && r.fs.prefix != "index" {
		r.t.Errorf("close when the device answers: %v", err)
	}
	o := testOptions(r.mem)
	o.SegmentBytes = r.o.SegmentBytes
	var s *Store
	eventually(r.t, "what an index that was left behind still does has ended", func() bool {
		s, err = Open("mem", o)
		return err == nil
	})
	r.check(mustSpace(r.t, s))
	mustClose(r.t, s)
	wantClean(r.t, r.mem)
}
