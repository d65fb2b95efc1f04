package gpu

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// stillClock is a clock that moves only when told.
type stillClock struct {
	mu    sync.Mutex
	now   time.Time
	waits map[*stillWait]struct{}
}

type stillWait struct {
	at time.Time
	c  chan time.Time
}

func newStillClock() *stillClock {
	return &stillClock{now: time.Unix(1_700_000_000, 0), waits: map[*stillWait]struct{}{}}
}

func (c *stillClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *stillClock) After(d time.Duration) (<-chan time.Time, func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := &stillWait{at: c.now.Add(d), c: make(chan time.Time, 1)}
	c.waits[w] = struct{}{}
	return w.c, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.waits, w)
	}
}

// advance moves the clock and wakes those whose time has come.
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

// heapMemory gives regions of the Go heap, at addresses that never come again.
type heapMemory struct {
	mu     sync.Mutex
	next   uint64
	held   map[uint64]int64
	most   int64 // largest region that is given; 0: any
	asked  []int64
	failed int
}

func (m *heapMemory) grow(sizeBytes int64) (*region, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, sizeBytes)
	if m.most > 0 && sizeBytes > m.most || m.most < 0 {
		m.failed++
		return nil, fmt.Errorf("no %d bytes", sizeBytes)
	}
	if m.held == nil {
		m.held = map[uint64]int64{}
	}
	m.next += 1 << 32
	m.held[m.next] = sizeBytes
	return &region{base: m.next, sizeBytes: sizeBytes, mem: make([]byte, sizeBytes)}, nil
}

func (m *heapMemory) drop(r *region) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held[r.base] != r.sizeBytes {
		return errors.New("dropped twice")
	}
	delete(m.held, r.base)
	return nil
}

func testPool(m *heapMemory, limit, regionBytes, unit int64) *pool {
	return (&pool{name: "test", limitBytes: limit, regionBytes: regionBytes, unitBytes: unit, waitMax: time.Minute,
		clock: newStillClock(), grow: m.grow, drop: m.drop}).init()
}

// settleTake requests and answers whether the pool had room by itself.
func settleTake(p *pool, n int64) (*piece, error, bool) {
	w := p.request(n, "somebody")
	p.grown.Wait()
	if p.leave(w) {
		return nil, nil, false
	}
	return w.p, w.err, true
}

// TestPoolModel: pieces never overlap and keep their bytes, the limit holds,
// and a pool that nobody uses serves or refuses at once, whatever the driver
// gives.
func TestPoolModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.SampledFrom([]int64{1, 4, 16}).Draw(t, "unit")
		limit := unit * rapid.Int64Range(1, 64).Draw(t, "limit")
		regionBytes := min(limit, unit*rapid.Int64Range(1, 16).Draw(t, "region"))
		m := &heapMemory{}
		p := testPool(m, limit, regionBytes, unit)
		var held []*piece
		aside := 0
		marks := map[*piece]byte{}
		next := byte(0)
		check := func(pc *piece) {
			for i, b := range pc.bytes() {
				if b != marks[pc] {
					t.Fatalf("byte %d of a piece of %d is %d, its owner wrote %d", i, pc.sizeBytes, b, marks[pc])
				}
			}
		}
		pick := func(t *rapid.T) int { return rapid.IntRange(0, len(held)-1).Draw(t, "piece") }
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				n := rapid.Int64Range(1, limit).Draw(t, "n")
				pc, err, answered := settleTake(p, n)
				switch {
				case err != nil && !errors.Is(err, ErrExhausted):
					t.Fatalf("take(%d): %v", n, err)
				case err != nil && m.failed == 0:
					t.Fatalf("take(%d) refused although the driver never did: %v", n, err)
				case !answered && len(held)+aside == 0:
					t.Fatalf("take(%d) waits for a pool that nobody uses", n)
				case !answered || err != nil:
					return
				}
				next++
				marks[pc] = next
				for i := range pc.bytes() {
					pc.bytes()[i] = next
				}
				held = append(held, pc)
			},
			"give": func(t *rapid.T) {
				if len(held) == 0 {
					return
				}
				i := pick(t)
				pc := held[i]
				check(pc)
				pc.give()
				pc.give() // does nothing
				held = append(held[:i], held[i+1:]...)
			},
			"aside": func(t *rapid.T) {
				if aside > 2 || len(held) == 0 {
					return
				}
				i := pick(t)
				held[i].setAside("a test")
				held[i].give() // does nothing
				held = append(held[:i], held[i+1:]...)
				aside++
			},
			"drivergives": func(t *rapid.T) {
				m.most = rapid.SampledFrom([]int64{0, 0, unit, regionBytes, -1}).Draw(t, "most")
				p.clock.(*stillClock).advance(2 * growAgain)
			},
			"": func(t *rapid.T) {
				p.grown.Wait()
				var use, have int64
				for _, pc := range held {
					check(pc)
					use += roundUp(pc.sizeBytes, unit)
				}
				for _, n := range m.held {
					have += n
				}
				st := p.snapshot()
				if have > limit || st.HeldBytes != have || st.InUseBytes-st.SetAsideBytes != use {
					t.Fatalf("%+v, but %d bytes are held and %d in use, limit %d", st, have, use, limit)
				}
			},
		})
		err := p.close(false)
		if want := len(held) + aside; (want > 0) != errors.Is(err, ErrLeaked) {
			t.Fatalf("close with %d pieces out: %v", want, err)
		}
		if len(held)+aside == 0 && len(m.held) > 0 {
			t.Fatalf("%d regions were not let go", len(m.held))
		}
	})
}

func TestPoolGrowsSmaller(t *testing.T) {
	m := &heapMemory{most: 3}
	p := testPool(m, 64, 16, 1)
	pc, err := p.take(t.Context(), 2, "a")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(m.asked); got != "[16 8 4 2]" {
		t.Errorf("asked for %s, want halves down to what is needed", got)
	}
	if _, err := p.take(t.Context(), 4, "b"); !errors.Is(err, ErrExhausted) || !strings.Contains(err.Error(), "no 4 bytes") {
		t.Errorf("%v, want ErrExhausted with what the driver said", err)
	}
	asked := len(m.asked)
	if _, err := p.take(t.Context(), 4, "b"); !errors.Is(err, ErrExhausted) || len(m.asked) != asked {
		t.Errorf("%v; the driver was asked again at once", err)
	}
	m.most = 0
	p.clock.(*stillClock).advance(growAgain)
	big, err := p.take(t.Context(), 4, "b")
	if err != nil {
		t.Errorf("the driver gives again, and the pool does not: %v", err)
	}
	pc.give()
	big.give()
	if err := p.close(false); err != nil || len(m.held) != 0 {
		t.Errorf("%v, %d regions left", err, len(m.held))
	}
}

func TestPoolBounds(t *testing.T) {
	p := testPool(&heapMemory{}, 64, 16, 8)
	for _, n := range []int64{0, -1} {
		if _, err := p.take(t.Context(), n, "x"); !errors.Is(err, ErrInvalid) {
			t.Errorf("take(%d): %v", n, err)
		}
	}
	if _, err := p.take(t.Context(), 65, "x"); !errors.Is(err, ErrTooLarge) || !errors.Is(err, ErrExhausted) {
		t.Errorf("take(65): %v", err)
	}
	all, err := p.take(t.Context(), 64, "the first")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("tired of waiting")
	cancel(why)
	if _, err := p.take(ctx, 1, "x"); !errors.Is(err, ErrExhausted) || !errors.Is(err, why) {
		t.Errorf("take in a full pool, given up: %v", err)
	}
	// Without a deadline the bound of the pool ends the wait.
	done := make(chan error)
	go func() {
		_, err := p.take(context.Background(), 1, "x")
		done <- err
	}()
	for {
		p.clock.(*stillClock).advance(time.Minute)
		select {
		case err := <-done:
			if !errors.Is(err, ErrExhausted) {
				t.Errorf("after the bound: %v", err)
			}
		case <-time.After(time.Millisecond):
			continue
		}
		break
	}
	err = p.close(false)
	if !errors.Is(err, ErrLeaked) || !strings.Contains(err.Error(), "1 by the first") {
		t.Errorf("close does not name who holds what: %v", err)
	}
	all.give()
	if _, err := p.take(t.Context(), 1, "x"); !errors.Is(err, ErrClosed) {
		t.Errorf("take of a closed pool: %v", err)
	}
}

// TestPoolOrder: a large request is served before smaller ones that came later.
func TestPoolOrder(t *testing.T) {
	p := testPool(&heapMemory{}, 8, 8, 1)
	a, err := p.take(t.Context(), 6, "a")
	if err != nil {
		t.Fatal(err)
	}
	large := p.request(7, "large")
	small := p.request(1, "small")
	if large.done || small.done {
		t.Fatal("there is no room for the large one, and the small one is behind it")
	}
	a.give()
	if !large.done || !small.done || large.p == nil || small.p == nil {
		t.Fatal("both fit now")
	}
	large.p.give()
	b := p.request(8, "b")
	c := p.request(2, "c")
	if b.done || c.done {
		t.Fatal("c overtook b")
	}
	if !p.leave(b) || !c.done {
		t.Fatal("b left, so c's turn came")
	}
	c.p.give()
	small.p.give()
	if err := p.close(false); err != nil {
		t.Error(err)
	}
}

// TestPoolMakesRoom: regions that nobody uses go when a larger one is needed.
func TestPoolMakesRoom(t *testing.T) {
	m := &heapMemory{}
	p := testPool(m, 16, 4, 1)
	var small []*piece
	for range 4 {
		pc, err := p.take(t.Context(), 4, "small")
		if err != nil {
			t.Fatal(err)
		}
		small = append(small, pc)
	}
	w := p.request(16, "large")
	for _, pc := range small {
		pc.give()
	}
	p.grown.Wait()
	if !w.done || w.err != nil {
		t.Fatalf("not served (%v) though nobody uses the pool", w.err)
	}
	w.p.give()
	if err := p.close(false); err != nil || len(m.held) != 0 {
		t.Errorf("%v, %d regions left", err, len(m.held))
	}
}

// TestPoolDropFails: memory that the driver does not take back counts against
// the limit for good.
func TestPoolDropFails(t *testing.T) {
	m := &heapMemory{}
	p := testPool(m, 16, 4, 1)
	p.drop = func(r *region) error { return errors.New("not now") }
	small, err := p.take(t.Context(), 4, "small")
	if err != nil {
		t.Fatal(err)
	}
	small.give()
	if _, err := p.take(t.Context(), 16, "large"); !errors.Is(err, ErrExhausted) || !strings.Contains(err.Error(), "not now") {
		t.Errorf("%v, want what the driver said", err)
	}
	p.clock.(*stillClock).advance(growAgain)
	if _, err := p.take(t.Context(), 13, "large"); !errors.Is(err, ErrTooLarge) {
		t.Errorf("13 of 12 bytes that are left: %v", err)
	}
	rest, err := p.take(t.Context(), 12, "the rest")
	if err != nil {
		t.Fatal(err)
	}
	var have int64
	for _, n := range m.held {
		have += n
	}
	if have != 16 {
		t.Errorf("%d bytes are held of 16", have)
	}
	rest.give()
}

// TestPoolRace has many owners at once; each finds its bytes as it left them.
func TestPoolRace(t *testing.T) {
	m := &heapMemory{}
	p := testPool(m, 1<<12, 1<<10, 16)
	var wg sync.WaitGroup
	var served atomic.Int64
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				n := int64(1 + (g*131+i*977)%(1<<11))
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				pc, err := p.take(ctx, n, "racer")
				cancel()
				if err != nil {
					t.Errorf("take(%d): %v", n, err)
					return
				}
				for k := range pc.bytes() {
					pc.bytes()[k] = byte(g)
				}
				for k, b := range pc.bytes() {
					if b != byte(g) {
						t.Errorf("byte %d of %d is another's", k, n)
						break
					}
				}
				pc.give()
				served.Add(1)
			}
		})
	}
	wg.Wait()
	if err := p.close(false); err != nil || served.Load() != 1600 || len(m.held) != 0 {
		t.Errorf("%v, %d served, %d regions left", err, served.Load(), len(m.held))
	}
}
