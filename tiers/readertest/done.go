package readertest

import (
	"context"
	"errors"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers"
)

// doneLog records the calls of Done for the items of one batch.
type doneLog struct {
	t        *testing.T
	returned atomic.Bool
	calls    []atomic.Int32
	answers  []tiers.Item // as Done saw them
}

// watch sets Tag and Done of every item.
func watch(t *testing.T, items []tiers.Item) *doneLog {
	l := &doneLog{t: t, calls: make([]atomic.Int32, len(items)), answers: make([]tiers.Item, len(items))}
	for i := range items {
		items[i].Tag = i
		items[i].Done = func(it *tiers.Item) {
			if it != &items[i] {
				t.Errorf("item %d: told of another item", i)
			}
			if l.returned.Load() {
				t.Errorf("item %d: told after the batch returned", i)
			}
			if l.calls[i].Add(1) == 1 {
				l.answers[i] = *it
			}
		}
	}
	return l
}

// check is called when the batch has returned: each item was told of exactly
// once and as it was answered, or never if it was given up.
func (l *doneLog) check(items []tiers.Item) {
	l.t.Helper()
	l.returned.Store(true)
	for i, it := range items {
		want := int32(1)
		if errors.Is(it.Err, tiers.ErrAbandoned) {
			want = 0
		}
		if got := l.calls[i].Load(); got != want {
			l.t.Errorf("item %d (%v): told %d times, want %d", i, it.Err, got, want)
		}
		saw := l.answers[i]
		if want == 1 && (saw.N != it.N || saw.Path != it.Path || saw.Err != it.Err) {
			l.t.Errorf("item %d: told %d, %v, %v; answered %d, %v, %v", i, saw.N, saw.Path, saw.Err, it.N, it.Path, it.Err)
		}
		if it.Tag != i {
			l.t.Errorf("item %d: tag is %d", i, it.Tag)
		}
	}
}

// failing makes f answer every read and write with err.
func failing(err error) func(vfs.File) vfs.File {
	return func(f vfs.File) vfs.File {
		return &callFunc{
			File:  f,
			readv: func(vfs.File, [][]byte, int64) (int, error) { return 0, err },
			write: func(vfs.File, []byte, int64) (int, error) { return 0, err },
		}
	}
}

// testDone: every outcome is told exactly once, before the batch returns.
func testDone(t *testing.T, s *suite) {
	eachShape(t, func(t *testing.T, kind fileKind, memory memoryKind, wait waitKind) {
		f, bad := newFile(t, kind), newFile(t, kind).wrap(failing(syscall.EIO))
		r, _ := s.reader(t, Config{})
		ctx, cancel := wait.context()
		defer cancel()
		var ds []*destination
		var items []tiers.Item
		for i := range 8 {
			ds = append(ds, newDestination(t, memory, 8192))
			items = append(items, ds[i].item(f, int64(i)*4096, 4096))
			items[i].WaitForDevice = wait == forDevice
		}
		items[2].File = bad
		items[4].Offset = fileBytes
		items[6].Length--
		l := watch(t, items)
		if err := r.ReadBatch(ctx, items); err != nil {
			t.Fatal(err)
		}
		l.check(items)
		for i, want := range map[int]error{2: syscall.EIO, 6: tiers.ErrInvalid} {
			wantErr(t, items[i].Err, want)
		}
		for _, i := range []int{0, 1, 3, 5, 7} {
			ds[i].checkRead(t, items[i], f.content)
		}
	})
}

// testDoneRefused: items that no worker sees are told of as well.
func testDoneRefused(t *testing.T, s *suite) {
	g := newGate(t)
	f := newFile(t, memDirect).wrap(g.wrap)
	r, _ := s.reader(t, Config{Workers: 1, QueueMax: 1})
	d := newDestination(t, heap, 4096)
	held := goBatch(r, context.Background(), []tiers.Item{d.item(f, 0)})
	<-g.entered
	ctx, cancel := context.WithCancel(context.Background())
	items := make([]tiers.Item, 4)
	for i := range items {
		items[i] = newDestination(t, heap, 4096).item(f, 0)
	}
	l := watch(t, items)
	told := items[3].Done
	items[3].Done = func(it *tiers.Item) { told(it); cancel() } // the refusals came; end the wait of the first
	if err := r.ReadBatch(ctx, items); err != nil {
		t.Fatal(err)
	}
	l.check(items)
	wantErr(t, items[0].Err, tiers.ErrAbandoned)
	wantErr(t, items[3].Err, tiers.ErrBusy)
	g.release()
	await(t, held)
	if err := r.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	items = []tiers.Item{d.item(f, 0), {}}
	l = watch(t, items)
	wantErr(t, r.ReadBatch(context.Background(), items), tiers.ErrClosed)
	l.check(items)
}

// testDoneBeforeOthers: Done of one item does not wait for the device that
// works on another one of the batch.
func testDoneBeforeOthers(t *testing.T, s *suite) {
	for _, kind := range fileKinds {
		g := newGate(t)
		stalled, good := newFile(t, kind).wrap(g.wrap), newFile(t, kind)
		r, _ := s.reader(t, Config{Workers: 2})
		var items []tiers.Item
		for i := range 9 {
			items = append(items, newDestination(t, offHeap, 4096).item(good, int64(i)*4096))
		}
		items[0].File = stalled
		l := watch(t, items)
		var left atomic.Int32
		left.Store(int32(len(items) - 1))
		for i := 1; i < len(items); i++ {
			told := items[i].Done
			items[i].Done = func(it *tiers.Item) {
				told(it)
				if left.Add(-1) == 0 {
					g.release() // else the batch would never end
				}
			}
		}
		await(t, goBatch(r, context.Background(), items))
		l.check(items)
	}
}

// testDoneAbandoned: with ends of the context at any time, an item is told of
// exactly if it was not given up.
func testDoneAbandoned(t *testing.T, s *suite) {
	f := newFile(t, osDirect)
	r, _ := s.reader(t, Config{Workers: 4})
	for round := range 200 {
		ctx, cancel := context.WithCancel(context.Background())
		var items []tiers.Item
		for i := range 8 {
			items = append(items, newDestination(t, memoryKind(i%int(memoryKinds)), 4096).item(f, int64(i)*4096))
			items[i].WaitForDevice = round%2 == 0
		}
		l := watch(t, items)
		go cancel()
		if err := r.ReadBatch(ctx, items); err != nil {
			t.Fatal(err)
		}
		l.check(items)
	}
}
