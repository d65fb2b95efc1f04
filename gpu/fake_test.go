package gpu

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"unsafe"

	"github.com/sealstone/sealstone/gpu/driver"
	"github.com/sealstone/sealstone/internal/aligned"
)

// fakeGPU is a device in host memory. Its streams do their work when they are
// asked whether they are done, one operation a question, so that whoever looks
// at bytes too early sees the old ones. It is there for what needs to be
// stopped at a chosen call; the doubles of package gputest are the thorough
// ones.
type fakeGPU struct {
	t *testing.T
	// before is called before each call, with its name and how many came
	// before. An error is returned instead of the call; it may block.
	before func(call string, nth int) error

	mu         sync.Mutex
	calls      map[string]int
	memory     map[driver.DevicePtr]*aligned.Buffer
	pinned     map[uintptr]int64
	registered map[driver.DevicePtr]int64
	handles    map[driver.Handle]int
	streams    map[driver.Stream]*fakeStream
	events     map[driver.Event]fakeEvent
	next       uintptr
	opened     int
	released   bool
	stuck      bool // streams do nothing any more
}

type fakeStream struct {
	queue []func()
	done  int // operations so far
}

type fakeEvent struct {
	stream *fakeStream
	after  int
}

func newFakeGPU(t *testing.T) *fakeGPU {
	return &fakeGPU{t: t, calls: map[string]int{}, memory: map[driver.DevicePtr]*aligned.Buffer{}, pinned: map[uintptr]int64{},
		registered: map[driver.DevicePtr]int64{}, handles: map[driver.Handle]int{},
		streams: map[driver.Stream]*fakeStream{}, events: map[driver.Event]fakeEvent{}}
}

// enter is the beginning of every call.
func (g *fakeGPU) enter(call string) error {
	g.mu.Lock()
	n := g.calls[call]
	g.calls[call]++
	before := g.before
	g.mu.Unlock()
	if before != nil {
		return before(call, n)
	}
	return nil
}

// at is n bytes of device memory.
func (g *fakeGPU) at(p driver.DevicePtr, n int64) []byte {
	for base, buf := range g.memory {
		if p >= base && uint64(p)+uint64(n) <= uint64(base)+uint64(len(buf.Bytes())) {
			return buf.Bytes()[p-base:][:n]
		}
	}
	g.t.Errorf("%d bytes at %#x are in no allocation", n, p)
	return make([]byte, n)
}

// bytes is a look at device memory from the test.
func (g *fakeGPU) bytes(s Span) []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.at(s.Ptr, s.LengthBytes)
}

func (g *fakeGPU) enqueue(call string, s driver.Stream, op func()) error {
	if err := g.enter(call); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	st := g.streams[s]
	st.queue = append(st.queue, op)
	return nil
}

func (g *fakeGPU) Release() error {
	err := g.enter("release")
	g.released = err == nil
	return err
}

func (g *fakeGPU) MemAlloc(n int64) (driver.DevicePtr, error) {
	if err := g.enter("alloc"); err != nil {
		return 0, err
	}
	buf, err := aligned.Alloc(int(n))
	if err != nil {
		return 0, err
	}
	p := driver.DevicePtr(uintptr(unsafe.Pointer(unsafe.SliceData(buf.Bytes()))))
	g.mu.Lock()
	defer g.mu.Unlock()
	fill(buf.Bytes(), 0xdd)
	g.memory[p] = buf
	return p, nil
}

func (g *fakeGPU) MemFree(p driver.DevicePtr) error {
	if err := g.enter("free"); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	buf := g.memory[p]
	if buf == nil {
		return errors.New("freed what was not allocated")
	}
	for base := range g.registered {
		if base >= p && uint64(base) < uint64(p)+uint64(len(buf.Bytes())) {
			g.t.Errorf("freed at %#x while registered with cuFile", p)
		}
	}
	delete(g.memory, p)
	buf.Free()
	return nil
}

func (g *fakeGPU) HostRegister(p unsafe.Pointer, n int64) error {
	if err := g.enter("register"); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pinned[uintptr(p)] = n
	return nil
}

func (g *fakeGPU) HostUnregister(p unsafe.Pointer) error {
	if err := g.enter("unregister"); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.pinned[uintptr(p)]; !ok {
		return errors.New("unregistered what was not registered")
	}
	delete(g.pinned, uintptr(p))
	return nil
}

func (g *fakeGPU) StreamCreate() (driver.Stream, error) {
	if err := g.enter("streamcreate"); err != nil {
		return 0, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next++
	g.streams[driver.Stream(g.next)] = &fakeStream{}
	return driver.Stream(g.next), nil
}

func (g *fakeGPU) StreamDestroy(s driver.Stream) error {
	if err := g.enter("streamdestroy"); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if st := g.streams[s]; st == nil || len(st.queue) > 0 {
		g.t.Error("a stream was destroyed twice, or at work")
	}
	delete(g.streams, s)
	return nil
}

func (g *fakeGPU) StreamQuery(s driver.Stream) (bool, error) {
	if err := g.enter("streamquery"); err != nil {
		return false, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	st := g.streams[s]
	st.step()
	return len(st.queue) == 0, nil
}

func (s *fakeStream) step() {
	if len(s.queue) > 0 {
		s.queue[0]()
		s.queue = s.queue[1:]
		s.done++
	}
}

func (g *fakeGPU) EventCreate() (driver.Event, error) {
	if err := g.enter("eventcreate"); err != nil {
		return 0, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next++
	g.events[driver.Event(g.next)] = fakeEvent{}
	return driver.Event(g.next), nil
}

func (g *fakeGPU) EventDestroy(e driver.Event) error {
	if err := g.enter("eventdestroy"); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.events, e)
	return nil
}

func (g *fakeGPU) EventRecord(e driver.Event, s driver.Stream) error {
	if err := g.enter("record"); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	st := g.streams[s]
	g.events[e] = fakeEvent{st, st.done + len(st.queue)}
	return nil
}

func (g *fakeGPU) EventQuery(e driver.Event) (bool, error) {
	if err := g.enter("query"); err != nil {
		return false, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stuck {
		return false, nil
	}
	ev := g.events[e]
	ev.stream.step()
	return ev.stream.done >= ev.after, nil
}

func (g *fakeGPU) isPinned(p unsafe.Pointer, n int64) {
	for base, length := range g.pinned {
		if uintptr(p) >= base && uintptr(p)+uintptr(n) <= base+uintptr(length) {
			return
		}
	}
	g.t.Errorf("a copy of %d bytes of memory that is not pinned", n)
}

func (g *fakeGPU) CopyHtoDAsync(dst driver.DevicePtr, src unsafe.Pointer, n int64, s driver.Stream) error {
	return g.enqueue("h2d", s, func() {
		g.isPinned(src, n)
		copy(g.at(dst, n), unsafe.Slice((*byte)(src), n))
	})
}

func (g *fakeGPU) CopyDtoHAsync(dst unsafe.Pointer, src driver.DevicePtr, n int64, s driver.Stream) error {
	return g.enqueue("d2h", s, func() {
		g.isPinned(dst, n)
		copy(unsafe.Slice((*byte)(dst), n), g.at(src, n))
	})
}

func (g *fakeGPU) CopyDtoDAsync(dst, src driver.DevicePtr, n int64, s driver.Stream) error {
	return g.enqueue("d2d", s, func() { copy(g.at(dst, n), g.at(src, n)) })
}

func (g *fakeGPU) MemsetD8Async(p driver.DevicePtr, v byte, n int64, s driver.Stream) error {
	return g.enqueue("memset", s, func() { fill(g.at(p, n), v) })
}

// fill sets every byte; a loop takes long under the race detector.
func fill(p []byte, v byte) {
	p[0] = v
	for n := 1; n < len(p); n *= 2 {
		copy(p[n:], p[:n])
	}
}

func (g *fakeGPU) SetSyncMemops(driver.DevicePtr) error { return g.enter("syncmemops") }
func (g *fakeGPU) FlushWrites() error                   { return g.enter("flush") }

// left is what was not given back, in words; empty if nothing.
func (g *fakeGPU) left() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.memory)+len(g.pinned)+len(g.registered)+len(g.handles)+len(g.streams)+len(g.events)+g.opened == 0 && g.released {
		return ""
	}
	return fmt.Sprintf("%d allocations, %d pinned, %d registered, %d files, %d streams, %d events, cuFile open %d times, context released: %v",
		len(g.memory), len(g.pinned), len(g.registered), len(g.handles), len(g.streams), len(g.events), g.opened, g.released)
}

// dropAll frees the memory that a test left behind on purpose.
func (g *fakeGPU) dropAll() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for p, buf := range g.memory {
		delete(g.memory, p)
		buf.Free()
	}
}
