package memguard

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// mapped is a shared mapping of pages of a file that the test can cut.
func mapped(t testing.TB, pages int) (*os.File, []byte) {
	t.Helper()
	fd, err := unix.MemfdCreate("memguard", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "memfd")
	t.Cleanup(func() { f.Close() })
	if err := f.Truncate(int64(pages * os.Getpagesize())); err != nil {
		t.Fatal(err)
	}
	p, err := unix.Mmap(fd, 0, pages*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(p) })
	return f, p
}

func cut(t testing.TB, f *os.File, pages int) {
	t.Helper()
	if err := f.Truncate(int64(pages * os.Getpagesize())); err != nil {
		t.Fatal(err)
	}
}

// TestDo: every way of touching that the store has, in front of the end of the
// file, across it and behind it.
func TestDo(t *testing.T) {
	f, p := mapped(t, 4)
	cut(t, f, 2)
	page := os.Getpagesize()
	own := make([]byte, len(p))
	for _, touch := range []struct {
		name string
		f    func(p []byte)
	}{
		{"read one byte", func(p []byte) { own[0] = p[len(p)-1] }},
		{"write one byte", func(p []byte) { p[len(p)-1] = 1 }},
		{"copy from", func(p []byte) { copy(own, p) }},
		{"copy to", func(p []byte) { copy(p, own) }},
		{"clear", func(p []byte) { clear(p) }},
		{"hash", func(p []byte) { xxhash.Sum64(p) }},
		{"search", func(p []byte) { _ = bytes.IndexByte(p, 0xee) }},
	} {
		for _, c := range []struct {
			from, to int
			gone     bool
		}{
			{0, page, false}, {0, 2 * page, false}, {page + 3, 2*page - 5, false}, {2*page - 1, 2 * page, false},
			{0, 4 * page, true}, {page - 1, 2*page + 1, true}, {2 * page, 3 * page, true}, {4*page - 1, 4 * page, true},
		} {
			p := p[c.from:c.to]
			err := Do([][]byte{p}, func() { touch.f(p) })
			if c.gone != errors.Is(err, ErrGone) || !c.gone && err != nil {
				t.Errorf("%s [%d, %d): %v", touch.name, c.from, c.to, err)
			}
		}
	}
	if old := debug.SetPanicOnFault(false); old {
		t.Error("the goroutine was left prepared for faults")
	}
}

// TestDoLetsOthersPass: what is no fault of the spans goes on.
func TestDoLetsOthersPass(t *testing.T) {
	f, p := mapped(t, 2)
	cut(t, f, 0)
	page := os.Getpagesize()
	caught := func(spans [][]byte, touch func()) (r any) {
		defer func() { r = recover() }()
		if err := Do(spans, touch); err != nil {
			t.Errorf("an error: %v", err)
		}
		return nil
	}
	if r := caught([][]byte{p[page:]}, func() { p[0] = 1 }); r == nil {
		t.Error("a fault beside the spans was taken for theirs")
	}
	if r := caught(nil, func() { p[0] = 1 }); r == nil {
		t.Error("a fault was taken for that of no span")
	}
	if r := caught([][]byte{p}, func() { panic("mine") }); r != "mine" {
		t.Errorf("recovered %v", r)
	}
	if r := caught([][]byte{p}, func() { own := make([]byte, 1); _ = own[len(p)] }); r == nil {
		t.Error("a bug was swallowed")
	}
	if r := caught([][]byte{p}, func() { var q *[8]byte; q[1] = 1 }); r == nil {
		t.Error("a nil pointer was swallowed")
	}
	if err := Do([][]byte{p}, func() {}); err != nil {
		t.Error(err)
	}
	if debug.SetPanicOnFault(false) {
		t.Error("the goroutine was left prepared for faults")
	}
}

// TestClear holds Clear to a plain loop: what is there is zero, what is around
// the spans is as before.
func TestClear(t *testing.T) {
	page := os.Getpagesize()
	const pages = 5
	f, p := mapped(t, pages)
	rapid.Check(t, func(t *rapid.T) {
		if err := f.Truncate(int64(pages * page)); err != nil {
			t.Fatal(err)
		}
		for i := range p {
			p[i] = 0xa5
		}
		var spans [][]byte
		want := bytes.Repeat([]byte{0xa5}, len(p))
		for at := 0; at < len(p); {
			n := min(rapid.IntRange(1, 2*page).Draw(t, "length"), len(p)-at)
			if rapid.Bool().Draw(t, "clear") {
				spans = append(spans, p[at:at+n])
				clear(want[at : at+n])
			}
			at += n
		}
		there := rapid.IntRange(0, pages).Draw(t, "pages there") * page
		if err := f.Truncate(int64(there)); err != nil {
			t.Fatal(err)
		}
		Clear(spans)
		if !bytes.Equal(p[:there], want[:there]) {
			t.Fatal("not what a loop leaves")
		}
	})
}

// TestClearAroundHoles: a page that is missing in the middle does not keep
// those behind it.
func TestClearAroundHoles(t *testing.T) {
	_, p := mapped(t, 6)
	page := os.Getpagesize()
	for i := range p {
		p[i] = 0xa5
	}
	if err := unix.Mprotect(p[2*page:3*page], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	Clear([][]byte{p[1:]})
	if err := unix.Mprotect(p[2*page:3*page], unix.PROT_READ); err != nil {
		t.Fatal(err)
	}
	for i, b := range p {
		old := i == 0 || i >= 2*page && i < 3*page
		if old != (b == 0xa5) || !old && b != 0 {
			t.Fatalf("byte %d is %#x", i, b)
		}
	}
}

// TestDoWhileCut: many goroutines touch while the file is cut and grows.
func TestDoWhileCut(t *testing.T) {
	const pages = 16
	f, p := mapped(t, pages)
	stop := make(chan struct{})
	var cutter, touchers sync.WaitGroup
	cutter.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				_ = f.Truncate(int64(i%(pages+1)) * int64(os.Getpagesize()))
				runtime.Gosched()
			}
		}
	})
	errs := make(chan error, 8)
	for range cap(errs) {
		touchers.Go(func() {
			own := make([]byte, len(p))
			for range 300 {
				if err := Do([][]byte{p}, func() { copy(own, p); clear(p) }); err != nil && !errors.Is(err, ErrGone) {
					errs <- fmt.Errorf("not gone: %w", err)
					return
				}
				Clear([][]byte{p})
			}
		})
	}
	touchers.Wait()
	close(stop)
	cutter.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
}

func BenchmarkDo(b *testing.B) {
	p := make([]byte, 4096)
	for b.Loop() {
		_ = Do([][]byte{p}, func() { clear(p) })
	}
}
