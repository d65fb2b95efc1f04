package readertest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/tiers"
)

// goBatch reads in a goroutine of its own; the answer is sent when ReadBatch
// returned.
func goBatch(r tiers.Reader, ctx context.Context, items []tiers.Item) <-chan error {
	done := make(chan error, 1)
	go func() { done <- r.ReadBatch(ctx, items) }()
	return done
}

func await(t *testing.T, done <-chan error) {
	t.Helper()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func wantErr(t *testing.T, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
}

// testEndedContext: nothing is read for a context that has ended.
func testEndedContext(t *testing.T, s *suite) {
	f := newFile(t, memDirect)
	r, _ := s.reader(t, Config{})
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("why")
	cancel(why)
	for range 100 {
		d := newDestination(t, heap, 4096)
		it := readOne(t, r, ctx, d.item(f, 0))
		if it.Err == nil {
			d.checkRead(t, it, f.content) // it was quicker
			continue
		}
		d.checkOld(t)
		wantErr(t, it.Err, tiers.ErrAbandoned)
		wantErr(t, it.Err, why)
	}
}

// testAbandon: a stalled device fails its own items at the end of the
// context. The late bytes go nowhere, and everything is given back.
func testAbandon(t *testing.T, s *suite) {
	for memory := range memoryKinds {
		t.Run(memory.String(), func(t *testing.T) {
			g := newGate(t)
			stalled, good := newFile(t, memDirect).wrap(g.wrap), newFile(t, memDirect)
			r, pool := s.reader(t, Config{})
			d, e := newDestination(t, memory, 8192), newDestination(t, memory, 8192)
			items := []tiers.Item{d.item(stalled, 0, 4096), e.item(good, 4096, 4096)}
			ctx, cancel := context.WithCancel(context.Background())
			// The good one first, so that it does not race the end.
			e.checkRead(t, readOne(t, r, ctx, items[1]), good.content)
			done := goBatch(r, ctx, items[:1])
			<-g.entered
			cancel()
			await(t, done)
			wantErr(t, items[0].Err, tiers.ErrAbandoned)
			wantErr(t, items[0].Err, context.Canceled)
			d.checkOld(t)
			if inUse, _, _ := pool.Stats(); inUse == 0 {
				t.Error("the late read has no memory of the reader")
			}
			items[0] = tiers.Item{} // the item is the caller's again
			g.release()
			if err := r.Close(context.Background()); err != nil {
				t.Fatal(err)
			}
			d.checkOld(t)
		})
	}
}

// testAllWorkersHang: with every worker in a stalled read, others return at
// the end of their context, and what they queued does not run later.
func testAllWorkersHang(t *testing.T, s *suite) {
	g := newGate(t)
	stalled, good := newFile(t, memDirect).wrap(g.wrap), newFile(t, memDirect)
	r, _ := s.reader(t, Config{Workers: 2})
	var batches []<-chan error
	var ds []*destination
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for range 2 {
		d := newDestination(t, offHeap, 4096)
		ds = append(ds, d)
		batches = append(batches, goBatch(r, ctx, []tiers.Item{d.item(stalled, 0)}))
		<-g.entered
	}
	for range 5 {
		short, stop := context.WithTimeout(context.Background(), time.Millisecond)
		d := newDestination(t, offHeap, 4096)
		it := d.item(good, 0)
		it.WaitForDevice = true // it never gets to the device
		it = readOne(t, r, short, it)
		stop()
		wantErr(t, it.Err, tiers.ErrAbandoned)
		wantErr(t, it.Err, context.DeadlineExceeded)
		ds = append(ds, d)
	}
	cancel()
	for _, b := range batches {
		await(t, b)
	}
	g.release()
	d := newDestination(t, heap, 4096)
	d.checkRead(t, readOne(t, r, context.Background(), d.item(good, 0)), good.content)
	for _, d := range ds {
		d.checkOld(t)
	}
}

// testQueueFull: what has no place in the queue is answered at once, and the
// places of those given up are free again.
func testQueueFull(t *testing.T, s *suite) {
	g := newGate(t)
	f := newFile(t, memDirect).wrap(g.wrap)
	r, _ := s.reader(t, Config{Workers: 1, QueueMax: 2})
	first := newDestination(t, heap, 4096)
	held := goBatch(r, context.Background(), []tiers.Item{first.item(f, 0)})
	<-g.entered
	for range 3 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		var items []tiers.Item
		var ds []*destination
		for i := range 5 {
			ds = append(ds, newDestination(t, heap, 4096))
			items = append(items, ds[i].item(f, 0))
		}
		if err := r.ReadBatch(ctx, items); err != nil {
			t.Fatal(err)
		}
		cancel()
		for i, it := range items {
			ds[i].checkOld(t)
			if i < 2 {
				wantErr(t, it.Err, tiers.ErrAbandoned)
			} else {
				wantErr(t, it.Err, tiers.ErrBusy)
			}
		}
	}
	g.release()
	await(t, held)
}

// testWaitForDevice: an item that asks for it outlives its context and comes
// to a good end.
func testWaitForDevice(t *testing.T, s *suite) {
	for memory := range memoryKinds {
		g := newGate(t)
		f := newFile(t, memDirect).wrap(g.wrap)
		r, _ := s.reader(t, Config{})
		d, e := newDestination(t, memory, 8192), newDestination(t, memory, 8192)
		items := []tiers.Item{d.item(f, 0), e.item(f, 4096)}
		items[0].WaitForDevice = true
		ctx, cancel := context.WithCancel(context.Background())
		done := goBatch(r, ctx, items)
		<-g.entered
		<-g.entered
		cancel()
		g.release()
		await(t, done)
		d.checkRead(t, items[0], f.content)
		if items[1].Err != nil {
			e.checkOld(t)
			wantErr(t, items[1].Err, tiers.ErrAbandoned)
		}
	}
}

// testPoolExhausted: without buffers a read is an error, no endless wait.
func testPoolExhausted(t *testing.T, s *suite) {
	f := newFile(t, memDirect)
	pool := aligned.NewPool(64 << 10)
	r, _ := s.reader(t, Config{Pool: pool})
	all, err := pool.TryGet(64 << 10)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	d := newDestination(t, heap, 4096)
	d.checkUntaken(t, readOne(t, r, ctx, d.item(f, 1)))
	all.Free()
	d = newDestination(t, heap, 4096)
	d.checkRead(t, readOne(t, r, context.Background(), d.item(f, 1)), f.content)

	ctx2, cancel2 := context.WithCancel(context.Background())
	defer cancel2()
	big := newDestination(t, heap, 64<<10)
	it := readOne(t, r, ctx2, big.item(f, 1))
	big.checkOld(t)
	wantErr(t, it.Err, aligned.ErrTooLarge)
}

// testClose: a closed reader answers ErrClosed, for the batch and in every
// item. Closing again is no error.
func testClose(t *testing.T, s *suite) {
	f := newFile(t, memDirect)
	for _, used := range []bool{false, true} {
		r, _ := s.reader(t, Config{})
		if used {
			d := newDestination(t, heap, 100)
			d.checkRead(t, readOne(t, r, context.Background(), d.item(f, 0)), f.content)
		}
		for range 2 {
			if err := r.Close(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		d := newDestination(t, heap, 100)
		items := []tiers.Item{d.item(f, 0), d.item(f, 0)}
		wantErr(t, r.ReadBatch(context.Background(), items), tiers.ErrClosed)
		for _, it := range items {
			wantErr(t, it.Err, tiers.ErrClosed)
		}
		d.checkOld(t)
	}
}

// testCloseWhileReading: Close says that a read is still in the kernel and
// can be called again; the read itself comes to its end.
func testCloseWhileReading(t *testing.T, s *suite) {
	g := newGate(t)
	f := newFile(t, memDirect).wrap(g.wrap)
	r, _ := s.reader(t, Config{})
	d := newDestination(t, heap, 4096)
	items := []tiers.Item{d.item(f, 0)}
	done := goBatch(r, context.Background(), items)
	<-g.entered
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	wantErr(t, r.Close(ctx), context.Canceled)
	g.release()
	await(t, done)
	d.checkRead(t, items[0], f.content)
}

// testConcurrent: many batches at one time, some of them given up.
func testConcurrent(t *testing.T, s *suite) {
	f := newFile(t, osDirect)
	r, _ := s.reader(t, Config{Workers: 8, QueueMax: 64})
	var wg sync.WaitGroup
	for n := range 16 {
		wg.Go(func() {
			for round := range 20 {
				ctx, cancel := context.WithCancel(context.Background())
				if n%4 == 0 {
					go cancel()
				}
				var items []tiers.Item
				var ds []*destination
				for i := range 8 {
					ds = append(ds, newDestination(t, memoryKind((n+i)%int(memoryKinds)), 4096*(1+i)))
					items = append(items, ds[i].item(f, int64(round*4096+i), 100))
				}
				if err := r.ReadBatch(ctx, items); err != nil {
					t.Error(err)
				}
				cancel()
				checkMixed(t, f, ds, items)
			}
		})
	}
	wg.Wait()
}

// checkMixed wants each item read, or refused or given up with the old bytes
// in place. It reports and goes on: it runs outside the test's goroutine.
func checkMixed(t *testing.T, f *file, ds []*destination, items []tiers.Item) {
	for i, it := range items {
		want := make([]byte, len(ds[i].bytes))
		if it.Err == nil {
			copy(want, f.content[it.Offset:])
		} else {
			for j := range want {
				want[j] = oldByte
			}
			if !errors.Is(it.Err, tiers.ErrAbandoned) && !errors.Is(it.Err, tiers.ErrBusy) {
				t.Errorf("item %d: %v", i, it.Err)
			}
		}
		if string(want) != string(ds[i].bytes) {
			t.Errorf("item %d (%v): wrong bytes", i, it.Err)
		}
	}
}
