package engine

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
)

// walker measures what a directory holds on disk without asking the store:
// the blocks of every file in it, and of those that are unlinked and held
// open by this process.
type walker struct{ dir string }

type inode struct{ dev, ino uint64 }

// bytes is what the tree holds now. Files that come and go meanwhile count if
// they were seen.
func (w walker) bytes() (sum int64, err error) {
	seen := map[inode]bool{}
	add := func(info fs.FileInfo, err error) {
		if err != nil {
			return // gone meanwhile
		}
		st := info.Sys().(*syscall.Stat_t)
		if id := (inode{uint64(st.Dev), st.Ino}); !seen[id] {
			seen[id] = true
			sum += st.Blocks * 512
		}
	}
	// Descriptors first: what is unlinked during the walk was seen here.
	for _, fd := range w.descriptors() {
		add(os.Stat(fd))
	}
	err = filepath.WalkDir(w.dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			add(os.Lstat(path))
		}
		return nil
	})
	return sum, err
}

// descriptors lists this process's open files under the directory.
func (w walker) descriptors() (out []string) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		path := "/proc/self/fd/" + e.Name()
		if to, err := os.Readlink(path); err == nil && strings.HasPrefix(to, w.dir+"/") {
			out = append(out, path)
		}
	}
	return out
}

// TestLaw4CapacityHolds: eight writers put several times the capacity while
// readers hold segments open. A walker that knows nothing of the store never
// sees more bytes on disk than the capacity.
func TestLaw4CapacityHolds(t *testing.T) {
	checkLeaks(t)
	dir := filepath.Join(t.TempDir(), "store")
	o := Options{CapacityBytes: 80 * mib, MaxBlockBytes: 512 * kib, SegmentBytes: 2 * mib, FreeFloorBytes: 1}
	o.private.memTableBytes = 1 * mib
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	n := mustSpace(t, s)
	total := 2 * o.CapacityBytes
	if fullTests {
		total *= 8
	}
	w := walker{dir}
	var walked, most atomic.Int64
	stop := make(chan struct{})
	var watcher, writers sync.WaitGroup
	watcher.Go(func() {
		for {
			n, err := w.bytes()
			if err != nil {
				t.Error(err)
			}
			walked.Add(1)
			storeMax(&most, n)
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	const size = 300_000
	var next, shed atomic.Int64
	for range 8 {
		writers.Go(func() {
			for id := int(next.Add(1)); int64(id)*size < total; id = int(next.Add(1)) {
				switch r := putOne(n, blockOf(id, 0, size)); r.Status {
				case StatusOK:
				case StatusShed:
					shed.Add(1)
				default:
					t.Errorf("put %d: %v %v", id, r.Status, r.Err)
				}
				p, b := getParts(id-id%7, size)
				if r := n.Get(context.Background(), []GetBlock{b}, GetOptions{})[0]; r.Status == StatusOK && variantOf(id-id%7, p, 1) != 0 {
					t.Errorf("get %d: WRONG BYTES with status OK", id-id%7)
				}
			}
		})
	}
	writers.Wait()
	mustFlush(t, s)
	close(stop)
	watcher.Wait()
	st := s.Stats()
	t.Logf("walked %d times: most %d of %d bytes; the store's own figure %d; evicted %d segments, moved %d blocks, shed %d, amplification %.2f",
		walked.Load(), most.Load(), o.CapacityBytes, st.DiskBytesMax, st.EvictedSegments, st.MovedBlocks, shed.Load(), st.WriteAmplification())
	if most.Load() > o.CapacityBytes || st.DiskBytesMax > o.CapacityBytes {
		t.Errorf("the disk held %d bytes (own figure %d), the capacity is %d", most.Load(), st.DiskBytesMax, o.CapacityBytes)
	}
	if st.EvictedSegments == 0 || walked.Load() < 10 {
		t.Errorf("%d evictions, %d walks: the test tests nothing", st.EvictedSegments, walked.Load())
	}
	if 2*shed.Load() > next.Load() {
		t.Errorf("%d of %d puts were shed", shed.Load(), next.Load())
	}
	wantNoBuffers(t, s)
	mustClose(t, s)
	if left := w.descriptors(); len(left) != 0 {
		t.Errorf("open after Close: %v", left)
	}
	if after, _ := w.bytes(); after > o.CapacityBytes {
		t.Errorf("%d bytes after Close", after)
	}
}

// openCounter is a real directory that counts the open files below segments/
// and remembers the most there were. A file counts from before it is opened
// until after it is closed. (A walk over /proc/self/fd is no snapshot: it may
// see a file before it is closed and the one opened for it as well.)
type openCounter struct {
	*vfs.OS
	now, most atomic.Int64
}

type countedFile struct {
	vfs.File
	closed func()
}

func (c *openCounter) Open(name string, flags vfs.OpenFlag) (vfs.File, error) {
	if !strings.HasPrefix(name, "segments/") {
		return c.OS.Open(name, flags)
	}
	now := c.now.Add(1)
	for most := c.most.Load(); now > most && !c.most.CompareAndSwap(most, now); most = c.most.Load() {
	}
	f, err := c.OS.Open(name, flags)
	if err != nil {
		c.now.Add(-1)
		return nil, err
	}
	return &countedFile{f, sync.OnceFunc(func() { c.now.Add(-1) })}, nil
}

func (f *countedFile) Close() error {
	defer f.closed()
	return f.File.Close()
}

// TestOpenFilesBound: with more segments than descriptors allowed, all blocks
// can still be read, and never more files are open.
func TestOpenFilesBound(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	root, err := vfs.OpenOS(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	files := &openCounter{OS: root}
	o := dirOptions()
	o.private.fs = files
	o.CapacityBytes, o.MaxOpenFiles = 16*mib, 16
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, s)
	n := mustSpace(t, s)
	id := 0
	for range 40 {
		id = fillSegment(t, s, n, id)
		mustFlush(t, s) // seals what is full: its descriptors may be closed
	}
	if segs := s.Stats().Segments; segs < 2*o.MaxOpenFiles {
		t.Fatalf("only %d segments", segs)
	}
	var wg sync.WaitGroup
	var hits atomic.Int64
	for r := range 8 {
		wg.Go(func() {
			for i := r; i < id; i += 8 {
				p, b := getParts(i, raceSize)
				switch got := n.Get(context.Background(), []GetBlock{b}, GetOptions{})[0]; got.Status {
				case StatusOK:
					hits.Add(1)
					if variantOf(i, p, 1) != 0 {
						t.Errorf("get %d: WRONG BYTES with status OK", i)
					}
				case StatusMiss: // the limit was reached
				default:
					t.Errorf("get %d: %v %v", i, got.Status, got.Err)
				}
			}
		})
	}
	wg.Wait()
	if int(hits.Load()) < id*3/4 {
		t.Errorf("%d of %d blocks were read", hits.Load(), id)
	}
	for i := range id { // one at a time each is there
		wantBlock(t, n, i, 0, raceSize)
	}
	most := int(files.most.Load())
	if most > o.MaxOpenFiles || most < o.MaxOpenFiles/2 {
		t.Errorf("%d files were open at a time, MaxOpenFiles is %d", most, o.MaxOpenFiles)
	}
	// What was counted is what the system says.
	if open := len(walker{filepath.Join(dir, "segments")}.descriptors()); open != int(files.now.Load()) {
		t.Errorf("%d descriptors below segments, %d were counted", open, files.now.Load())
	}
}

// TestOpenCloseLeavesNothing: neither goroutines nor descriptors, however an
// Open ends.
func TestOpenCloseLeavesNothing(t *testing.T) {
	checkLeaks(t)
	dir := filepath.Join(t.TempDir(), "store")
	w := walker{dir}
	for round := range 5 {
		o := dirOptions()
		o.private.noBackground = false
		if round == 3 {
			o.CapacityBytes = 1 // refused
		}
		s, err := Open(dir, o)
		if (err != nil) != (round == 3) {
			t.Fatalf("round %d: %v", round, err)
		}
		if err == nil {
			n := mustSpace(t, s)
			putOne(n, blockOf(round, 0, 5000))
			wantBlock(t, n, round, 0, 5000)
			mustClose(t, s)
		}
		if left := w.descriptors(); len(left) != 0 {
			t.Fatalf("round %d: open %v", round, fmt.Sprint(left))
		}
	}
}
