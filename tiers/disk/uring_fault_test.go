package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/internal/uring"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers"
)

// faultRing is a ring that lies, where its functions are set.
type faultRing struct {
	ring
	before func() error              // instead of Enter
	after  func() error              // behind Enter, in place of success
	next   func(uring.CQE) uring.CQE // changes completions of requests
	woken  func(uring.CQE) uring.CQE // changes those of the waker
	wait   func() error              // instead of Wait
}

func (r *faultRing) Enter(min int, timeout time.Duration) error {
	if r.before != nil {
		if err := r.before(); err != nil {
			return err
		}
	}
	err := r.ring.Enter(min, timeout)
	if err == nil && r.after != nil {
		err = r.after()
	}
	return err
}

func (r *faultRing) Wait(min int, timeout time.Duration) error {
	if r.wait != nil {
		if err := r.wait(); err != nil {
			return err
		}
	}
	return r.ring.Wait(min, timeout)
}

func (r *faultRing) Next() (uring.CQE, bool) {
	c, ok := r.ring.Next()
	switch {
	case !ok:
	case c.UserData == wakerData && r.woken != nil:
		c = r.woken(c)
	case c.UserData != wakerData && r.next != nil:
		c = r.next(c)
	}
	return c, ok
}

// lying makes every ring of a reader lie.
func lying(lie faultRing) func(int) (ring, error) {
	return func(entries int) (ring, error) {
		r, err := openRing(entries)
		if err != nil {
			return nil, err
		}
		mine := lie
		mine.ring = r
		return &mine, nil
	}
}

// ringFile is a file of random bytes with real descriptors; it counts its
// references.
type ringFile struct {
	buffered, direct vfs.File
	content          []byte
	refs             atomic.Int64
}

const ringFileBytes = 1<<20 + 1234

func (*ringFile) ID() uint64 { return 5 }
func (f *ringFile) Retain()  { f.refs.Add(1) }
func (f *ringFile) Release() { f.refs.Add(-1) }
func (f *ringFile) File(direct bool) vfs.File {
	if direct {
		return f.direct
	}
	return f.buffered
}

// newRingFile skips the test where the temporary directory knows no direct
// I/O: then no request ever gets to a ring.
func newRingFile(t *testing.T) *ringFile {
	t.Helper()
	fs := openOS(t)
	f := &ringFile{content: make([]byte, ringFileBytes)}
	_, _ = rand.NewChaCha8([32]byte{1}).Read(f.content)
	var err error
	f.buffered, err = fs.Open("file", vfs.Create)
	must(t, err)
	_, err = f.buffered.WriteAt(f.content, 0)
	must(t, err)
	f.direct, err = fs.Open("file", vfs.ReadWrite|vfs.Direct)
	if errors.Is(err, vfs.ErrDirectUnsupported) {
		t.Skipf("no direct I/O here: %v", err)
	}
	must(t, err)
	t.Cleanup(func() {
		if n := f.refs.Load(); n != 0 {
			t.Errorf("%d references to the file are still held", n)
		}
		must(t, f.direct.Close())
		must(t, f.buffered.Close())
	})
	return f
}

// faultReader is a reader over lying rings; at the end nothing may be left.
func faultReader(t *testing.T, o UringOptions) (*UringReader, *aligned.Pool) {
	t.Helper()
	pool := aligned.NewPool(32 << 20)
	o.Pread.Pool = pool
	u := newUring(t, o)
	t.Cleanup(func() {
		must(t, u.Close(context.Background()))
		must(t, pool.Close())
	})
	return u, pool
}

// ringBatch is items of all shapes that a ring serves differently, with where
// they go.
func ringBatch(t *testing.T, f *ringFile, n int) (items []tiers.Item) {
	t.Helper()
	mem, err := aligned.Alloc(n * 64 << 10)
	must(t, err)
	t.Cleanup(mem.Free)
	for i := range n {
		p := mem.Bytes()[i*64<<10:][:64<<10]
		off := int64(i) * 32 << 10
		switch i % 4 {
		case 1: // a tail
			p = p[:len(p)-1000]
		case 2: // not aligned in the file
			off += 77
		}
		spans := [][]byte{p}
		if i%4 == 3 { // more pieces than one entry takes
			spans = nil
			for len(p) > 0 {
				spans = append(spans, p[:4096])
				p = p[4096:]
			}
			spans = append(spans, spans[:0]...)
		}
		it := tiers.Item{File: f, Offset: off, Spans: spans, OffHeap: true}
		for _, s := range spans {
			it.Length += len(s)
		}
		items = append(items, it)
	}
	return items
}

// noLeaks wants no goroutine left when all else of the test was cleaned up.
func noLeaks(t *testing.T) { t.Cleanup(func() { goleak.VerifyNone(t) }) }

func checkItem(t *testing.T, f *ringFile, it tiers.Item) {
	t.Helper()
	if it.Err != nil || it.N != it.Length {
		t.Fatalf("read %d+%d: n %d, %v", it.Offset, it.Length, it.N, it.Err)
	}
	if got := bytes.Join(it.Spans, nil); !bytes.Equal(got, f.content[it.Offset:][:it.Length]) {
		t.Fatalf("read %d+%d by %v: wrong bytes", it.Offset, it.Length, it.Path)
	}
}

func readAll(t *testing.T, u *UringReader, f *ringFile, items []tiers.Item) {
	t.Helper()
	must(t, u.ReadBatch(context.Background(), items))
	for _, it := range items {
		checkItem(t, f, it)
	}
}

// What a completion says is continued, done by the pread path, or the item's
// error.
func TestUringErrno(t *testing.T) {
	noLeaks(t)
	type outcome int
	const (
		continued outcome = iota
		fallback
		refused
		failed
	)
	for _, tc := range []struct {
		errno syscall.Errno
		times int64
		want  outcome
	}{
		{syscall.EINTR, 3, continued},
		{syscall.EAGAIN, 3, continued},
		{syscall.EBUSY, 3, continued},
		{syscall.EAGAIN, 1 << 40, fallback},
		{syscall.ECANCELED, 2, fallback},
		{syscall.ENOMEM, 2, fallback},
		{syscall.EBADF, 2, fallback},
		{syscall.EINVAL, 2, refused},
		{syscall.EOPNOTSUPP, 2, refused},
		{syscall.EPERM, 2, refused},
		{syscall.ENOSYS, 2, refused},
		{syscall.EIO, 1 << 40, failed},
		{syscall.ENOSPC, 1 << 40, failed},
	} {
		for _, write := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v/%d/write=%v", tc.errno, tc.times, write), func(t *testing.T) {
				var n atomic.Int64
				f := newRingFile(t)
				u, _ := faultReader(t, UringOptions{open: lying(faultRing{next: func(c uring.CQE) uring.CQE {
					if n.Add(1) <= tc.times {
						c.Res = -int32(tc.errno)
					}
					return c
				}})})
				items := ringBatch(t, f, 8)
				if write {
					items = []tiers.Item{items[0], items[4]}
					for i, it := range items {
						_ = copy(it.Spans[0], bytes.Repeat([]byte{byte(i + 1)}, it.Length))
						copy(f.content[it.Offset:], it.Spans[0])
					}
					must(t, u.WriteBatch(items))
				} else {
					must(t, u.ReadBatch(context.Background(), items))
				}
				for _, it := range items {
					if tc.want == failed {
						if !errors.Is(it.Err, tc.errno) || it.N != 0 || it.Path != tiers.PathNone {
							t.Errorf("n %d, path %v, %v: want %v", it.N, it.Path, it.Err, tc.errno)
						}
						continue
					}
					checkItem(t, f, it)
				}
				said := u.Refusal()
				if write {
					said = u.WriteRefusal()
					got := make([]byte, ringFileBytes)
					_, err := f.buffered.ReadAt(got, 0)
					must(t, err)
					if tc.want != failed && !bytes.Equal(got, f.content) {
						t.Error("the file has other bytes")
					}
				}
				s := u.Stats()
				if (said != "") != (tc.want == refused) || (s.Fallbacks > 0) != (tc.want == fallback || tc.want == refused) {
					t.Errorf("refusal %q, %+v", said, s)
				}
				if s.Broken != "" || s.InFlight != 0 || s.Queued != 0 {
					t.Errorf("in the end: %+v", s)
				}
				if tc.want == refused && !write {
					readAll(t, u, f, ringBatch(t, f, 8))
					if after := u.Stats(); after.Fallbacks != s.Fallbacks {
						t.Errorf("a ring was tried again: %+v", after)
					}
				}
			})
		}
	}
}

// Short counts are continued at a block. A count of 0 is the end of the file.
func TestUringShortCounts(t *testing.T) {
	noLeaks(t)
	for _, most := range []int32{4096, 5000, 12288} {
		f := newRingFile(t)
		u, _ := faultReader(t, UringOptions{open: lying(faultRing{next: func(c uring.CQE) uring.CQE {
			c.Res = min(c.Res, most)
			return c
		}})})
		readAll(t, u, f, ringBatch(t, f, 16))
		w := ringBatch(t, f, 1)
		_ = copy(w[0].Spans[0], bytes.Repeat([]byte{7}, w[0].Length))
		copy(f.content, w[0].Spans[0])
		must(t, u.WriteBatch(w))
		checkItem(t, f, w[0])
		readAll(t, u, f, ringBatch(t, f, 16))
		if s := u.Stats(); s.Fallbacks != 0 || u.Refusal() != "" {
			t.Errorf("%d: %+v, refusal %q", most, s, u.Refusal())
		}
	}
	for res, want := range map[int32]error{0: io.ErrUnexpectedEOF, 100: io.ErrUnexpectedEOF} {
		f := newRingFile(t)
		u, _ := faultReader(t, UringOptions{open: lying(faultRing{next: func(c uring.CQE) uring.CQE {
			c.Res = min(c.Res, res)
			return c
		}})})
		items := ringBatch(t, f, 8)
		must(t, u.ReadBatch(context.Background(), items))
		for _, it := range items {
			if !errors.Is(it.Err, want) {
				t.Errorf("result %d: %v, want %v", res, it.Err, want)
			}
			for _, s := range it.Spans {
				if !allZero(s) {
					t.Error("bytes of a failed read were left in the spans")
				}
			}
		}
		must(t, u.WriteBatch(items[:1]))
		if !errors.Is(items[0].Err, io.ErrShortWrite) {
			t.Errorf("result %d of a write: %v, want %v", res, items[0].Err, io.ErrShortWrite)
		}
	}
}

// A ring that fails at any of its calls loses nothing: its requests are done
// by the pread path or by the ring that follows.
func TestUringBreaks(t *testing.T) {
	noLeaks(t)
	for at := int64(1); at <= 12; at++ {
		for name, lie := range map[string]func(n *atomic.Int64) faultRing{
			"before enter": func(n *atomic.Int64) faultRing {
				return faultRing{before: func() error { return failAt(n, at) }}
			},
			"after enter": func(n *atomic.Int64) faultRing {
				return faultRing{after: func() error { return failAt(n, at) }}
			},
			"strange completion": func(n *atomic.Int64) faultRing {
				return faultRing{next: func(c uring.CQE) uring.CQE {
					if failAt(n, at) != nil {
						c.UserData ^= 1 << 40
					}
					return c
				}}
			},
			"and cannot wait": func(n *atomic.Int64) faultRing {
				var waits atomic.Int64
				return faultRing{
					after: func() error { return failAt(n, at) },
					wait:  func() error { return failAt(&waits, 1) },
				}
			},
		} {
			t.Run(fmt.Sprintf("%s/%d", name, at), func(t *testing.T) {
				var n atomic.Int64
				f := newRingFile(t)
				u, _ := faultReader(t, UringOptions{Rings: 2, Depth: 8, open: lying(lie(&n))})
				for n.Load() < at {
					readAll(t, u, f, ringBatch(t, f, 16))
				}
				readAll(t, u, f, ringBatch(t, f, 16))
				awaitStats(t, u, func(s UringStats) bool { return s.Rings == 2 && s.Rebuilt == 1 && s.Broken != "" })
			})
		}
	}
}

// failAt is an error at the call of that number.
func failAt(n *atomic.Int64, at int64) error {
	if n.Add(1) == at {
		return syscall.EFAULT
	}
	return nil
}

// awaitStats waits for a state that a worker brings about behind an answer.
func awaitStats(t *testing.T, u *UringReader, ok func(UringStats) bool) {
	t.Helper()
	for range 5000 {
		if ok(u.Stats()) {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("still %+v", u.Stats())
}

// Rings that always break are given up; the pread path goes on.
func TestUringBreaksForGood(t *testing.T) {
	noLeaks(t)
	f := newRingFile(t)
	u, _ := faultReader(t, UringOptions{Rings: 2, open: lying(faultRing{before: func() error { return syscall.ENXIO }})})
	// Both rings may be in the making at a time: no ring is the end only when
	// all were made that may be.
	s := u.Stats()
	for ; s.Rings > 0 || s.Rebuilt < maxRebuilds; s = u.Stats() {
		readAll(t, u, f, ringBatch(t, f, 16))
	}
	if s.Rebuilt != maxRebuilds || !strings.Contains(s.Broken, syscall.ENXIO.Error()) || s.Depth != 0 {
		t.Errorf("in the end: %+v", s)
	}
	readAll(t, u, f, ringBatch(t, f, 16))
	if got := u.Stats().Fallbacks; got != s.Fallbacks {
		t.Errorf("%d more fallbacks without a ring", got-s.Fallbacks)
	}
}

// A ring that can not be made anew leaves the rest to the others.
func TestUringRebuildFails(t *testing.T) {
	noLeaks(t)
	f := newRingFile(t)
	var made, calls atomic.Int64
	breaks := lying(faultRing{before: func() error { return failAt(&calls, 3) }})
	u, _ := faultReader(t, UringOptions{Rings: 2, open: func(entries int) (ring, error) {
		if made.Add(1) > 2 {
			return nil, uring.ErrLimit
		}
		return breaks(entries)
	}})
	for calls.Load() < 3 {
		readAll(t, u, f, ringBatch(t, f, 16))
	}
	awaitStats(t, u, func(s UringStats) bool {
		return s.Rings == 1 && s.Rebuilt == 0 && strings.Contains(s.Broken, uring.ErrLimit.Error())
	})
	readAll(t, u, f, ringBatch(t, f, 16))
}

// Where not all rings can be made there is no reader, and nothing stays.
func TestUringSetupFails(t *testing.T) {
	noLeaks(t)
	for fails := int64(1); fails <= 3; fails++ {
		var made atomic.Int64
		pool := aligned.NewPool(1 << 20)
		_, err := NewUringReader(UringOptions{Rings: 3, Pread: PreadOptions{Pool: pool}, open: func(entries int) (ring, error) {
			if made.Add(1) == fails {
				return nil, fmt.Errorf("ring %d: %w", fails, uring.ErrLimit)
			}
			return openRing(entries)
		}})
		if errors.Is(err, uring.ErrUnsupported) {
			t.Skipf("no io_uring here: %v", err)
		}
		if !errors.Is(err, uring.ErrLimit) {
			t.Errorf("%v, want %v", err, uring.ErrLimit)
		}
		must(t, pool.Close())
	}
}
