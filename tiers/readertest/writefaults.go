package readertest

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers"
)

// writeFunc makes f's writes go through write.
func writeFunc(write func(f vfs.File, p []byte, off int64) (int, error)) func(vfs.File) vfs.File {
	return func(f vfs.File) vfs.File { return &callFunc{File: f, write: write} }
}

// testWriteInvalid: a malformed item fails alone and writes nothing.
func testWriteInvalid(t *testing.T, s *suite) {
	f := newFile(t, memDirect)
	w := s.writer(t, Config{})
	d := newDestination(t, heap, 4096)
	items := []tiers.Item{d.item(f, -1), source(t, heap, f, 4096, 4096, 1), d.item(f, 0), d.item(f, 0)}
	items[2].File = nil
	items[3].Length++
	if err := w.WriteBatch(items); err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, 2, 3} {
		wantErr(t, items[i].Err, tiers.ErrInvalid)
	}
	checkWritten(t, items[1])
	f.checkContent(t)
	if err := w.WriteBatch(nil); err != nil {
		t.Errorf("a batch of nothing: %v", err)
	}
}

// testWriteShort: short writes, EINTR and EAGAIN are continued.
func testWriteShort(t *testing.T, s *suite) {
	for _, most := range []int{1000, 4096, 5000} {
		for _, kind := range fileKinds {
			for memory := range memoryKinds {
				var calls atomic.Int64
				f := newFile(t, kind).wrap(writeFunc(func(f vfs.File, p []byte, off int64) (int, error) {
					switch calls.Add(1) % 5 {
					case 1:
						return 0, syscall.EINTR
					case 3:
						return 0, syscall.EAGAIN
					}
					n, err := f.WriteAt(p[:min(len(p), most)], off)
					if n < len(p) && err == nil && calls.Load()%2 == 0 {
						err = io.ErrShortWrite
					}
					return n, err
				}))
				if f.direct != nil && most%4096 != 0 {
					f.direct = nil // a device takes whole blocks
				}
				w := s.writer(t, Config{})
				for _, off := range []int64{0, 4097, 24576} {
					checkWritten(t, writeOne(t, w, source(t, memory, f, off, 5*4096, 3, 4096, 8192)))
				}
				f.checkContent(t)
				checkWritesNotRefused(t, w)
			}
		}
	}
}

// testWriteNoProgress: a device that takes nothing is an error, no endless
// loop.
func testWriteNoProgress(t *testing.T, s *suite) {
	for _, answer := range []error{nil, syscall.EINTR, syscall.EAGAIN} {
		f := newFile(t, memDirect).wrap(writeFunc(func(vfs.File, []byte, int64) (int, error) { return 0, answer }))
		w := s.writer(t, Config{})
		for memory := range memoryKinds {
			it := writeOne(t, w, newDestination(t, memory, 4096).item(f, 0))
			if it.Err == nil || it.N != 0 || it.Path != tiers.PathNone {
				t.Errorf("%v: err %v, n %d, path %v", answer, it.Err, it.N, it.Path)
			}
		}
		f.checkContent(t)
	}
}

// testWriteOneBadItem: what the device says of one item is that item's error,
// with the errno in it, and not its neighbours'. It gives up no path.
func testWriteOneBadItem(t *testing.T, s *suite) {
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EIO, syscall.EDQUOT} {
		for _, kind := range fileKinds {
			f := newFile(t, kind)
			f.wrap(writeFunc(func(f vfs.File, p []byte, off int64) (int, error) {
				if off == 5*8192 {
					return 0, errno
				}
				return f.WriteAt(p, off)
			}))
			w := s.writer(t, Config{})
			for memory := range memoryKinds {
				var items []tiers.Item
				for i := range 10 {
					if i == 5 {
						items = append(items, newDestination(t, memory, 8192).item(f, 5*8192))
						continue
					}
					items = append(items, source(t, memory, f, int64(i)*8192, 8192, byte(memory)))
				}
				if err := w.WriteBatch(items); err != nil {
					t.Fatal(err)
				}
				for i, it := range items {
					if i != 5 {
						checkWritten(t, it)
					} else if !errors.Is(it.Err, errno) || it.N != 0 || it.Path != tiers.PathNone {
						t.Errorf("%v: err %v, n %d, path %v", errno, it.Err, it.N, it.Path)
					}
				}
			}
			f.checkContent(t)
			checkWritesNotRefused(t, w)
		}
	}
}

// testWriteRefused: a refusal of direct I/O means the next way, and the
// reason is kept.
func testWriteRefused(t *testing.T, s *suite) {
	for _, refusal := range []error{syscall.EINVAL, syscall.EOPNOTSUPP, syscall.EPERM, syscall.ENOSYS, vfs.ErrDirectUnsupported} {
		f := newFile(t, memDirect)
		f.direct = failing(refusal)(f.direct)
		w := s.writer(t, Config{})
		for memory := range memoryKinds {
			it := writeOne(t, w, source(t, memory, f, 4096, 3*4096, byte(memory), 4096))
			checkWritten(t, it)
			if it.Path != tiers.PathBuffered && it.Path != tiers.PathBufferedBounce {
				t.Errorf("%v: path %v", refusal, it.Path)
			}
		}
		f.checkContent(t)
		if r, ok := w.(interface{ WriteRefusal() string }); ok && r.WriteRefusal() == "" && !isBuffered(w) {
			t.Errorf("%v: no reason kept", refusal)
		}
	}
}

// testWriteRefusedBothWays: a file that nobody may write to fails its item,
// and says nothing about the path of others.
func testWriteRefusedBothWays(t *testing.T, s *suite) {
	bad, f := newFile(t, memDirect).wrap(failing(syscall.EPERM)), newFile(t, memDirect)
	w := s.writer(t, Config{})
	wantErr(t, writeOne(t, w, newDestination(t, offHeap, 4096).item(bad, 0)).Err, syscall.EPERM)
	checkWritten(t, writeOne(t, w, source(t, offHeap, f, 0, 4096, 1)))
	checkWritesNotRefused(t, w)
	f.checkContent(t)
}

// testWriteDone: every outcome is told exactly once, before the batch returns.
func testWriteDone(t *testing.T, s *suite) {
	for _, kind := range fileKinds {
		f, bad := newFile(t, kind), newFile(t, kind).wrap(failing(syscall.ENOSPC))
		w := s.writer(t, Config{})
		var items []tiers.Item
		for i := range 9 {
			items = append(items, source(t, memoryKind(i%int(memoryKinds)), f, int64(i)*8192, 8192, 1))
		}
		items = append(items, newDestination(t, offHeap, 4096).item(bad, 0), tiers.Item{})
		l := watch(t, items)
		if err := w.WriteBatch(items); err != nil {
			t.Fatal(err)
		}
		l.check(items)
		for _, it := range items[:9] {
			checkWritten(t, it)
		}
		wantErr(t, items[9].Err, syscall.ENOSPC)
		wantErr(t, items[10].Err, tiers.ErrInvalid)
		f.checkContent(t)
	}
}

// goWrite writes in a goroutine of its own.
func goWrite(w tiers.ReadWriter, items []tiers.Item) <-chan error {
	done := make(chan error, 1)
	go func() { done <- w.WriteBatch(items) }()
	return done
}

// testWriteQueueFull: what has no place in the queue is answered at once and
// writes nothing.
func testWriteQueueFull(t *testing.T, s *suite) {
	g := newGate(t)
	stalled, f := newFile(t, memDirect).wrap(g.wrap), newFile(t, memDirect)
	w := s.writer(t, Config{Workers: 1, QueueMax: 2})
	held := []tiers.Item{source(t, heap, stalled, 0, 4096, 1)}
	first := goWrite(w, held)
	<-g.entered
	var items []tiers.Item
	for i := range 5 {
		if i < 2 {
			items = append(items, source(t, heap, f, int64(i)*4096, 4096, 1))
		} else {
			items = append(items, newDestination(t, heap, 4096).item(f, int64(i)*4096))
		}
	}
	items[4].Done = func(*tiers.Item) { g.release() }
	await(t, goWrite(w, items))
	await(t, first)
	checkWritten(t, held[0])
	for i, it := range items {
		if i < 2 {
			checkWritten(t, it)
		} else {
			wantErr(t, it.Err, tiers.ErrBusy)
		}
	}
	stalled.checkContent(t)
	f.checkContent(t)
}

// testCloseWhileWriting: Close says that a write is still in the kernel and
// can be called again; the write itself comes to its end.
func testCloseWhileWriting(t *testing.T, s *suite) {
	g := newGate(t)
	f := newFile(t, memDirect).wrap(g.wrap)
	w := s.writer(t, Config{})
	items := []tiers.Item{source(t, heap, f, 0, 4096, 1)}
	done := goWrite(w, items)
	<-g.entered
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	wantErr(t, w.Close(ctx), context.Canceled)
	g.release()
	await(t, done)
	checkWritten(t, items[0])
	f.checkContent(t)
}
