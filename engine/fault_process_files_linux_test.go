package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/sealstone/sealstone/internal/faults/faulttest"
)

// descriptorLimit lets so many descriptors be opened from now on, and returns
// how to end that.
func descriptorLimit(t *testing.T, more int) (end func()) {
	t.Helper()
	var old syscall.Rlimit
	mustDo(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old))
	// The limit is on the number, and the kernel gives the lowest free one:
	// fill the gaps.
	var fill []int
	for range more {
		fd, err := syscall.Open("/dev/null", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		mustDo(t, err)
		fill = append(fill, fd)
	}
	top := 0
	names, err := os.ReadDir("/proc/self/fd")
	mustDo(t, err)
	for _, n := range names {
		var fd int
		if _, err := fmt.Sscan(n.Name(), &fd); err == nil {
			top = max(top, fd)
		}
	}
	var gaps []int
	for {
		fd, err := syscall.Open("/dev/null", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		mustDo(t, err)
		gaps = append(gaps, fd)
		if fd >= top {
			break
		}
	}
	mustDo(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: uint64(max(top, gaps[len(gaps)-1])) + 1, Max: old.Max}))
	for _, fd := range fill {
		syscall.Close(fd)
	}
	return func() {
		mustDo(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old))
		for _, fd := range gaps {
			syscall.Close(fd)
		}
	}
}

// exhausted reports whether the process can open nothing more.
func exhausted() bool {
	fd, err := syscall.Open("/dev/null", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err == nil {
		syscall.Close(fd)
	}
	return errors.Is(err, syscall.EMFILE)
}

func filesOptions() Options {
	o := dirOptions()
	o.CapacityBytes, o.SegmentBytes, o.MaxBlockBytes = 64*mib, 256*kib, 64*kib
	o.MaxOpenFiles = 8
	o.private.logFileBytes, o.private.indexBytes = 64*kib, 8*mib
	return o
}

// TestFaultLimitOpenFilesAtOpen opens a store while the process may open no
// more than so many files, for every number until it is enough: Open fails
// with the kernel's reason, or the store is sound, and the next Open finds all.
func TestFaultLimitOpenFilesAtOpen(t *testing.T) {
	inChild(t, func(t *testing.T) {
		tally := faulttest.New(t)
		dir := filepath.Join(t.TempDir(), "store")
		s, err := Open(dir, filesOptions())
		mustDo(t, err)
		n := mustSpace(t, s)
		const blocks = 20
		for id := range blocks {
			mustPut(t, n, blockOf(id, 0, raceSize))
			if id%6 == 5 {
				mustFlush(t, s) // seals what is full, which closes descriptors
			}
		}
		mustClose(t, s)
		step := 3
		if testing.Short() {
			step = 8
		} else if fullTests {
			step = 1
		}
		for more, enough := 0, false; !enough; more += step {
			end := descriptorLimit(t, more)
			s, err := Open(dir, filesOptions())
			enough = err == nil && !exhausted()
			end()
			if err == nil {
				wantServes(t, s, blocks)
				mustClose(t, s)
			}
			if enough {
				break
			}
			fault := tally.Try(fmt.Sprintf("EMFILE after %d opens of Open", more))
			fault.Fire()
			if err != nil && !errors.Is(err, syscall.EMFILE) {
				t.Fatalf("after %d opens: %v", more, err)
			}
			first := err
			if s, err = Open(dir, filesOptions()); err != nil {
				t.Fatalf("the limit was raised after %d opens: %v", more, err)
			}
			if s.rebuilds > 0 {
				t.Fatalf("EMFILE after %d opens (%v): the index was taken for lost: %v", more, first, s.Events(0))
			}
			wantServes(t, s, blocks)
			mustClose(t, s)
			fault.Survive()
		}
	})
}

// wantServes: every block is there, and a new one can be put.
func wantServes(t *testing.T, s *Store, blocks int) {
	t.Helper()
	n := mustSpace(t, s)
	for id := range blocks {
		wantBlock(t, n, id, 0, raceSize)
	}
	mustPut(t, n, blockOf(blocks, 0, raceSize))
	mustDrop(t, n, blocks)
	if h := s.Health(); h.State != HealthOK {
		t.Fatalf("health %+v", h)
	}
}

// TestFaultLimitOpenFiles works on an open store while the process can open
// only so many files more. Every answer is typed, what a get delivers is
// right, and when descriptors are to be had again all works again, without a
// reopen, and what was acknowledged is there.
func TestFaultLimitOpenFiles(t *testing.T) {
	inChild(t, func(t *testing.T) {
		tally := faulttest.New(t)
		most := 12
		if testing.Short() {
			most = 2
		} else if fullTests {
			most = 40
		}
		for more := 0; more < most; more += 1 + more/4 {
			fault := tally.Try(fmt.Sprintf("EMFILE after %d opens of a running store", more))
			openFilesRun(t, fault, more)
			if t.Failed() {
				return
			}
			fault.Survive()
		}
	})
}

func openFilesRun(t *testing.T, fault *faulttest.Fault, more int) {
	dir := filepath.Join(t.TempDir(), "store")
	o := filesOptions()
	s, err := Open(dir, o)
	mustDo(t, err)
	n := mustSpace(t, s)
	const blocks = 50 // some segments more than may be open
	for id := range blocks {
		mustPut(t, n, blockOf(id, 0, raceSize))
		if id%6 == 5 {
			mustFlush(t, s)
		}
	}
	mustFlush(t, s)
	acked := map[int]bool{}
	dropped := map[int]bool{}
	end := descriptorLimit(t, more)
	if more == 0 && exhausted() {
		fault.Fire()
	}
	for i := range 30 {
		id := i * 7 % blocks
		p, r := getBlock(t, n, id, raceSize)
		switch {
		case r.Status == StatusOK && variantOf(id, p, 1) != 0:
			t.Errorf("get %d: WRONG BYTES with status OK", id)
		case r.Status == StatusIOError:
			fault.Fire()
		case r.Status == StatusMiss && !dropped[id], r.Status == StatusCorrupt, r.Status == StatusTimeout:
			t.Errorf("get %d: %s %v", id, r.Status, r.Err)
		}
		pr := putOne(n, blockOf(1000+i, 0, raceSize))
		switch pr.Status {
		case StatusOK:
			acked[1000+i] = true
		case StatusShed, StatusIOError:
			fault.Fire()
		default:
			t.Errorf("put: %s %v", pr.Status, pr.Err)
		}
		if i%5 == 0 {
			switch d := dropOne(n, id); d.Status {
			case StatusOK:
				dropped[id] = true
			case StatusMiss, StatusShed, StatusIOError:
			default:
				t.Errorf("drop %d: %s %v", id, d.Status, d.Err)
			}
		}
	}
	_ = s.Flush(context.Background())
	end()
	if s.Health().State != HealthOK {
		s.mu.Lock()
		s.resumeDue = s.resumeDue.Add(-resumeMost)
		s.mu.Unlock()
	}
	eventually(t, "the store works again", func() bool {
		s.tryResume(s.o.private.now().Add(resumeMost))
		return s.Health().State == HealthOK
	})
	mustPut(t, n, blockOf(5000, 0, raceSize))
	mustFlush(t, s)
	check := func() {
		for id := range blocks {
			if dropped[id] {
				wantStatus(t, n, id, raceSize, StatusMiss)
			} else {
				wantBlock(t, n, id, 0, raceSize)
			}
		}
		for id := range acked {
			wantBlock(t, n, id, 0, raceSize)
		}
		wantBlock(t, n, 5000, 0, raceSize)
	}
	check()
	wantNoBuffers(t, s)
	mustClose(t, s)
	s, err = Open(dir, o)
	mustDo(t, err)
	n = mustSpace(t, s)
	check()
	mustClose(t, s)
}
