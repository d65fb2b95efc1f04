package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/sealstone/sealstone/internal/faults/faulttest"
	"golang.org/x/sys/unix"
)

// sharedFile is memory of somebody else's file, as a client of a server shares
// it: the test can cut the file under the store.
type sharedFile struct {
	t    testing.TB
	file *os.File
	mem  []byte
	m    *Memory
}

const sharedBytes = 1 << 20

func mustShare(t testing.TB, s *Store, kind string) *sharedFile {
	t.Helper()
	f := &sharedFile{t: t}
	var err error
	switch kind {
	case "memfd":
		fd, err := unix.MemfdCreate("shared", unix.MFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		f.file = os.NewFile(uintptr(fd), "memfd")
	case "shm":
		f.file, err = os.CreateTemp("/dev/shm", "sealstone-test")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(f.file.Name()); err != nil {
			t.Fatal(err)
		}
	}
	f.cut(sharedBytes)
	if f.mem, err = unix.Mmap(int(f.file.Fd()), 0, sharedBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		t.Fatal(err)
	}
	if f.m, err = s.RegisterMemory(f.mem, MemoryOptions{Guarded: true}); err != nil {
		t.Fatal(err)
	}
	return f
}

// cut makes the file so long.
func (f *sharedFile) cut(sizeBytes int64) {
	if err := f.file.Truncate(sizeBytes); err != nil {
		f.t.Error(err)
	}
}

func (f *sharedFile) end() {
	f.m.Release()
	f.m.Release()
	_ = unix.Munmap(f.mem)
	f.file.Close()
}

// diskOptions is a store in a real directory, so that the kernel and not a
// file system in memory moves the bytes.
func diskOptions() Options {
	o := testOptions(nil)
	o.private.fs = nil
	o.CapacityBytes, o.SegmentBytes = 64*mib, 4*mib
	o.MaxBlockBytes, o.MaxInflightBytes = 1*mib, 64*mib
	return o
}

func mustOpenDisk(t testing.TB, path PathChoice) (*Store, *Namespace) {
	t.Helper()
	o := diskOptions()
	o.Path = path
	s, err := Open(filepath.Join(t.TempDir(), "store"), o)
	if errors.Is(err, ErrPathRefused) { // not here: then the one that is
		return mustOpenDisk(t, PathAuto)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s, mustSpace(t, s)
}

// wantUnblamed: what became of a caller's memory is held against nobody else.
func wantUnblamed(t testing.TB, s *Store) {
	t.Helper()
	st := s.Stats()
	if st.Quarantined != 0 || st.PathsDemoted != 0 || st.GetStatus[StatusCorrupt] != 0 ||
		st.GetStatus[StatusIOError] != 0 || st.PutStatus[StatusIOError] != 0 {
		t.Errorf("%d quarantined, %d paths demoted, gets %v, puts %v", st.Quarantined, st.PathsDemoted, st.GetStatus, st.PutStatus)
	}
	if h := s.Health(); h.State != HealthOK {
		t.Errorf("health: %v", h)
	}
}

func wantGone(t testing.TB, name string, st Status, err error) {
	t.Helper()
	if st != StatusInvalid || !errors.Is(err, ErrMemoryGone) || !errors.Is(err, ErrInvalid) {
		t.Errorf("%s: %v (%v), want %v with ErrMemoryGone", name, st, err, StatusInvalid)
	}
}

// TestFaultMemoryCutGet: the file of a destination is cut before a get, in
// front of it or within it. That block is refused, its neighbours are served.
func TestFaultMemoryCutGet(t *testing.T) {
	checkLeaks(t)
	y := faulttest.New(t)
	const size = 160 << 10
	paths := []PathChoice{PathAuto}
	if !testing.Short() {
		paths = append(paths, PathPread, PathBuffered)
	}
	for _, path := range paths {
		s, _ := mustOpenDisk(t, path)
		defer mustClose(t, s)
		for _, kind := range []string{"memfd", "shm"} {
			for _, compression := range []Compression{CompressionOff, CompressionS2} {
				t.Run(fmt.Sprint(path, " ", kind, " ", compression), func(t *testing.T) {
					n, err := s.Namespace(context.Background(), testLayout(), kind+compression.String(), NamespaceOptions{Compression: compression})
					if err != nil {
						t.Fatal(err)
					}
					for id := range 3 {
						mustPut(t, n, PutBlock{Hash: hashOf(id), Planes: planesOf(squeezable(id, size))})
					}
					mustFlush(t, s)
					for _, wait := range []bool{true, false} {
						for _, left := range []int64{0, 4096, 68 << 10, 156 << 10} {
							fault := y.Try(fmt.Sprintf("%v %s %v: cut to %d, wait %v", path, kind, compression, left, wait))
							f := mustShare(t, s, kind)
							getCut(t, n, f, left, wait, fault)
							f.end()
							fault.Survive()
						}
					}
					if p, r := getHalves(n, 1, size); r.Status != StatusOK || !bytes.Equal(p, squeezable(1, size)) {
						t.Errorf("the block afterwards: %v %v", r.Status, r.Err)
					}
				})
			}
		}
		wantUnblamed(t, s)
		if st := s.Stats(); st.MemoryGone == 0 {
			t.Error("nothing was counted")
		}
	}
}

// getCut gets a block into a file that is cut, and its neighbours elsewhere.
func getCut(t *testing.T, n *Namespace, f *sharedFile, left int64, wait bool, fault *faulttest.Fault) {
	t.Helper()
	const size = 160 << 10
	poison(f.mem)
	own := mustBuffer(t, n.s, 2*256<<10)
	poison(own)
	f.cut(left)
	fault.Fire()
	r := n.Get(context.Background(), []GetBlock{
		wholeTwo(0, own[:size]), wholeTwo(1, f.mem[:size]), wholeTwo(2, own[256<<10:][:size]),
	}, GetOptions{WaitForDevice: wait})
	wantGone(t, "the cut one", r[1].Status, r[1].Err)
	for _, id := range []int{0, 2} {
		if p := own[id*128<<10:][:size]; r[id].Status != StatusOK || !bytes.Equal(p, squeezable(id, size)) {
			t.Errorf("its neighbour %d: %v %v", id, r[id].Status, r[id].Err)
		}
	}
	for i, b := range f.mem[:left] {
		if b != 0 && b != 0xa5 {
			t.Fatalf("byte %d of what is left is %#x: neither old nor zero", i, b)
		}
	}
}

// TestFaultMemoryCutPut: the file of a source is cut before a put. Nothing of
// that block is stored, be it new or not; its neighbours are.
func TestFaultMemoryCutPut(t *testing.T) {
	checkLeaks(t)
	y := faulttest.New(t)
	const size = 160 << 10
	for _, kind := range []string{"memfd", "shm"} {
		t.Run(kind, func(t *testing.T) {
			s, n := mustOpenDisk(t, PathAuto)
			defer mustClose(t, s)
			id := 10
			for _, left := range []int64{0, 4096, 70 << 10, 156 << 10} {
				fault := y.Try(fmt.Sprintf("%s: cut to %d", kind, left))
				f := mustShare(t, s, kind)
				copy(f.mem, squeezable(id, size))
				f.cut(left)
				fault.Fire()
				for range 2 { // the second time its neighbours exist
					r := n.Put(context.Background(), []PutBlock{
						{Hash: hashOf(id - 1), Planes: planesOf(squeezable(id-1, size))},
						{Hash: hashOf(id), Planes: planesOf(f.mem[:size])},
						{Hash: hashOf(id + 1), Planes: planesOf(squeezable(id+1, size))},
					}, PutOptions{})
					wantGone(t, "the cut one", r[1].Status, r[1].Err)
					if r[0].Status != StatusOK || r[2].Status != StatusOK {
						t.Errorf("its neighbours: %v %v, %v %v", r[0].Status, r[0].Err, r[2].Status, r[2].Err)
					}
				}
				if st := n.Has(context.Background(), [][]byte{hashOf(id), hashOf(id + 1)}); st[0] != StatusMiss || st[1] != StatusOK {
					t.Errorf("stored: %v", st)
				}
				mustPut(t, n, PutBlock{Hash: hashOf(id), Planes: planesOf(squeezable(id, size))})
				r := n.Put(context.Background(), []PutBlock{{Hash: hashOf(id), Planes: planesOf(f.mem[:size])}}, PutOptions{})[0]
				wantGone(t, "one that exists", r.Status, r.Err)
				f.end()
				fault.Survive()
				id += 3
			}
			wantUnblamed(t, s)
			if used := s.Stats().InflightBytes; used != 0 {
				t.Errorf("%d bytes of buffers were not given back", used)
			}
		})
	}
}

// storedAndShared is a store on disk with so many blocks of a size, and memory
// that is shared. They end with the test.
func storedAndShared(t *testing.T, blocks, size int) (*Store, *Namespace, *sharedFile) {
	t.Helper()
	s, n := mustOpenDisk(t, PathAuto)
	for id := range blocks {
		mustPut(t, n, PutBlock{Hash: hashOf(id), Planes: planesOf(squeezable(id, size))})
	}
	f := mustShare(t, s, "memfd")
	t.Cleanup(func() {
		f.end()
		mustClose(t, s)
	})
	return s, n, f
}

// TestFaultMemoryCutMeanwhile: the file grows and shrinks all the time under
// puts and gets, on both sides of every page.
func TestFaultMemoryCutMeanwhile(t *testing.T) {
	checkLeaks(t)
	y := faulttest.New(t)
	fault := y.Try("a file that is cut all the time")
	const size, blocks = 128 << 10, 4
	s, n, f := storedAndShared(t, blocks, size)
	stop := keepAt(func(i int) { f.cut(int64(i * 37 % 257 * 4096)) })
	own := mustBuffer(t, s, blocks*size)
	rounds := 0
	gone := func() bool {
		st := s.Stats()
		return st.GetStatus[StatusInvalid] > 20 && st.PutStatus[StatusInvalid] > 20
	}
	for end := time.Now().Add(hangTimeout); !gone() && time.Now().Before(end) || rounds < 50; rounds++ {
		var gets []GetBlock
		for id := range blocks {
			dst := f.mem[id*size:][:size]
			if id == 0 {
				dst = own[:size]
			}
			gets = append(gets, wholeTwo(id, dst))
		}
		for id, r := range n.Get(context.Background(), gets, GetOptions{WaitForDevice: rounds%2 == 0}) {
			if r.Status != StatusOK && !errors.Is(r.Err, ErrMemoryGone) || id == 0 && (r.Status != StatusOK || !bytes.Equal(own[:size], squeezable(0, size))) {
				t.Fatalf("block %d: %v %v", id, r.Status, r.Err)
			}
		}
		put := PutBlock{Hash: hashOf(1000 + rounds), Planes: planesOf(f.mem[:size])}
		if r := putOne(n, put); r.Status != StatusOK && !errors.Is(r.Err, ErrMemoryGone) {
			t.Fatalf("put: %v %v", r.Status, r.Err)
		}
	}
	stop()
	if gone() {
		fault.Fire()
	}
	wantUnblamed(t, s)
	for id := range rounds {
		if _, r := getHalves(n, 1000+id, size); r.Status != StatusOK && r.Status != StatusMiss {
			t.Fatalf("block of round %d: %v %v", id, r.Status, r.Err)
		}
	}
	for id := range blocks {
		if p, r := getHalves(n, id, size); r.Status != StatusOK || !bytes.Equal(p, squeezable(id, size)) {
			t.Fatalf("block %d: %v %v", id, r.Status, r.Err)
		}
	}
	fault.Survive()
}

// TestFaultMemoryScribbled: somebody writes into the memory for ever. Gets are
// served, puts store what they copied, and nobody is blamed.
func TestFaultMemoryScribbled(t *testing.T) {
	checkLeaks(t)
	y := faulttest.New(t)
	fault := y.Try("memory that is written to all the time")
	const size, blocks = 128 << 10, 4
	s, n, f := storedAndShared(t, blocks, size)
	stop := scribble(f)
	rounds := 0
	for end := time.Now().Add(hangTimeout); (s.Stats().MemoryChanged < 3*stormCount || rounds < 2*stormCount) && time.Now().Before(end); rounds++ {
		var gets []GetBlock
		for id := range blocks {
			gets = append(gets, wholeTwo(id, f.mem[id*size:][:size]))
		}
		for id, r := range n.Get(context.Background(), gets, GetOptions{WaitForDevice: true}) {
			if r.Status != StatusOK {
				t.Fatalf("block %d: %v %v", id, r.Status, r.Err)
			}
		}
		if r := putOne(n, PutBlock{Hash: hashOf(1000 + rounds%64), Planes: planesOf(f.mem[:size])}); r.Status != StatusOK {
			t.Fatalf("put: %v %v", r.Status, r.Err)
		}
	}
	stop()
	if s.Stats().MemoryChanged > 0 {
		fault.Fire()
	}
	for id := range min(rounds, 64) {
		if _, r := getHalves(n, 1000+id, size); r.Status != StatusOK {
			t.Fatalf("what was put in round %d: %v %v", id, r.Status, r.Err)
		}
	}
	wantUnblamed(t, s)
	if st := s.Stats(); st.RereadsSaved != 0 {
		t.Errorf("%d reads were held against a path", st.RereadsSaved)
	}
	fault.Survive()
}

// scribble writes through a mapping of its own, as another process does, until
// the function that it returns is called.
func scribble(f *sharedFile) (stop func()) {
	f.t.Helper()
	theirs, err := unix.Mmap(int(f.file.Fd()), 0, sharedBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		f.t.Fatal(err)
	}
	end := keepAt(func(i int) {
		for at := 0; at < len(theirs); at += 4096 {
			theirs[at+i%256] = byte(i)
		}
	})
	return func() {
		end()
		_ = unix.Munmap(theirs)
	}
}

// keepAt does something again and again, with other goroutines in between, until
// the function that it returns is called.
func keepAt(do func(i int)) (stop func()) {
	done, ended := make(chan struct{}), sync.WaitGroup{}
	ended.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
				do(i)
				runtime.Gosched()
			}
		}
	})
	return func() {
		close(done)
		ended.Wait()
	}
}

// TestRegisterMemory: what is refused, and that a region ends.
func TestRegisterMemory(t *testing.T) {
	s, _ := mustOpenDisk(t, PathAuto)
	defer mustClose(t, s)
	p := make([]byte, 5*4096)
	p = p[4096-int(rangeOf(p).from%4096):][:4*4096]
	m, err := s.RegisterMemory(p[4096:3*4096], MemoryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		mem  []byte
		ok   bool
	}{
		{"nothing", nil, false},
		{"the same", p[4096 : 3*4096], false},
		{"its end", p[2*4096:], false},
		{"its beginning", p[:4097], false},
		{"within", p[5000:5001], false},
		{"around", p, false},
		{"before", p[:4096], true},
		{"behind", p[3*4096:], true},
	} {
		other, err := s.RegisterMemory(c.mem, MemoryOptions{Guarded: true})
		if (err == nil) != c.ok || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", c.name, err)
		}
		if err == nil {
			other.Release()
		}
	}
	if s.memory.guards([][]byte{p}) {
		t.Error("memory is guarded that nobody asked to")
	}
	m.Release()
	m.Release()
	if s.memory.holds(p[4096:4097]) {
		t.Error("the region has not ended")
	}
	guarded, err := s.RegisterMemory(p[4096:3*4096], MemoryOptions{Guarded: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		mem  []byte
		want bool
	}{{p[:4096], false}, {p[:4097], true}, {p[3*4096-1:], true}, {p[3*4096:], false}, {nil, false}, {p, true}} {
		if got := s.memory.guards([][]byte{c.mem}); got != c.want {
			t.Errorf("%d bytes: guarded %v", len(c.mem), got)
		}
	}
	guarded.Release()
}

// planesOf cuts bytes as getBlock asks for them.
func planesOf(p []byte) []PlaneData {
	cut := len(p) / 2
	return []PlaneData{{Name: "k", Spans: [][]byte{p[:cut]}}, {Name: "v", Spans: [][]byte{p[cut:]}}}
}

func wholeTwo(id int, p []byte) GetBlock {
	b := GetBlock{Hash: hashOf(id)}
	for _, pl := range planesOf(p) {
		b.Parts = append(b.Parts, Part{Plane: pl.Name, Spans: pl.Spans})
	}
	return b
}

// getHalves gets such a block into memory of its own.
func getHalves(n *Namespace, id, size int) ([]byte, GetResult) {
	p := make([]byte, size)
	return p, n.Get(context.Background(), []GetBlock{wholeTwo(id, p)}, GetOptions{})[0]
}

// squeezable is content that compresses.
func squeezable(id, size int) []byte {
	p := contentOf(id, 0, size)
	for i := range p {
		if i%64 >= 16 {
			p[i] = byte(id)
		}
	}
	return p
}

func poison(p []byte) {
	for i := range p {
		p[i] = 0xa5
	}
}
