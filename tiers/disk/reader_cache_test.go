package disk

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers"
)

// hintFile notes what it is told about the page cache.
type hintFile struct {
	vfs.File
	mu    sync.Mutex
	hints []string
}

func (f *hintFile) note(what string, off, length int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hints = append(f.hints, fmt.Sprintf("%s %d+%d", what, off>>10, length>>10))
	return fmt.Errorf("%s: nobody is to care", what)
}

func (f *hintFile) DropCache(off, length int64) error      { return f.note("drop", off, length) }
func (f *hintFile) StartWriteback(off, length int64) error { return f.note("write", off, length) }

type hintTiersFile struct{ f *hintFile }

func (hintTiersFile) ID() uint64 { return 1 }
func (hintTiersFile) Retain()    {}
func (hintTiersFile) Release()   {}
func (f hintTiersFile) File(direct bool) vfs.File {
	if direct {
		return f.f.File // takes no hints
	}
	return f.f
}

// Through the page cache, I/O of some size leaves little behind; a failing
// hint fails nothing; past the cache nothing is hinted.
func TestPageCacheIsBounded(t *testing.T) {
	const kib, mib = 1 << 10, 1 << 20
	for _, tc := range []struct {
		name     string
		buffered bool
		write    bool
		off      int64
		length   int
		want     []string // in KiB
	}{
		{"small read", true, false, 0, 64*kib - 1, nil},
		{"read", true, false, 4 * kib, 64 * kib, []string{"drop 4+64"}},
		{"small write", true, true, 100 * mib, 60 * kib, nil},
		{"first write", true, true, 0, mib, []string{"write 0+1024"}},
		{"write at the edge", true, true, 8 * mib, mib, []string{"write 8192+1024"}},
		{"later write", true, true, 10 * mib, mib, []string{"write 10240+1024", "drop 0+2048"}},
		{"much later write", true, true, 100 * mib, mib, []string{"write 102400+1024", "drop 28672+65536"}},
		{"direct read", false, false, 0, mib, nil},
		{"direct write", false, true, 100 * mib, mib, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			mem, err := vfs.NewMem().Open("f", vfs.Create)
			must(t, err)
			must(t, mem.Truncate(tc.off+int64(tc.length)))
			f := &hintFile{File: mem}
			pool := aligned.NewPool(8 * mib)
			r, err := NewPreadReader(PreadOptions{Pool: pool, Buffered: tc.buffered})
			must(t, err)
			buf, err := aligned.Alloc(tc.length)
			must(t, err)
			defer buf.Free()
			items := []tiers.Item{{
				File: hintTiersFile{f}, Offset: tc.off, Length: tc.length, Spans: [][]byte{buf.Bytes()}, OffHeap: true,
			}}
			if tc.write {
				must(t, r.WriteBatch(items))
			} else {
				must(t, r.ReadBatch(context.Background(), items))
			}
			must(t, items[0].Err)
			must(t, r.Close(context.Background()))
			if diff := cmp.Diff(tc.want, f.hints); diff != "" {
				t.Errorf("hints (-want +got):\n%s", diff)
			}
		})
	}
}
