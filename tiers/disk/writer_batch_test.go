package disk

import (
	"bytes"
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/tiers"
)

// bentIO is a reader whose answers to writes a test changes.
type bentIO struct {
	tiers.ReadWriter
	items atomic.Int64
	bend  func(nth int64, it *tiers.Item) bool // true: answered, nothing is written
}

func (b *bentIO) WriteBatch(items []tiers.Item) error {
	for i := range items {
		if b.bend != nil && b.bend(b.items.Add(1), &items[i]) {
			continue
		}
		if b.bend == nil {
			b.items.Add(1)
		}
		one := items[i : i+1]
		if err := b.ReadWriter.WriteBatch(one); err != nil {
			return err
		}
	}
	return nil
}

// batchWriter is a Writer on a real directory whose writes go through a bentIO.
func batchWriter(t *testing.T, io *bentIO) (*Volume, *Writer) {
	t.Helper()
	pool := aligned.NewPool(64 << 20)
	r, err := NewPreadReader(PreadOptions{Pool: pool})
	must(t, err)
	io.ReadWriter = r
	o := testOptions(openOS(t))
	o.SegmentBytes = 32 << 20
	o.IO = func() tiers.ReadWriter { return io }
	v := openTestVolume(t, o)
	w := create(t, v, 1)
	t.Cleanup(func() {
		must(t, w.Close())
		must(t, r.Close(noDeadline))
		must(t, pool.Close())
	})
	return v, w
}

// reserveRun takes room for extents of these pages, one behind the other.
func reserveRun(t *testing.T, w *Writer, pages ...int) (first uint32) {
	t.Helper()
	for i, n := range pages {
		page, ok := w.Reserve(n, 100)
		if !ok {
			t.Fatal("no room")
		}
		if i == 0 {
			first = page
		}
	}
	return first
}

func endRun(t *testing.T, w *Writer, first uint32, pages ...int) {
	t.Helper()
	for _, n := range pages {
		must(t, w.Done(first, nil))
		first += uint32(n)
	}
}

func noise(t *testing.T, pages int) *aligned.Buffer {
	t.Helper()
	buf, err := aligned.Alloc(pages * PageBytes)
	must(t, err)
	t.Cleanup(buf.Free)
	copy(buf.Bytes(), blockOf(uint64(pages), pages*PageBytes)[0])
	return buf
}

// TestWriteBatch: runs over one and over several reservations, of less and of
// more than one request, stand in the file as they were given.
func TestWriteBatch(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	io := &bentIO{}
	v, w := batchWriter(t, io)
	for _, c := range []struct {
		pages []int
		items int64
	}{{[]int{1}, 1}, {[]int{2, 2, 3}, 1}, {[]int{256}, 1}, {[]int{200, 57}, 2}, {[]int{3000, 1, 2}, 12}} {
		total := 0
		for _, n := range c.pages {
			total += n
		}
		io.items.Store(0)
		p := noise(t, total).Bytes()
		first := reserveRun(t, w, c.pages...)
		must(t, w.WriteAt(first, p))
		endRun(t, w, first, c.pages...)
		if got := io.items.Load(); got != c.items {
			t.Errorf("%v pages: %d requests, want %d", c.pages, got, c.items)
		}
		h, err := v.Acquire(1)
		must(t, err)
		got := make([]byte, len(p))
		must(t, readFull(h.File(false), [][]byte{got}, int64(first)*PageBytes, len(got), false))
		h.Release()
		if !bytes.Equal(got, p) {
			t.Fatalf("%v pages: other bytes are in the file", c.pages)
		}
	}
	if r := v.DirectRefusal(); r != "" && io.ReadWriter.(*PreadReader).WriteRefusal() == "" {
		t.Errorf("direct I/O was given up: %s", r)
	}
}

func TestWriteBatchAnswers(t *testing.T) {
	const pages = 600 // 3 requests
	second := func(err error) func(int64, *tiers.Item) bool {
		return func(nth int64, it *tiers.Item) bool {
			if nth != 2 {
				return false
			}
			it.Answer(0, tiers.PathNone, err)
			return true
		}
	}
	for name, c := range map[string]struct {
		bend func(int64, *tiers.Item) bool
		want error
	}{
		"no room in the queue": {second(tiers.ErrBusy), nil},
		"closed":               {second(tiers.ErrClosed), nil},
		"no room on the disk":  {second(syscall.ENOSPC), syscall.ENOSPC},
		"bad device":           {second(syscall.EIO), syscall.EIO},
	} {
		t.Run(name, func(t *testing.T) {
			io := &bentIO{bend: c.bend}
			v, w := batchWriter(t, io)
			p := noise(t, pages).Bytes()
			first := reserveRun(t, w, pages)
			err := w.WriteAt(first, p)
			endRun(t, w, first, pages)
			if !errors.Is(err, c.want) {
				t.Fatalf("write: %v, want %v", err, c.want)
			}
			if _, ok := w.Reserve(1, 100); ok != (c.want == nil) {
				t.Errorf("room for another extent: %v", ok)
			}
			if c.want != nil {
				if !strings.Contains(err.Error(), "segment 0000000000000001 page 1") {
					t.Errorf("%v does not say where", err)
				}
				return
			}
			endRun(t, w, first+pages, 1)
			h, err := v.Acquire(1)
			must(t, err)
			defer h.Release()
			got := make([]byte, len(p))
			must(t, readFull(h.File(false), [][]byte{got}, int64(first)*PageBytes, len(got), false))
			if !bytes.Equal(got, p) {
				t.Fatal("other bytes are in the file")
			}
		})
	}
}

// TestWriteBatchRefused: a path that cannot write past the page cache is not
// asked to again, and the volume says so.
func TestWriteBatchRefused(t *testing.T) {
	io := &bentIO{bend: func(_ int64, it *tiers.Item) bool {
		it.Answer(it.Length, tiers.PathBuffered, nil)
		return true
	}}
	v, w := batchWriter(t, io)
	if w.direct == nil {
		t.Skip("the temporary directory refuses O_DIRECT")
	}
	first := reserveRun(t, w, 1)
	must(t, w.WriteAt(first, noise(t, 1).Bytes()))
	endRun(t, w, first, 1)
	if (writerFile{w}).File(true) != nil || !strings.Contains(v.DirectRefusal(), "went through the page cache") {
		t.Errorf("direct I/O goes on: %q", v.DirectRefusal())
	}
}

// TestWriteAtOverReservations: a run may go over neighbours and never beyond.
func TestWriteAtOverReservations(t *testing.T) {
	io := &bentIO{}
	_, w := batchWriter(t, io)
	first := reserveRun(t, w, 2, 3, 1)
	p := noise(t, 8).Bytes()
	must(t, w.WriteAt(first, p[:6*PageBytes]))
	must(t, w.WriteAt(first+1, p[:2*PageBytes]))
	for _, c := range []struct {
		page  uint32
		pages int
	}{{first, 7}, {first + 5, 2}, {first + 6, 1}, {first - 1, 2}, {0, 1}} {
		if err := w.WriteAt(c.page, p[:c.pages*PageBytes]); !errors.Is(err, ErrInvalid) {
			t.Errorf("%d pages at %d: %v", c.pages, c.page, err)
		}
	}
	must(t, w.Done(first+2, nil)) // the one in the middle
	if err := w.WriteAt(first, p[:6*PageBytes]); !errors.Is(err, ErrInvalid) {
		t.Errorf("over a reservation that has ended: %v", err)
	}
	must(t, w.Done(first, nil))
	must(t, w.Done(first+5, nil))
}
