package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sealstone/sealstone/internal/faults/faulttest"
)

// limitedStore is a store that a limit of the process or of the file system
// is about to meet, with blocks in it.
type limitedStore struct {
	t     *testing.T
	dir   string
	o     Options
	s     *Store
	n     *Namespace
	acked map[int]bool
	next  int
}

func newLimitedStore(t *testing.T, dir string) *limitedStore {
	l := &limitedStore{t: t, dir: dir, o: filesOptions(), acked: map[int]bool{}}
	l.o.MaxOpenFiles = 32
	var err error
	l.s, err = Open(dir, l.o)
	mustDo(t, err)
	l.n = mustSpace(t, l.s)
	for range 10 {
		if l.put().Status != StatusOK {
			t.Fatal("a put fails before there is a limit")
		}
	}
	mustFlush(t, l.s)
	return l
}

func (l *limitedStore) put() PutResult {
	id := l.next
	l.next++
	r := putOne(l.n, blockOf(id, 0, raceSize))
	switch r.Status {
	case StatusOK:
		l.acked[id] = true
	case StatusShed, StatusIOError:
	default:
		l.t.Errorf("put %d: %s %v", id, r.Status, r.Err)
	}
	return r
}

// meets puts until the limit is met, which must be soon, and reports whether
// what refused the put is the error that the limit gives.
func (l *limitedStore) meets(want error) bool {
	for range 40 {
		if r := l.put(); r.Status != StatusOK {
			// Read-only: it was met by the log or by a sync before. And a put
			// whose extent could not even be marked as dead only tells why.
			return errors.Is(r.Err, want) || errors.Is(r.Err, ErrReadOnly) || strings.Contains(r.Err.Error(), want.Error())
		}
		_ = l.s.Flush(context.Background())
	}
	return false
}

// serves: under the limit every acknowledged block is served.
func (l *limitedStore) serves() {
	l.t.Helper()
	for id := range l.acked {
		wantBlock(l.t, l.n, id, 0, raceSize)
	}
}

// recovers: without the limit puts work again, without a reopen, and the next
// Open finds all.
func (l *limitedStore) recovers() {
	l.t.Helper()
	eventually(l.t, "puts work again", func() bool {
		l.s.tryResume(l.s.o.private.now().Add(2 * resumeMost))
		return l.put().Status == StatusOK
	})
	mustFlush(l.t, l.s)
	l.serves()
	wantNoBuffers(l.t, l.s)
	mustClose(l.t, l.s)
	var err error
	l.s, err = Open(l.dir, l.o)
	mustDo(l.t, err)
	l.n = mustSpace(l.t, l.s)
	l.serves()
	mustClose(l.t, l.s)
}

// TestFaultLimitFileSize: RLIMIT_FSIZE below the size of a segment. The signal
// that comes with it does not end the process, puts are refused, gets served.
func TestFaultLimitFileSize(t *testing.T) {
	inChild(t, func(t *testing.T) {
		tally := faulttest.New(t)
		for _, limit := range []uint64{0, 100_000} {
			fault := tally.Try(fmt.Sprintf("files of at most %d bytes", limit))
			l := newLimitedStore(t, filepath.Join(t.TempDir(), "store"))
			var old syscall.Rlimit
			mustDo(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old))
			mustDo(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: old.Max}))
			if l.meets(syscall.EFBIG) {
				fault.Fire()
			}
			l.serves()
			mustDo(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old))
			l.recovers()
			fault.Survive()
		}
	})
}

// TestFaultLimitInodes: the file system has no inode left. Puts are refused
// when a new segment is needed, gets served; when there are inodes again, puts
// work again.
func TestFaultLimitInodes(t *testing.T) {
	mount := t.TempDir()
	if err := syscall.Mount("tmpfs", mount, "tmpfs", 0, "size=64m,nr_inodes=300"); err != nil {
		t.Skip("a tmpfs with few inodes can not be mounted: ", err)
	}
	t.Cleanup(func() { mustDo(t, syscall.Unmount(mount, 0)) })
	tally := faulttest.New(t)
	counts := []int{0, 1, 2, 3, 5}
	if testing.Short() {
		counts = []int{1}
	}
	for _, left := range counts {
		fault := tally.Try(fmt.Sprintf("%d inodes left", left))
		dir := filepath.Join(mount, fmt.Sprint("store", left))
		l := newLimitedStore(t, dir)
		fillers := filepath.Join(mount, "fill")
		mustDo(t, os.Mkdir(fillers, 0o700))
		made := 0
		for {
			err := os.WriteFile(filepath.Join(fillers, fmt.Sprint(made)), nil, 0o600)
			if errors.Is(err, syscall.ENOSPC) {
				break
			}
			mustDo(t, err)
			made++
		}
		for i := range left {
			mustDo(t, os.Remove(filepath.Join(fillers, fmt.Sprint(i))))
		}
		if l.meets(syscall.ENOSPC) {
			fault.Fire()
		}
		l.serves()
		mustDo(t, os.RemoveAll(fillers))
		l.recovers()
		mustDo(t, os.RemoveAll(dir))
		fault.Survive()
	}
}

// TestFaultLimitMemory: no address space is left for a buffer (RLIMIT_AS).
// The caller gets an error, nothing ends, and with memory again all works.
func TestFaultLimitMemory(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector's own memory is more than any limit")
	}
	inChild(t, func(t *testing.T) {
		tally := faulttest.New(t)
		o := filesOptions()
		o.MaxOpenFiles, o.MaxInflightBytes, o.MaxBlockBytes, o.SegmentBytes = 32, 512*mib, 16*mib, 40*mib
		o.CapacityBytes = 400 * mib
		dir := filepath.Join(t.TempDir(), "store")
		s, err := Open(dir, o)
		mustDo(t, err)
		n := mustSpace(t, s)
		mustPut(t, n, blockOf(0, 0, raceSize))
		mustFlush(t, s)
		big := blockOf(1, 0, 12<<20)
		fault := tally.Try("no address space for a buffer")
		end := addressSpaceLimit(t)
		b, err := s.NewBuffer(256 << 20)
		if b != nil || !errors.Is(err, syscall.ENOMEM) {
			t.Errorf("NewBuffer: %v", err)
		} else {
			fault.Fire()
		}
		var held []*Buffer // takes what the pool's slabs have left
		for {
			b, err := s.NewBuffer(8 << 20)
			if err != nil {
				break
			}
			held = append(held, b)
		}
		r := putOne(n, big)
		_, g := getBlock(t, n, 0, raceSize)
		for _, b := range held {
			b.Free()
		}
		end()
		if r.Status != StatusOK && r.Status != StatusShed && r.Status != StatusIOError {
			t.Errorf("put: %s %v", r.Status, r.Err)
		}
		if g.Status != StatusOK && g.Status != StatusShed && g.Status != StatusIOError {
			t.Errorf("get: %s %v", g.Status, g.Err)
		}
		if h := s.Health(); h.State != HealthOK {
			t.Errorf("health %+v", h)
		}
		wantBlock(t, n, 0, 0, raceSize)
		mustPut(t, n, big)
		wantBlock(t, n, 1, 0, 12<<20)
		wantNoBuffers(t, s)
		mustClose(t, s)
		if !t.Failed() {
			fault.Survive()
		}
	})
}

// addressSpaceLimit lets the process map little more than it has. The Go heap
// is grown before, so that it does not need to.
func addressSpaceLimit(t *testing.T) (end func()) {
	t.Helper()
	ballast := make([][]byte, 64)
	for i := range ballast {
		ballast[i] = make([]byte, 1<<20)
	}
	ballast = nil
	_ = ballast
	var pages uint64
	text, err := os.ReadFile("/proc/self/statm")
	mustDo(t, err)
	_, err = fmt.Sscan(string(text), &pages)
	mustDo(t, err)
	var old syscall.Rlimit
	mustDo(t, syscall.Getrlimit(syscall.RLIMIT_AS, &old))
	limit := pages*uint64(os.Getpagesize()) + 128<<20
	mustDo(t, syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: limit, Max: old.Max}))
	return func() { mustDo(t, syscall.Setrlimit(syscall.RLIMIT_AS, &old)) }
}
