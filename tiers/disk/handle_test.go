package disk

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers"
)

// TestOpenFilesBounded reads a thousand segments with a handful of files.
func TestOpenFilesBounded(t *testing.T) {
	eachFS(t, func(t *testing.T, fs vfs.FS) {
		const segments, limit = 1000, 12
		o := testOptions(fs)
		o.SegmentBytes, o.MaxOpenFiles = minSegmentPages*PageBytes, limit
		v := openTestVolume(t, o)
		before := countFds(t)
		entries := make([]FooterEntry, segments)
		for id := range uint64(segments) {
			w := create(t, v, id)
			entries[id] = mustPut(t, w, id, 1)
			must(t, w.Seal(w.Entries()))
		}
		for round := range uint64(2) {
			for i := range uint64(segments) {
				id := (i*7 + round) % segments
				e, sum, err := v.ReadExtent(Address{id, 1})
				if err != nil || e.Seq != id || sum != entries[id].HeaderSum {
					t.Fatalf("segment %d: %v", id, err)
				}
				if i%10 == 0 {
					must(t, v.AppendTombstones(id, []Tombstone{{Kind: TombstoneDead, Page: 1}}))
				}
				if open, _ := v.OpenFiles(); open > limit {
					t.Fatalf("%d files open, the limit is %d", open, limit)
				}
			}
		}
		if n := countFds(t); n > before+limit {
			t.Errorf("%d descriptors more, the limit is %d", n-before, limit)
		}
	})
}

// countFds counts the descriptors of the process, where the system tells.
func countFds(t *testing.T) int {
	if runtime.GOOS != "linux" {
		return 0
	}
	names, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(names)
}

// TestAcquireBusy: with all files in use the answer is ErrBusy, and a release
// makes room.
func TestAcquireBusy(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.MaxOpenFiles = MinOpenFiles
	v := openTestVolume(t, o)
	for id := range uint64(MinOpenFiles) {
		must(t, create(t, v, id).Close())
	}
	var held []*Handle
	for id := uint64(0); ; id++ {
		h, err := v.Acquire(id)
		if err != nil {
			if !errors.Is(err, tiers.ErrBusy) {
				t.Fatalf("%v, want %v", err, tiers.ErrBusy)
			}
			break
		}
		held = append(held, h)
	}
	if len(held) != MinOpenFiles/2 {
		t.Errorf("%d segments open at a time, want %d", len(held), MinOpenFiles/2)
	}
	again, err := v.Acquire(0)
	must(t, err) // an open file has room for any number of readers
	again.Release()
	if _, err := v.Create(99, ClassFresh); !errors.Is(err, tiers.ErrBusy) {
		t.Errorf("create: %v, want %v", err, tiers.ErrBusy)
	}
	held[0].Release()
	h, err := v.Acquire(7)
	must(t, err)
	h.Release()
	for _, h := range held[1:] {
		h.Release()
	}
	must(t, create(t, v, 99).Close())
}

// TestAcquireErrors: absent, unlinked and closed.
func TestAcquireErrors(t *testing.T) {
	v, err := OpenVolume(testOptions(vfs.NewMem()))
	must(t, err)
	if _, err := v.Acquire(5); !errors.Is(err, ErrNoSegment) {
		t.Errorf("absent: %v", err)
	}
	must(t, create(t, v, 5).Close())
	h, err := v.Acquire(5)
	must(t, err)
	must(t, v.Unlink(5))
	if _, err := v.Acquire(5); !errors.Is(err, ErrNoSegment) {
		t.Errorf("unlinked: %v", err)
	}
	page := make([]byte, PageBytes)
	if _, err := h.File(false).ReadAt(page, 0); err != nil {
		t.Errorf("an unlinked segment under a handle: %v", err)
	}
	must(t, create(t, v, 6).Close())
	if err := v.Close(); err == nil {
		t.Error("closed over a handle without a word")
	}
	if _, err := v.Acquire(6); !errors.Is(err, tiers.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if _, err := v.Create(8, ClassFresh); !errors.Is(err, tiers.ErrClosed) {
		t.Errorf("create on a closed volume: %v", err)
	}
	h.Retain()
	h.Release()
	if n := v.AllocatedBytes(); n < testSegmentBytes {
		t.Errorf("%d bytes counted under a handle", n)
	}
	h.Release()
	must(t, v.Close())
}

// TestAcquireWhileUnlinked: a segment that is unlinked while it is opened is
// absent. The system did not fail.
func TestAcquireWhileUnlinked(t *testing.T) {
	var v *Volume
	var armed atomic.Bool
	v = openTestVolume(t, testOptions(vfs.WithHook(vfs.NewMem(), func(op vfs.Op) error {
		if op.Kind == vfs.OpOpen && op.Name == SegmentName(1) && armed.CompareAndSwap(true, false) {
			return v.Unlink(1)
		}
		return nil
	})))
	w := create(t, v, 1)
	mustPut(t, w, 1, 1)
	must(t, w.Seal(w.Entries()))
	_, limit := v.OpenFiles()
	must(t, v.cache.reserve(limit)) // closes what is idle
	v.cache.unreserve(limit)
	armed.Store(true)
	if _, err := v.Acquire(1); armed.Load() || !errors.Is(err, ErrNoSegment) {
		t.Errorf("%v", err)
	}
}

// TestAcquireOpensOnce: users that come at one time share one opening, and a
// failed opening is not remembered.
func TestAcquireOpensOnce(t *testing.T) {
	var opens, fail atomic.Int64
	gate := make(chan struct{})
	hooked := vfs.WithHook(vfs.NewMem(), func(op vfs.Op) error {
		if op.Kind == vfs.OpOpen && op.Name == SegmentName(1) {
			if fail.CompareAndSwap(1, 0) {
				return fs.ErrPermission
			}
			opens.Add(1)
			<-gate
		}
		return nil
	})
	o := testOptions(hooked)
	o.Direct = DirectNever
	v := openTestVolume(t, o)
	must(t, create(t, v, 1).Close())
	fail.Store(1)
	if _, err := v.Acquire(1); !errors.Is(err, fs.ErrPermission) {
		t.Fatalf("%v, want %v", err, fs.ErrPermission)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			h, err := v.Acquire(1)
			if err != nil {
				t.Error(err)
				return
			}
			h.Release()
		})
	}
	close(gate)
	wg.Wait()
	if n := opens.Load(); n != 1 {
		t.Errorf("opened %d times", n)
	}
}

// TestHandlesConcurrent acquires, reads, unlinks and buries from all sides.
func TestHandlesConcurrent(t *testing.T) {
	mem := vfs.NewMem()
	o := testOptions(mem)
	o.MaxOpenFiles = 16
	v := openTestVolume(t, o)
	const segments = 24
	for id := range uint64(segments) {
		w := create(t, v, id)
		mustPut(t, w, id, 5000)
		must(t, w.Seal(w.Entries()))
	}
	var wg sync.WaitGroup
	for g := range uint64(8) {
		wg.Go(func() {
			for n := range uint64(200) {
				id := (n*5 + g*3) % segments
				_, _, err := v.ReadExtent(Address{id, 1})
				expectOneOf(t, err, ErrNoSegment, tiers.ErrBusy)
				err = v.AppendTombstones(id, []Tombstone{{Kind: TombstoneDead, Page: 1}})
				expectOneOf(t, err, ErrNoSegment, tiers.ErrBusy)
				if n > 100 && n%8 == g {
					expectOneOf(t, v.Unlink(id), ErrInvalid) // another unlink is under way
				}
			}
		})
	}
	wg.Wait()
	for id := range uint64(segments) {
		must(t, v.Unlink(id))
	}
	if v.AllocatedBytes() != 0 || mem.UsedBytes() != 0 {
		t.Errorf("%d bytes counted, %d held", v.AllocatedBytes(), mem.UsedBytes())
	}
	if open, _ := v.OpenFiles(); open != 0 {
		t.Errorf("%d files open", open)
	}
}

func expectOneOf(t *testing.T, err error, allowed ...error) {
	if err == nil {
		return
	}
	for _, a := range allowed {
		if errors.Is(err, a) {
			return
		}
	}
	t.Error(err)
}

// TestAllocatedBytesExact compares the count with the file system's after
// every step of random lives.
func TestAllocatedBytesExact(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		mem := vfs.NewMem()
		v, err := OpenVolume(testOptions(mem))
		if err != nil {
			rt.Fatal(err)
		}
		m := &lifeModel{rt: rt, v: v, writers: map[uint64]*Writer{}}
		rt.Repeat(map[string]func(*rapid.T){
			"create":  m.create,
			"put":     m.put,
			"seal":    m.seal,
			"bury":    m.bury,
			"unlink":  m.unlink,
			"acquire": m.acquire,
			"release": m.release,
			"": func(rt *rapid.T) {
				if v.AllocatedBytes() != mem.UsedBytes() {
					rt.Fatalf("%d bytes counted, the file system holds %d", v.AllocatedBytes(), mem.UsedBytes())
				}
			},
		})
		m.end()
	})
}

// lifeModel does random things to a volume.
type lifeModel struct {
	rt      *rapid.T
	v       *Volume
	next    uint64
	writers map[uint64]*Writer
	held    []*Handle
}

func (m *lifeModel) check(err error, allowed ...error) {
	for _, a := range allowed {
		if errors.Is(err, a) {
			return
		}
	}
	if err != nil {
		m.rt.Fatal(err)
	}
}

// any is the id of a segment that exists or existed.
func (m *lifeModel) any(rt *rapid.T) uint64 { return rapid.Uint64Range(0, m.next).Draw(rt, "id") }

func (m *lifeModel) create(rt *rapid.T) {
	w, err := m.v.Create(m.next, ClassFresh)
	m.check(err, tiers.ErrBusy)
	if err == nil {
		m.writers[m.next] = w
		m.next++
	}
}

func (m *lifeModel) put(rt *rapid.T) {
	if w := m.writers[m.any(rt)]; w != nil {
		_, _, err := put(w, rapid.Uint64().Draw(rt, "seq"), rapid.IntRange(1, 99999).Draw(rt, "size"))
		m.check(err)
	}
}

func (m *lifeModel) seal(rt *rapid.T) {
	id := m.any(rt)
	if w := m.writers[id]; w != nil {
		m.check(w.Seal(w.Entries()))
		delete(m.writers, id)
	}
}

func (m *lifeModel) bury(rt *rapid.T) {
	ts := make([]Tombstone, rapid.IntRange(1, 50).Draw(rt, "tombstones"))
	for i := range ts {
		ts[i] = Tombstone{Kind: TombstoneDead, Page: 1}
	}
	m.check(m.v.AppendTombstones(m.any(rt), ts), ErrNoSegment, tiers.ErrBusy)
}

func (m *lifeModel) unlink(rt *rapid.T) { m.check(m.v.Unlink(m.any(rt)), ErrInvalid) }

func (m *lifeModel) acquire(rt *rapid.T) {
	h, err := m.v.Acquire(m.any(rt))
	m.check(err, ErrNoSegment, tiers.ErrBusy)
	if err == nil {
		m.held = append(m.held, h)
	}
}

func (m *lifeModel) release(rt *rapid.T) {
	if len(m.held) > 0 {
		m.held[0].Release()
		m.held = m.held[1:]
	}
}

func (m *lifeModel) end() {
	for _, h := range m.held {
		h.Release()
	}
	for _, w := range m.writers {
		m.check(w.Close())
	}
	m.check(m.v.Close())
}
