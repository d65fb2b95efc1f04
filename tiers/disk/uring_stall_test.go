package disk

import (
	"bytes"
	"context"
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/internal/uring"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers"
)

// pipeFile is a file of one block whose device stalls: a ring reads from a
// pipe, which gives nothing before it is fed.
type pipeFile struct {
	end     pipeEnd
	w       *os.File
	content []byte
	refs    atomic.Int64
}

// pipeEnd has the descriptor of a pipe. The file is what the pread path would
// read: the same bytes.
type pipeEnd struct {
	vfs.File
	r *os.File
}

// Fd is blocking, as a ring would not wait for the descriptor otherwise.
func (e *pipeEnd) Fd() uintptr { return e.r.Fd() }

func newPipeFile(t *testing.T) *pipeFile {
	t.Helper()
	f := &pipeFile{content: bytes.Repeat([]byte("pipe"), 1024)}
	mem := vfs.NewMem()
	var err error
	f.end.File, err = mem.Open("file", vfs.Create)
	must(t, err)
	_, err = f.end.WriteAt(f.content, 0)
	must(t, err)
	f.end.r, f.w, err = os.Pipe()
	must(t, err)
	t.Cleanup(func() {
		_ = f.w.Close()
		_ = f.end.r.Close()
		_ = f.end.Close()
		if n := f.refs.Load(); n != 0 {
			t.Errorf("%d references to the stalled file are still held", n)
		}
	})
	return f
}

func (*pipeFile) ID() uint64           { return 6 }
func (f *pipeFile) Retain()            { f.refs.Add(1) }
func (f *pipeFile) Release()           { f.refs.Add(-1) }
func (f *pipeFile) File(bool) vfs.File { return &f.end }

// feed lets one read of a block go on.
func (f *pipeFile) feed(t *testing.T) {
	t.Helper()
	_, err := f.w.Write(f.content)
	must(t, err)
}

// block makes memory for a block, filled with old bytes.
func block(t *testing.T) []byte {
	t.Helper()
	buf, err := aligned.Alloc(4096)
	must(t, err)
	t.Cleanup(buf.Free)
	for i := range buf.Bytes() {
		buf.Bytes()[i] = 0x5a
	}
	return buf.Bytes()
}

func blockItem(t *testing.T, f tiers.File) tiers.Item {
	t.Helper()
	return tiers.Item{File: f, Length: 4096, Spans: [][]byte{block(t)}, OffHeap: true}
}

func goRead(u *UringReader, ctx context.Context, items []tiers.Item) chan error {
	done := make(chan error, 1)
	go func() { done <- u.ReadBatch(ctx, items) }()
	return done
}

// inKernel waits until that many requests are in the rings.
func inKernel(t *testing.T, u *UringReader, n int) {
	t.Helper()
	awaitStats(t, u, func(s UringStats) bool { return s.InFlight == n && s.Queued == 0 })
}

// A read that was given up belongs to the ring until its completion: its
// buffer is not used again, its file stays open, Close waits for it.
func TestUringAbandonedInKernel(t *testing.T) {
	noLeaks(t)
	f := newPipeFile(t)
	u, pool := faultReader(t, UringOptions{})
	ctx, cancel := context.WithCancel(context.Background())
	items := []tiers.Item{blockItem(t, f)}
	old := bytes.Clone(items[0].Spans[0])
	span := items[0].Spans[0]
	done := goRead(u, ctx, items)
	inKernel(t, u, 1)
	cancel()
	must(t, <-done)
	if !errors.Is(items[0].Err, tiers.ErrAbandoned) || !errors.Is(items[0].Err, context.Canceled) {
		t.Fatalf("%v, want %v", items[0].Err, tiers.ErrAbandoned)
	}
	items[0] = tiers.Item{} // the item is the caller's again
	if inUse, _, _ := pool.Stats(); inUse == 0 || f.refs.Load() == 0 {
		t.Errorf("%d bytes of buffers and %d references while the kernel reads", inUse, f.refs.Load())
	}
	if err := u.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("close: %v, want %v", err, context.Canceled)
	}
	f.feed(t)
	must(t, u.Close(context.Background()))
	if inUse, _, _ := pool.Stats(); inUse != 0 || f.refs.Load() != 0 {
		t.Errorf("%d bytes of buffers and %d references in the end", inUse, f.refs.Load())
	}
	if !bytes.Equal(span, old) {
		t.Error("the late bytes came to the caller's memory")
	}
}

// A ring that waits in the kernel for a stalled device serves new requests.
func TestUringServesBesideStalled(t *testing.T) {
	noLeaks(t)
	for _, rings := range []int{1, 2} {
		stalled, f := newPipeFile(t), newRingFile(t)
		u, _ := faultReader(t, UringOptions{Rings: rings, Depth: 4 * rings})
		held := []tiers.Item{blockItem(t, stalled)}
		done := goRead(u, context.Background(), held)
		inKernel(t, u, 1)
		for range 200 {
			readAll(t, u, f, ringBatch(t, f, 1))
		}
		readAll(t, u, f, ringBatch(t, f, 16))
		stalled.feed(t)
		must(t, <-done)
		if held[0].Err != nil || !bytes.Equal(held[0].Spans[0], stalled.content) {
			t.Errorf("the stalled read: %v, or wrong bytes", held[0].Err)
		}
	}
}

// With all of its depth stalled a ring takes nothing; what waits is answered
// at the end of its context, or served when the device goes on.
func TestUringAllStalled(t *testing.T) {
	noLeaks(t)
	stalled, f := newPipeFile(t), newRingFile(t)
	u, _ := faultReader(t, UringOptions{Rings: 1, Depth: 2, Pread: PreadOptions{QueueMax: 3}})
	held := []tiers.Item{blockItem(t, stalled), blockItem(t, stalled)}
	done := goRead(u, context.Background(), held)
	inKernel(t, u, 2)
	ctx, cancel := context.WithCancel(context.Background())
	late := ringBatch(t, f, 5)
	late[4].Done = func(*tiers.Item) { cancel() } // the queue is full
	must(t, u.ReadBatch(ctx, late))
	for i, it := range late {
		want := tiers.ErrAbandoned
		if i >= 3 {
			want = tiers.ErrBusy
		}
		if !errors.Is(it.Err, want) {
			t.Errorf("item %d: %v, want %v", i, it.Err, want)
		}
	}
	if s := u.Stats(); s.Queued != 0 {
		t.Errorf("what was given up still waits: %+v", s)
	}
	waits := goRead(u, context.Background(), ringBatch(t, f, 1))
	stalled.feed(t)
	must(t, <-waits)
	stalled.feed(t)
	must(t, <-done)
	for _, it := range held {
		if it.Err != nil {
			t.Error(it.Err)
		}
	}
}

// A ring that breaks with a request in the kernel keeps that request's memory
// until the completion; others are served meanwhile.
func TestUringBreaksWhileStalled(t *testing.T) {
	noLeaks(t)
	stalled, f := newPipeFile(t), newRingFile(t)
	var broken atomic.Bool
	u, _ := faultReader(t, UringOptions{Rings: 1, Depth: 4, open: lying(faultRing{
		before: func() error {
			if broken.CompareAndSwap(true, false) {
				return syscall.EFAULT
			}
			return nil
		},
	})})
	held := []tiers.Item{blockItem(t, stalled)}
	done := goRead(u, context.Background(), held)
	inKernel(t, u, 1)
	broken.Store(true)
	readAll(t, u, f, ringBatch(t, f, 1)) // wakes the ring, which breaks
	awaitStats(t, u, func(s UringStats) bool { return s.Broken != "" && s.Rings == 0 })
	readAll(t, u, f, ringBatch(t, f, 16))
	select {
	case err := <-done:
		t.Fatalf("answered (%v, %v) while the kernel may still write", err, held[0].Err)
	default:
	}
	stalled.feed(t)
	must(t, <-done)
	if held[0].Err != nil || !bytes.Equal(held[0].Spans[0], stalled.content) {
		t.Errorf("the stalled read: %v, or wrong bytes", held[0].Err)
	}
	readAll(t, u, f, ringBatch(t, f, 16))
	awaitStats(t, u, func(s UringStats) bool { return s.Rings == 1 && s.Rebuilt == 1 })
}

// A ring that can not be woken any more while it waits in the kernel is given
// up: else new requests would wait for the stalled one.
func TestUringCanNotBeWoken(t *testing.T) {
	noLeaks(t)
	stalled, f := newPipeFile(t), newRingFile(t)
	u, _ := faultReader(t, UringOptions{Rings: 1, Depth: 4, open: lying(faultRing{
		woken: func(c uring.CQE) uring.CQE {
			c.Res = -int32(syscall.EAGAIN)
			return c
		},
	})})
	held := []tiers.Item{blockItem(t, stalled)}
	done := goRead(u, context.Background(), held)
	inKernel(t, u, 1)
	for range 3 {
		readAll(t, u, f, ringBatch(t, f, 4))
	}
	awaitStats(t, u, func(s UringStats) bool { return s.Rings == 0 && s.Broken != "" })
	stalled.feed(t)
	must(t, <-done)
	if held[0].Err != nil || !bytes.Equal(held[0].Spans[0], stalled.content) {
		t.Errorf("the stalled read: %v, or wrong bytes", held[0].Err)
	}
}
