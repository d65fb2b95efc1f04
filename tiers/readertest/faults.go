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

// eachShape runs f for each kind of file, memory and wait.
func eachShape(t *testing.T, f func(t *testing.T, kind fileKind, memory memoryKind, wait waitKind)) {
	for _, kind := range fileKinds {
		for memory := range memoryKinds {
			for wait := range waitKinds {
				t.Run(string(kind)+"/"+memory.String(), func(t *testing.T) { f(t, kind, memory, wait) })
			}
		}
	}
}

// testEndOfFile: a range that the file does not fill is an error, whatever
// part of it is there.
func testEndOfFile(t *testing.T, s *suite) {
	eachShape(t, func(t *testing.T, kind fileKind, memory memoryKind, wait waitKind) {
		f := newFile(t, kind)
		r, _ := s.reader(t, Config{})
		for _, off := range []int64{fileBytes - 1, fileBytes &^ 4095, fileBytes&^4095 - 4096, fileBytes, fileBytes + 9999} {
			for _, length := range []int{8192, 8191} {
				ctx, cancel := wait.context()
				d := newDestination(t, memory, length)
				it := d.item(f, off, length/2)
				it.WaitForDevice = wait == forDevice
				it = readOne(t, r, ctx, it)
				cancel()
				d.checkUntaken(t, it)
				if !errors.Is(it.Err, io.ErrUnexpectedEOF) {
					t.Fatalf("%v, want %v", it.Err, io.ErrUnexpectedEOF)
				}
			}
		}
		// The last bytes of the file are no error.
		d := newDestination(t, memory, 1234)
		d.checkRead(t, readOne(t, r, context.Background(), d.item(f, fileBytes-1234)), f.content)
	})
}

// testInvalidItems: a malformed item fails alone and reads nothing.
func testInvalidItems(t *testing.T, s *suite) {
	f := newFile(t, memDirect)
	r, _ := s.reader(t, Config{})
	bad := map[string]func(*tiers.Item){
		"no file":         func(it *tiers.Item) { it.File = nil },
		"negative offset": func(it *tiers.Item) { it.Offset = -1 },
		"no length":       func(it *tiers.Item) { it.Length, it.Spans = 0, nil },
		"negative length": func(it *tiers.Item) { it.Length = -4096 },
		"spans too short": func(it *tiers.Item) { it.Spans = [][]byte{it.Spans[0][1:]} },
		"no spans":        func(it *tiers.Item) { it.Spans = nil },
	}
	for name, change := range bad {
		good, wrong := newDestination(t, heap, 4096), newDestination(t, heap, 4096)
		items := []tiers.Item{wrong.item(f, 0), good.item(f, 4096)}
		change(&items[0])
		if err := r.ReadBatch(context.Background(), items); err != nil {
			t.Fatal(err)
		}
		if !errors.Is(items[0].Err, tiers.ErrInvalid) {
			t.Errorf("%s: %v, want %v", name, items[0].Err, tiers.ErrInvalid)
		}
		wrong.checkOld(t)
		good.checkRead(t, items[1], f.content)
	}
}

// testOneBadItem: an error of the device fails the items that met it, and no
// other. A read that broke off in the middle leaves nothing behind.
func testOneBadItem(t *testing.T, s *suite) {
	const badPage = 5
	eachShape(t, func(t *testing.T, kind fileKind, memory memoryKind, wait waitKind) {
		f := newFile(t, kind).wrap(func(f vfs.File) vfs.File {
			return &callFunc{File: f, readv: func(f vfs.File, bufs [][]byte, off int64) (int, error) {
				n, err := f.Readv(bufs, off)
				if bad := badPage*4096 - off; bad < int64(n) && off < (badPage+1)*4096 {
					return int(max(bad, 0)), syscall.EIO
				}
				return n, err
			}}
		})
		r, _ := s.reader(t, Config{})
		ctx, cancel := wait.context()
		defer cancel()
		var items []tiers.Item
		var ds []*destination
		for page := range int64(10) {
			ds = append(ds, newDestination(t, memory, 2*4096))
			items = append(items, ds[page].item(f, page*4096, 4096))
			items[page].WaitForDevice = wait == forDevice
		}
		if err := r.ReadBatch(ctx, items); err != nil {
			t.Fatal(err)
		}
		for page, it := range items {
			if page != badPage && page != badPage-1 {
				ds[page].checkRead(t, it, f.content)
				continue
			}
			ds[page].checkUntaken(t, it)
			if !errors.Is(it.Err, syscall.EIO) {
				t.Errorf("page %d: %v, want EIO", page, it.Err)
			}
		}
	})
}

// testShortAndInterrupted: short reads, EINTR and EAGAIN are continued.
func testShortAndInterrupted(t *testing.T, s *suite) {
	for _, most := range []int{1000, 4096, 5000} {
		eachShape(t, func(t *testing.T, kind fileKind, memory memoryKind, wait waitKind) {
			var calls atomic.Int64
			f := newFile(t, kind).wrap(func(f vfs.File) vfs.File {
				return &callFunc{File: f, readv: func(f vfs.File, bufs [][]byte, off int64) (int, error) {
					switch calls.Add(1) % 4 {
					case 1:
						return 0, syscall.EINTR
					case 3:
						return 0, syscall.EAGAIN
					}
					n, err := f.Readv(bufs, off)
					if n > most {
						return most, nil
					}
					return n, err
				}}
			})
			if f.direct != nil && most < 4096 {
				f.direct = nil // a device gives whole blocks
			}
			r, _ := s.reader(t, Config{})
			ctx, cancel := wait.context()
			defer cancel()
			for _, off := range []int64{0, 4096, 4097} {
				d := newDestination(t, memory, 5*4096)
				it := d.item(f, off, 4096, 5000)
				it.WaitForDevice = wait == forDevice
				d.checkRead(t, readOne(t, r, ctx, it), f.content)
			}
			checkNotRefused(t, r)
		})
	}
}

// testDirectRefused: a refusal of direct I/O means the next path.
func testDirectRefused(t *testing.T, s *suite) {
	for _, refusal := range []error{syscall.EINVAL, syscall.EOPNOTSUPP, syscall.EPERM, vfs.ErrDirectUnsupported} {
		f := newFile(t, memDirect)
		f.direct = &callFunc{File: f.direct, readv: func(vfs.File, [][]byte, int64) (int, error) {
			return 0, refusal
		}}
		r, _ := s.reader(t, Config{})
		for memory := range memoryKinds {
			for wait := range waitKinds {
				ctx, cancel := wait.context()
				d := newDestination(t, memory, 3*4096)
				it := d.item(f, 4096, 4096)
				it.WaitForDevice = wait == forDevice
				it = readOne(t, r, ctx, it)
				cancel()
				d.checkRead(t, it, f.content)
				if it.Path != tiers.PathBuffered && it.Path != tiers.PathBufferedBounce {
					t.Errorf("%v: path %v", refusal, it.Path)
				}
			}
		}
		if c, ok := r.(interface{ Refusal() string }); ok && c.Refusal() == "" && !isBuffered(r) {
			t.Errorf("%v: no reason kept", refusal)
		}
	}
}
