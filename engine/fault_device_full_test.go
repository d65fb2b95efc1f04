package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/sealstone/sealstone/internal/faults/faulttest"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// TestFaultDiskFull is law 4 and 5, and field case 34 in memory: others fill
// the disk at any moment, again and again, under a store at work. Puts are shed
// with a reason or fail as unknown, what is stored is served, and as soon as
// there is room the same store takes puts again. (The file system says that it
// has room, as under a quota: else the store would evict to leave others theirs,
// which TestFreeFloor is about.)
func TestFaultDiskFull(t *testing.T) {
	tally := faulttest.New(t)
	for _, seed := range seedsToRun(t, 4, 60) {
		fault := tally.Try(fmt.Sprintf("seed %d: the disk is full", seed))
		t.Run(fmt.Sprint(seed), func(t *testing.T) { diskFills(t, fault, seed) })
		tally.Seeds(1)
	}
}

func diskFills(t *testing.T, fault *faulttest.Fault, seed uint64) {
	checkLeaks(t)
	rng := rand.New(rand.NewPCG(seed, 34))
	mem := vfs.NewMem()
	fs := &roomyFS{FS: mem}
	fs.free.Store(1 << 40)
	o := liveOptions(fs)
	o.CapacityBytes = 32 * mib // enough for all of it
	o.private.logFileBytes, o.private.memTableBytes = 8*kib, 64*kib
	s := mustOpen(t, o)
	n := mustSpace(t, s)
	stored, id := map[int]bool{}, 0
	for range 3 {
		for range 10 {
			mustPut(t, n, blockOf(id, 0, raceSize))
			stored[id] = true
			id++
		}
		mustFlush(t, s)
		mem.SetCapacityBytes(mem.UsedBytes() + rng.Int64N(300*kib))
		for range 60 {
			switch r := putOne(n, blockOf(id, 0, raceSize)); r.Status {
			case StatusOK:
				stored[id] = false // a sync may fail, and withdraw it
			case StatusShed:
				if errors.Is(r.Err, syscall.ENOSPC) {
					fault.Fire()
				}
				wantStatus(t, n, id, raceSize, StatusMiss)
			case StatusIOError:
			default:
				t.Fatalf("put: %v %v", r.Status, r.Err)
			}
			if rng.IntN(20) == 0 {
				_ = s.Flush(context.Background())
				_ = dropOne(n, 100000)
			}
			id++
		}
		for kept, sure := range stored {
			if sure {
				wantBlock(t, n, kept, 0, raceSize)
			}
		}
		mem.SetCapacityBytes(1 << 40)
		eventually(t, "puts are taken again", func() bool {
			s.mu.Lock()
			s.resumeDue = s.o.private.now() // the clock stands still
			s.mu.Unlock()
			return putOne(n, blockOf(id, 0, raceSize)).Status == StatusOK
		})
		id++
		eventually(t, "the store is well", func() bool { return s.Health().State == HealthOK })
	}
	mustFlush(t, s)
	mustClose(t, s)
	s = mustOpen(t, testOptions(mem))
	n = mustSpace(t, s)
	for kept, sure := range stored {
		if sure {
			wantBlock(t, n, kept, 0, raceSize)
		}
	}
	mustClose(t, s)
	wantClean(t, mem)
	fault.Survive()
}

// TestReadersOfEvictedSegments: segments that are gone and held open by readers
// take room for as long as that lasts. No further ones are evicted for it: puts
// are shed until the readers let go.
func TestReadersOfEvictedSegments(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	id := 0
	for s.Stats().EvictedSegments == 0 {
		mustPut(t, n, blockOf(id, 0, 30000))
		id++
	}
	var held []*disk.Handle
	for _, i := range s.vol.Segments() {
		h, err := s.vol.Acquire(i.ID)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, h)
	}
	before, shed := s.Stats(), 0
	for ; shed < 3; id++ {
		switch r := putOne(n, blockOf(id, 0, 30000)); r.Status {
		case StatusOK:
		case StatusShed:
			if shed++; !strings.Contains(r.Err.Error(), "let go") {
				t.Fatalf("shed: %v", r.Err)
			}
		default:
			t.Fatalf("put: %v %v", r.Status, r.Err)
		}
	}
	after := s.Stats()
	if evicted := after.EvictedSegments - before.EvictedSegments; evicted != 1 {
		t.Errorf("%d segments were evicted for one, while readers held it", evicted)
	}
	if after.DiskBytesMax > after.CapacityBytes || s.vol.LeavingBytes() == 0 {
		t.Errorf("%d bytes on disk at most of %d, %d of them leaving", after.DiskBytesMax, after.CapacityBytes, s.vol.LeavingBytes())
	}
	for _, h := range held {
		h.Release()
	}
	if got := s.vol.LeavingBytes(); got != 0 {
		t.Errorf("%d bytes still leave", got)
	}
	mustPut(t, n, blockOf(id, 0, 30000))
}

// TestWriteBudgetOfShedPuts: a put that was admitted and then shed has written
// nothing, and gives its bytes back.
func TestWriteBudgetOfShedPuts(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.WriteBudgetBytesPerDay = 24 * 100_000 // an hour's worth at once
	o.MaxPendingBytes = 1
	s := mustOpen(t, o)
	defer mustClose(t, s)
	n := mustSpace(t, s)
	mustPut(t, n, blockOf(0, 0, 40_000))
	for id := 1; id < 9; id++ {
		if r := putOne(n, blockOf(id, 0, 40_000)); r.Status != StatusShed || !strings.Contains(r.Err.Error(), "MaxPendingBytes") {
			t.Fatalf("put over the pending limit: %v %v", r.Status, r.Err)
		}
	}
	mustFlush(t, s)
	mustPut(t, n, blockOf(9, 0, 40_000))
	mustFlush(t, s)
	if r := putOne(n, blockOf(10, 0, 40_000)); r.Status != StatusShed || !strings.Contains(r.Err.Error(), "budget") {
		t.Errorf("put over the budget: %v %v", r.Status, r.Err)
	}
}
