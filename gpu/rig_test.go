package gpu

import (
	"bytes"
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/sealstone/sealstone/gpu/driver"
	"github.com/sealstone/sealstone/internal/sums"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// eventLog keeps what a device tells.
type eventLog struct {
	mu  sync.Mutex
	all []Event
}

func (l *eventLog) add(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, e)
}

// count is how many events of a type there were.
func (l *eventLog) count(kind EventType) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.all {
		if e.Type == kind {
			n++
		}
	}
	return n
}

// rig is a Device on a fakeGPU.
type rig struct {
	t      *testing.T
	g      *fakeGPU
	d      *Device
	clock  *stillClock
	events eventLog
	caller map[driver.DevicePtr]bool // allocations of the test
}

// newRig opens a device; its clock stands still.
func newRig(t *testing.T, change func(*Options)) *rig {
	t.Helper()
	r := &rig{t: t, g: newFakeGPU(t), clock: newStillClock(), caller: map[driver.DevicePtr]bool{}}
	o := Options{PinnedBytesMax: 4 << 20, PinnedChunkBytes: 256 << 10, StagingBytesMax: 2 << 20, LandingBytesMax: 1 << 20,
		Clock: r.clock, Events: r.events.add, CuFileLogDir: t.TempDir()}
	if change != nil {
		change(&o)
	}
	info := driver.DeviceInfo{UUID: [16]byte{1, 2, 3}, Attributes: driver.Attributes{WritesOrdering: driver.OrderingOwner}}
	r.d = newDevice(r.g, info, o)
	r.d.sums.reason = "a test" // the fake runs no kernels
	if err := r.d.start(); err != nil {
		t.Fatal(err)
	}
	return r
}

// span allocates device memory that belongs to the caller, between guard bytes.
func (r *rig) span(n int64) Span {
	r.t.Helper()
	p, err := r.g.MemAlloc(n + 2*guardBytes)
	if err != nil {
		r.t.Fatal(err)
	}
	r.caller[p] = true
	return Span{Ptr: p + guardBytes, LengthBytes: n}
}

const guardBytes = 64

// guarded says whether nothing was written beside the span.
func (r *rig) guarded(s Span) bool {
	whole := r.g.bytes(Span{Ptr: s.Ptr - guardBytes, LengthBytes: s.LengthBytes + 2*guardBytes})
	return untouched(whole[:guardBytes]) && untouched(whole[guardBytes+s.LengthBytes:])
}

// untouched says whether device memory is as it was allocated.
func untouched(p []byte) bool { return len(bytes.Trim(p, "\xdd")) == 0 }

// free gives the caller's memory back.
func (r *rig) free() {
	for p := range r.caller {
		if err := r.g.MemFree(p); err != nil {
			r.t.Error(err)
		}
	}
	clear(r.caller)
}

// close closes the device; nothing may be left.
func (r *rig) close() {
	r.t.Helper()
	r.free()
	if err := r.d.Close(context.Background()); err != nil {
		r.t.Errorf("Close: %v", err)
	}
	if left := r.g.left(); left != "" {
		r.t.Errorf("left: %s", left)
	}
}

// pin takes pinned memory and fills it.
func (r *rig) pin(data []byte) *Pinned {
	r.t.Helper()
	b, err := r.d.TakePinned(r.t.Context(), len(data))
	if err != nil {
		r.t.Fatal(err)
	}
	copy(b.Bytes(), data)
	return b
}

// random is n bytes that are no others.
func random(seed uint64, n int) []byte {
	out := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), 7}).Read(out)
	return out
}

// checksOf are the chunk sums of data, taken as one plane.
func checksOf(data []byte) (out []Check) {
	for at := 0; at < len(data); at += sums.ChunkBytes {
		chunk := data[at:min(at+sums.ChunkBytes, len(data))]
		out = append(out, Check{OffsetBytes: int64(at), LengthBytes: int64(len(chunk)), Sum: sums.Chunk(chunk)})
	}
	return out
}

func contains(err error, text string) bool { return err != nil && strings.Contains(err.Error(), text) }
