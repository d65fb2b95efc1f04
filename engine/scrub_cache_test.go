package engine

import (
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/sealstone/sealstone/internal/faults/faulttest"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// cacheFS has a page cache: once it is filled, reads of segments that do not go
// past it get what it holds, whatever becomes of the device.
type cacheFS struct {
	vfs.FS
	// clings: it does not forget when it is asked to, as pages do that another
	// process has mapped.
	clings bool

	mu    sync.Mutex
	pages map[string][]byte // by file
	drops int
}

// fill loads all segments.
func (c *cacheFS) fill(t testing.TB, v map[string][]byte) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pages = v
}

func (c *cacheFS) get(name string) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.pages[name]
	return p, ok
}

func (c *cacheFS) Open(name string, flags vfs.OpenFlag) (vfs.File, error) {
	f, err := c.FS.Open(name, flags)
	if err != nil || flags&vfs.Direct != 0 || !strings.HasSuffix(name, ".seg") {
		return f, err
	}
	return &cachedPages{File: f, c: c, name: name}, nil
}

// cachedPages is a file that is read through the page cache.
type cachedPages struct {
	vfs.File
	c    *cacheFS
	name string
}

func (f *cachedPages) Fd() uintptr { return vfs.InvalidFd }

func (f *cachedPages) ReadAt(p []byte, off int64) (int, error) {
	return f.Readv([][]byte{p}, off)
}

func (f *cachedPages) Readv(bufs [][]byte, off int64) (int, error) {
	all, ok := f.c.get(f.name)
	if !ok {
		return f.File.Readv(bufs, off)
	}
	n := 0
	for _, b := range bufs {
		k := copy(b, all[min(off+int64(n), int64(len(all))):])
		if n += k; k < len(b) {
			return n, io.EOF
		}
	}
	return n, nil
}

func (f *cachedPages) DropCache(off, length int64) error {
	f.c.mu.Lock()
	f.c.drops++
	if !f.c.clings {
		delete(f.c.pages, f.name)
	}
	f.c.mu.Unlock()
	return f.File.DropCache(off, length)
}

// TestFaultScrubPastCache: a bit flips on the device under a page that is
// cached. Who reads through the cache is served the old bytes; a scrub past it
// finds the flip. Where there is no way past it, the scrub has the cache forget
// first, and says in any case that it can not know.
func TestFaultScrubPastCache(t *testing.T) {
	tally := faulttest.New(t)
	for _, c := range []struct {
		name   string
		path   PathChoice
		clings bool
		bad    int64
	}{
		{"past the cache", PathAuto, false, 1},
		{"through a cache that forgets", PathBuffered, false, 1},
		{"through a cache that does not", PathBuffered, true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := newScrubClock()
			mem := vfs.NewMem()
			fs := &cacheFS{FS: mem, clings: c.clings}
			s, n := scrubbedStore(t, fs, clock, func(o *Options) { o.Path = c.path })
			defer mustClose(t, s)
			e := entryOf(t, s, n, 5)
			file := disk.SegmentName(e.Address.Segment)
			cached := map[string][]byte{}
			for _, i := range s.vol.Segments() {
				cached[disk.SegmentName(i.ID)] = readWhole(t, mem, disk.SegmentName(i.ID))
			}
			fs.fill(t, cached)
			f := tally.Try("a flip under a cached page: " + c.name)
			off := e.Address.Offset() + disk.PageBytes + 5
			flipByte(t, mem, file, off)
			f.Fire()

			seen := [1]byte{}
			through, err := fs.Open(file, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer through.Close()
			if _, err := through.ReadAt(seen[:], off); err != nil || seen[0] != cached[file][off] {
				t.Fatalf("the cache is not what the test needs: %v", err)
			}
			r := mustScrub(t, s)
			if r.Bad != c.bad || r.Damaged+r.Transient+r.Unreadable != 0 {
				t.Errorf("%v %v", r.ScrubTotals, r.Findings)
			}
			wantCached := int64(0)
			if c.path == PathBuffered {
				wantCached = r.Bytes
			}
			if r.CachedBytes != wantCached || wantCached > 0 && fs.drops == 0 {
				t.Errorf("%d of %d bytes came through the cache, which was asked %d times to forget", r.CachedBytes, r.Bytes, fs.drops)
			}
			if said := strings.Contains(r.String(), "through the page cache"); said != (r.CachedBytes > 0) {
				t.Errorf("it says: %s", r)
			}
			p, got := getBlock(t, n, 5, scrubbedSize)
			if got.Status == StatusOK && string(p) != string(contentOf(5, 0, scrubbedSize)) {
				tally.WrongBytes(1)
			}
			if (got.Status == StatusOK) != (c.bad == 0) {
				t.Errorf("get: %v", got.Status)
			}
			f.Survive()
		})
	}
}

// TestScrubCachingSaysSo: the cycle in the background says it too.
func TestScrubCachingSaysSo(t *testing.T) {
	c := newScrubClock()
	s, _ := scrubbedStore(t, vfs.NewMem(), c, func(o *Options) { o.Path = PathBuffered })
	defer mustClose(t, s)
	if got := runCycle(t, s, c); got.CachedBytes == 0 || got.CachedBytes != got.Bytes {
		t.Errorf("%+v", got)
	}
	if !hasLine(scrubLines(s), "whether those on the device were looked at is not known") {
		t.Errorf("%q", scrubLines(s))
	}
}
