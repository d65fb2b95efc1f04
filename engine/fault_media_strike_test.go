package engine

import (
	"bytes"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
)

// place is a run of bytes of a file that a fault strikes.
type place struct {
	file     string
	from, to int64
}

func (p place) overlaps(file string, off, n int64) bool {
	return p.file == file && off < p.to && off+n > p.from
}

// struck is a store after a fault: what it is opened on, and whether the fault
// has happened. A fault in the device, rather than in its bytes, goes away when
// the store is opened on the bytes again.
type struck struct {
	fs    vfs.FS
	fired func() bool
	// harmed are the places with other bytes than were written there.
	harmed []place
}

// mediaFault is a fault of the media and what it does to a place of a store.
type mediaFault struct {
	name string
	kind faultKind
	// unitBytes is what it strikes at a time; 0: a file as a whole.
	unitBytes int64
	// strike is nil where the fault changes nothing: zeros in place of zeros.
	strike func(t testing.TB, m *mediaStore, fs *vfs.Mem, at place) *struck
}

// faultKind is a column of the table of outcomes.
type faultKind uint8

const (
	otherBytes  faultKind = iota // in the place of those that were written
	fileCut                      // or emptied
	fileLonger                   // than it was written
	fileGone                     //
	unreadable                   // EIO, for as long as the store is open
	wrongAnswer                  // of a device whose bytes are sound
)

var mediaFaults = []mediaFault{
	{"bit", otherBytes, 512, editing(func(p []byte, _ place) { p[len(p)/3] ^= 0x10 })},
	{"zeros of a sector", otherBytes, 512, editing(func(p []byte, _ place) { clear(p) })},
	{"zeros of a page", otherBytes, 4096, editing(func(p []byte, _ place) { clear(p) })},
	{"zeros of a file", otherBytes, 0, editing(func(p []byte, _ place) { clear(p) })},
	{"garbage in a sector", otherBytes, 512, editing(func(p []byte, at place) { copy(p, noise(at.from, len(p))) })},
	{"garbage in a file", otherBytes, 0, editing(func(p []byte, at place) { copy(p, noise(1, len(p))) })},
	{"stale sector", otherBytes, 512, strikeStale},
	{"stale page", otherBytes, 4096, strikeStale},
	{"stale file", otherBytes, 0, strikeStale},
	{"misdirected write", otherBytes, 4096, strikeMisdirectedWrite},
	{"cut", fileCut, 4096, truncating(0)},
	{"cut within a page", fileCut, 4096, truncating(100)},
	{"longer by zeros", fileLonger, 0, extending(func(n int) []byte { return make([]byte, n) })},
	{"longer by garbage", fileLonger, 0, extending(func(n int) []byte { return noise(2, n) })},
	{"removed", fileGone, 0, strikeRemoved},
	{"lost sector", unreadable, 512, failing(vfs.OpRead)},
	{"lost page", unreadable, 4096, failing(vfs.OpRead)},
	{"lost file", unreadable, 0, failing(vfs.OpRead)},
	{"file that can not be opened", unreadable, 0, failing(vfs.OpOpen)},
	{"file that can not be seen", unreadable, 0, failing(vfs.OpStat)},
	{"misdirected read", wrongAnswer, 4096, strikeMisdirectedRead},
}

func noise(seed int64, n int) []byte {
	p := make([]byte, n)
	r := rand.New(rand.NewPCG(uint64(seed), 9))
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	return p
}

func always() bool { return true }

// editing strikes bytes where they lie.
func editing(edit func(p []byte, at place)) func(testing.TB, *mediaStore, *vfs.Mem, place) *struck {
	return func(t testing.TB, _ *mediaStore, fs *vfs.Mem, at place) *struck {
		if at.to == at.from {
			return nil
		}
		first, end := int64(-1), int64(0)
		patch(t, fs, at.file, at.from, func(p []byte) {
			before := bytes.Clone(p)
			edit(p, at)
			for i := range p {
				if p[i] == before[i] {
					continue
				}
				if first < 0 {
					first = int64(i)
				}
				end = int64(i) + 1
			}
		}, int(at.to-at.from))
		if first < 0 {
			return nil
		}
		return &struck{fs, always, []place{{at.file, at.from + first, at.from + end}}}
	}
}

// strikeStale brings back what lay there at an earlier time: writes that the
// device acknowledged and lost.
func strikeStale(t testing.TB, m *mediaStore, fs *vfs.Mem, at place) *struck {
	for _, past := range m.past {
		info, err := past.Stat(at.file)
		if err != nil || info.SizeBytes < at.to {
			continue
		}
		old := readWhole(t, past, at.file)[at.from:at.to]
		if s := editing(func(p []byte, _ place) { copy(p, old) })(t, m, fs, at); s != nil {
			return s
		}
	}
	return nil
}

// strikeMisdirectedWrite has what was meant for a page land on the next one,
// and the page keeps what it had before: both ends of the error.
func strikeMisdirectedWrite(t testing.TB, m *mediaStore, fs *vfs.Mem, at place) *struck {
	next := place{at.file, at.to, at.to + (at.to - at.from)}
	if info, err := fs.Stat(at.file); err != nil || info.SizeBytes < next.to {
		return nil
	}
	meant := readBytes(t, fs, at.file, at.from, at.to-at.from)
	s := editing(func(p []byte, _ place) { copy(p, meant) })(t, m, fs, next)
	if s == nil {
		return nil
	}
	if strikeStale(t, m, fs, at) == nil {
		editing(func(p []byte, _ place) { clear(p) })(t, m, fs, at)
	}
	s.harmed = []place{at, next}
	return s
}

// truncating cuts a file at a page, and a few bytes behind.
func truncating(odd int64) func(testing.TB, *mediaStore, *vfs.Mem, place) *struck {
	return func(t testing.TB, _ *mediaStore, fs *vfs.Mem, at place) *struck {
		info, err := fs.Stat(at.file)
		if err != nil || at.from+odd >= info.SizeBytes {
			return nil
		}
		resize(t, fs, at.file, at.from+odd)
		return &struck{fs, always, []place{{at.file, at.from + odd, info.SizeBytes}}}
	}
}

func resize(t testing.TB, fs vfs.FS, name string, sizeBytes int64) {
	t.Helper()
	f, err := fs.Open(name, vfs.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(sizeBytes); err != nil {
		t.Fatal(err)
	}
}

// extending puts a page and a bit behind the end of a file.
func extending(tail func(n int) []byte) func(testing.TB, *mediaStore, *vfs.Mem, place) *struck {
	return func(t testing.TB, _ *mediaStore, fs *vfs.Mem, at place) *struck {
		p := tail(4096 + 100)
		f, err := fs.Open(at.file, vfs.ReadWrite)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt(p, at.to); err != nil {
			t.Fatal(err)
		}
		return &struck{fs, always, []place{{at.file, at.to, at.to + int64(len(p))}}}
	}
}

func strikeRemoved(t testing.TB, _ *mediaStore, fs *vfs.Mem, at place) *struck {
	if err := fs.Remove(at.file); err != nil {
		t.Fatal(err)
	}
	return &struck{fs, always, []place{at}}
}

// failing makes operations on the place fail with EIO, as the system reports it.
func failing(kinds ...vfs.OpKind) func(testing.TB, *mediaStore, *vfs.Mem, place) *struck {
	return func(_ testing.TB, _ *mediaStore, mem *vfs.Mem, at place) *struck {
		var fired atomic.Bool
		return &struck{vfs.WithHook(mem, func(op vfs.Op) error {
			if !slices.Contains(kinds, op.Kind) || op.Name != at.file || op.Kind == vfs.OpRead && !at.overlaps(op.Name, op.Offset, op.Length) {
				return nil
			}
			fired.Store(true)
			return &fs.PathError{Op: op.Kind.String(), Path: op.Name, Err: syscall.EIO}
		}), fired.Load, []place{at}}
	}
}

// strikeMisdirectedRead makes reads of a page answer with the bytes of the
// next one.
func strikeMisdirectedRead(t testing.TB, _ *mediaStore, fs *vfs.Mem, at place) *struck {
	unit := at.to - at.from
	other := make([]byte, unit)
	f, err := fs.Open(at.file, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n, err := f.ReadAt(other, at.to); err != nil && err != io.EOF || n == 0 {
		return nil
	}
	var fired atomic.Bool
	return &struck{vfs.WithReadFilter(fs, func(name string, off int64, p []byte) {
		if !at.overlaps(name, off, int64(len(p))) {
			return
		}
		from, to := max(off, at.from), min(off+int64(len(p)), at.to)
		was := bytes.Clone(p[from-off : to-off])
		copy(p[from-off:to-off], other[from-at.from:to-at.from])
		if !bytes.Equal(was, p[from-off:to-off]) {
			fired.Store(true)
		}
	}), fired.Load, []place{at}}
}
