package readertest

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/internal/vfs"
)

// fileBytes is the length of a test file: whole pages and a broken one.
const fileBytes = 64*4096 + 1234

// fileKind says what descriptors a test file has.
type fileKind string

const (
	osBuffered fileKind = "os-buffered"
	osDirect   fileKind = "os-direct" // as buffered where the directory refuses direct I/O
	memDirect  fileKind = "mem-direct"
)

var fileKinds = []fileKind{osBuffered, osDirect, memDirect}

// file is a test file. It counts its references.
type file struct {
	id       uint64
	content  []byte
	buffered vfs.File
	direct   vfs.File
	refs     atomic.Int64
}

func (f *file) ID() uint64 { return f.id }
func (f *file) Retain()    { f.refs.Add(1) }
func (f *file) Release()   { f.refs.Add(-1) }

func (f *file) File(direct bool) vfs.File {
	if direct {
		return f.direct
	}
	return f.buffered
}

// wrap puts w around both descriptors.
func (f *file) wrap(w func(vfs.File) vfs.File) *file {
	f.buffered = w(f.buffered)
	if f.direct != nil {
		f.direct = w(f.direct)
	}
	return f
}

// newFile makes a file of random bytes; at the end of the test all its
// references must be back. Make it before the reader: the reader is then
// closed first.
func newFile(t testing.TB, kind fileKind) *file {
	t.Helper()
	var fs vfs.FS = vfs.NewMem()
	if kind != memDirect {
		o, err := vfs.OpenOS(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = o.Close() })
		fs = o
	}
	f := &file{id: 7, content: make([]byte, fileBytes)}
	var seed [32]byte
	copy(seed[:], kind)
	_, _ = rand.NewChaCha8(seed).Read(f.content)
	w, err := fs.Open("file", vfs.Create|vfs.Excl)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteAt(f.content, 0); err != nil {
		t.Fatal(err)
	}
	f.buffered = w
	if kind != osBuffered {
		f.direct = openDirect(t, fs)
	}
	t.Cleanup(func() {
		if n := f.refs.Load(); n != 0 {
			t.Errorf("%d references to the file are still held", n)
		}
		_ = w.Close()
	})
	return f
}

// openDirect opens the file past the page cache, or not at all where that
// does not work.
func openDirect(t testing.TB, fs vfs.FS) vfs.File {
	t.Helper()
	d, err := fs.Open("file", vfs.ReadWrite|vfs.Direct)
	if err != nil {
		t.Logf("no direct I/O here: %v", err)
		return nil
	}
	buf, err := aligned.Alloc(4096)
	if err != nil {
		t.Fatal(err)
	}
	defer buf.Free()
	if _, err := d.ReadAt(buf.Bytes(), 0); err != nil {
		t.Logf("no direct I/O here: %v", err)
		_ = d.Close()
		return nil
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// callFunc is a file whose reads are done by readv and whose writes by write,
// where these are set.
type callFunc struct {
	vfs.File
	readv func(f vfs.File, bufs [][]byte, off int64) (int, error)
	write func(f vfs.File, p []byte, off int64) (int, error)
}

func (f *callFunc) Readv(bufs [][]byte, off int64) (int, error) {
	if f.readv == nil {
		return f.File.Readv(bufs, off)
	}
	return f.readv(f.File, bufs, off)
}

func (f *callFunc) ReadAt(p []byte, off int64) (int, error) {
	if f.readv == nil {
		return f.File.ReadAt(p, off)
	}
	return f.readv(f.File, [][]byte{p}, off)
}

func (f *callFunc) WriteAt(p []byte, off int64) (int, error) {
	if f.write == nil {
		return f.File.WriteAt(p, off)
	}
	return f.write(f.File, p, off)
}

func (f *callFunc) Fd() uintptr { return vfs.InvalidFd }

// gate holds reads and writes until it is opened.
type gate struct {
	entered chan struct{} // one value for each one held
	open    chan struct{}
	once    sync.Once
}

func newGate(t testing.TB) *gate {
	g := &gate{entered: make(chan struct{}, 1024), open: make(chan struct{})}
	t.Cleanup(g.release) // a failed test must not hang
	return g
}

func (g *gate) release() { g.once.Do(func() { close(g.open) }) }

// wrap makes f a stalled device.
func (g *gate) wrap(f vfs.File) vfs.File {
	wait := func() {
		g.entered <- struct{}{}
		<-g.open
	}
	return &callFunc{
		File: f,
		readv: func(f vfs.File, bufs [][]byte, off int64) (int, error) {
			wait()
			return f.Readv(bufs, off)
		},
		write: func(f vfs.File, p []byte, off int64) (int, error) {
			wait()
			return f.WriteAt(p, off)
		},
	}
}
