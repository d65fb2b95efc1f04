package aligned

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func checkStats(t *testing.T, p *Pool, wantInUse, wantCached int64) {
	t.Helper()
	inUse, cached, _ := p.Stats()
	if inUse != wantInUse || cached != wantCached {
		t.Errorf("in use %d, cached %d, want %d, %d", inUse, cached, wantInUse, wantCached)
	}
}

func mustGet(t *testing.T, p *Pool, size int) *Buffer {
	t.Helper()
	b, err := p.TryGet(size)
	if err != nil {
		t.Fatalf("TryGet(%d): %v", size, err)
	}
	if len(b.Bytes()) != size || !IsAligned(b.Bytes(), PageBytes) {
		t.Fatalf("TryGet(%d): %d bytes at %p", size, len(b.Bytes()), b.Bytes())
	}
	return b
}

func mustClose(t *testing.T, p *Pool) {
	t.Helper()
	if err := p.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func TestPoolRecyclesWithoutZeroing(t *testing.T) {
	p := NewPool(1 << 20)
	defer mustClose(t, p)
	a := mustGet(t, p, 70<<10)
	a.Bytes()[5] = 7
	first := &a.Bytes()[0]
	checkStats(t, p, 72<<10, 0)
	a.Free()
	checkStats(t, p, 0, 72<<10)
	b := mustGet(t, p, 100<<10)
	defer b.Free()
	if &b.Bytes()[0] != first || b.Bytes()[5] != 7 {
		t.Error("the second owner did not get the first one's memory as it was")
	}
	// The first owner's handle must not free the second one's memory.
	a.Free()
	if a.Bytes() != nil {
		t.Error("a freed handle shows the next owner's bytes")
	}
	checkStats(t, p, 104<<10, 0)
}

func TestPoolMakesOneOfNeighbours(t *testing.T) {
	p := NewPool(256 << 10)
	defer mustClose(t, p)
	for _, b := range []*Buffer{mustGet(t, p, 64<<10), mustGet(t, p, 64<<10), mustGet(t, p, 64<<10)} {
		b.Free()
	}
	checkStats(t, p, 0, 192<<10)
	big := mustGet(t, p, 200<<10)
	checkStats(t, p, 208<<10, 0)
	if m := p.Memory(); m.Slabs != 1 {
		t.Errorf("%d slabs", m.Slabs)
	}
	big.Free()
}

func TestPoolRefuses(t *testing.T) {
	p := NewPool(128 << 10)
	defer mustClose(t, p)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, size := range []int{128<<10 + 1, 1 << 30} {
		if _, err := p.Get(context.Background(), size); !errors.Is(err, ErrTooLarge) {
			t.Errorf("Get(%d): %v, want ErrTooLarge", size, err)
		}
		if _, err := p.TryGet(size); !errors.Is(err, ErrTooLarge) {
			t.Errorf("TryGet(%d): %v, want ErrTooLarge", size, err)
		}
	}
	for _, size := range []int{0, -5, maxAllocBytes + 1} {
		if _, err := p.Get(ended, size); !errors.Is(err, ErrInvalidSize) {
			t.Errorf("Get(%d): %v, want ErrInvalidSize", size, err)
		}
	}
	all := mustGet(t, p, 128<<10)
	if _, err := p.TryGet(1); !errors.Is(err, ErrExhausted) {
		t.Errorf("TryGet of a full pool: %v, want ErrExhausted", err)
	}
	if _, err := p.Get(ended, 1); !errors.Is(err, ErrExhausted) || !errors.Is(err, context.Canceled) {
		t.Errorf("Get of a full pool: %v, want ErrExhausted and context.Canceled", err)
	}
	all.Free()
	b, err := p.Get(ended, 1) // there is room: no reason to look at ctx
	if err != nil {
		t.Errorf("Get with room: %v", err)
	}
	b.Free()
}

// waitQueued returns once n requests wait; it polls what the test itself
// caused, so it cannot fail by being slow.
func waitQueued(p *Pool, n int) {
	for {
		p.mu.Lock()
		queued := len(p.waiters)
		p.mu.Unlock()
		if queued == n {
			return
		}
		runtime.Gosched()
	}
}

type getResult struct {
	b   *Buffer
	err error
}

func getAsync(ctx context.Context, p *Pool, size int) chan getResult {
	c := make(chan getResult, 1)
	go func() {
		b, err := p.Get(ctx, size)
		c <- getResult{b, err}
	}()
	return c
}

func TestPoolServesInOrder(t *testing.T) {
	p := NewPool(64 << 10)
	defer mustClose(t, p)
	halves := []*Buffer{mustGet(t, p, 32<<10), mustGet(t, p, 32<<10)}
	big := getAsync(context.Background(), p, 64<<10)
	waitQueued(p, 1)
	small := getAsync(context.Background(), p, 4<<10)
	waitQueued(p, 2)
	halves[0].Free()
	// There is room for the small one, and it came later.
	waitQueued(p, 2)
	if _, err := p.TryGet(1); !errors.Is(err, ErrExhausted) {
		t.Errorf("TryGet went past those who wait: %v", err)
	}
	halves[1].Free()
	first := <-big
	if first.err != nil {
		t.Fatal(first.err)
	}
	waitQueued(p, 1)
	first.b.Free()
	second := <-small
	if second.err != nil {
		t.Fatal(second.err)
	}
	second.b.Free()
}

func TestPoolGivingUpLetsTheNextIn(t *testing.T) {
	p := NewPool(64 << 10)
	defer mustClose(t, p)
	half := mustGet(t, p, 32<<10)
	ctx, cancel := context.WithCancelCause(context.Background())
	big := getAsync(ctx, p, 64<<10)
	waitQueued(p, 1)
	small := getAsync(context.Background(), p, 4<<10)
	waitQueued(p, 2)
	why := errors.New("the request is too late")
	cancel(why)
	if r := <-big; !errors.Is(r.err, ErrExhausted) || !errors.Is(r.err, why) {
		t.Errorf("given up: %v", r.err)
	}
	r := <-small
	if r.err != nil {
		t.Fatal(r.err)
	}
	r.b.Free()
	half.Free()
}

func TestPoolClose(t *testing.T) {
	p := NewPool(64 << 10)
	a, b := mustGet(t, p, 32<<10), mustGet(t, p, 32<<10)
	a.Free()
	c := mustGet(t, p, 30<<10)
	waiting := getAsync(context.Background(), p, 1)
	waitQueued(p, 1)
	err := p.Close()
	if !errors.Is(err, ErrLeaked) || !strings.Contains(err.Error(), "2 of 65536 bytes") {
		t.Errorf("Close: %v, want ErrLeaked naming 2 buffers", err)
	}
	if r := <-waiting; !errors.Is(r.err, ErrClosed) {
		t.Errorf("waiting Get: %v, want ErrClosed", r.err)
	}
	if _, err := p.TryGet(1); !errors.Is(err, ErrClosed) {
		t.Errorf("TryGet: %v, want ErrClosed", err)
	}
	b.Bytes()[0] = 1 // still the owner's
	b.Free()
	c.Free()
	mustClose(t, p)
	checkStats(t, p, 0, 0)
}

func TestNilPool(t *testing.T) {
	var p *Pool
	if _, err := p.Get(context.Background(), 1); !errors.Is(err, ErrClosed) {
		t.Errorf("Get: %v", err)
	}
	if inUse, cached, limit := p.Stats(); inUse != 0 || cached != 0 || limit != 0 {
		t.Error("a nil pool holds something")
	}
	mustClose(t, p)
}

// TestPoolConcurrent lets more owners ask than there is room for, while idle
// memory is returned; each marks its buffer and finds the mark again.
func TestPoolConcurrent(t *testing.T) {
	p := New(Options{LimitBytes: 6 << 20, IdleInterval: -1, RecordSites: true})
	done := make(chan struct{})
	var trimmer, owners sync.WaitGroup
	trimmer.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				p.trimIdle()
				if inUse, cached, limit := p.Stats(); inUse+cached > limit {
					t.Errorf("%d in use and %d cached of %d", inUse, cached, limit)
				}
				runtime.Gosched()
			}
		}
	})
	for owner := range 8 {
		owners.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(owner)))
			for range 200 {
				size := 1 + rng.IntN(128<<10)
				if rng.IntN(4) == 0 {
					size = 1 + rng.IntN(3<<20)
				}
				b, err := p.Get(context.Background(), size)
				if err != nil {
					t.Errorf("owner %d: %v", owner, err)
					return
				}
				mark(b.Bytes(), uint64(owner))
				runtime.Gosched()
				if !marked(b.Bytes(), uint64(owner)) {
					t.Errorf("owner %d shares its buffer", owner)
				}
				b.Free()
			}
		})
	}
	owners.Wait()
	close(done)
	trimmer.Wait()
	mustClose(t, p)
}
