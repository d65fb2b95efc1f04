package engine

import (
	"context"
	"errors"
	iofs "io/fs"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sealstone/sealstone/internal/vfs"
)

// roomyFS reports what the test says as free.
type roomyFS struct {
	vfs.FS
	free atomic.Int64
}

func (f *roomyFS) Statfs() (vfs.Usage, error) {
	return vfs.Usage{TotalBytes: 1 << 40, AvailableBytes: f.free.Load()}, nil
}

// TestFreeFloor: others' room is not taken. The store evicts its own blocks
// instead, or sheds.
func TestFreeFloor(t *testing.T) {
	fs := &roomyFS{FS: vfs.NewMem()}
	fs.free.Store(1 << 30)
	o := testOptions(fs)
	o.FreeFloorBytes = 100 * mib
	s := mustOpen(t, o)
	defer mustClose(t, s)
	n := mustSpace(t, s)
	next := fillSegment(t, s, n, 0)
	next = fillSegment(t, s, n, next)
	mustFlush(t, s)
	fs.free.Store(100*mib + 100)
	before := s.Stats()
	shed := false
	for id := next; id < next+40 && !shed; id++ {
		r := putOne(n, blockOf(id, 0, raceSize))
		if shed = r.Status == StatusShed; shed {
			wantStatus(t, n, id, raceSize, StatusMiss)
		} else if r.Status != StatusOK {
			t.Fatalf("put: %v %v", r.Status, r.Err)
		}
	}
	after := s.Stats()
	if !shed || after.SegmentBytes > before.SegmentBytes {
		t.Errorf("shed %v; segments had %d bytes, have %d", shed, before.SegmentBytes, after.SegmentBytes)
	}
	fs.free.Store(1 << 30)
	mustPut(t, n, blockOf(9999, 0, raceSize))
	wantBlock(t, n, 9999, 0, raceSize)
}

// TestDiskFull: the file system has no room, whatever it said before. Puts
// are shed, gets go on, nothing is half-visible, and when there is room again
// puts work.
func TestDiskFull(t *testing.T) {
	mem := vfs.NewMem()
	fs := &roomyFS{FS: mem}
	fs.free.Store(1 << 40)
	o := testOptions(fs)
	s := mustOpen(t, o)
	n := mustSpace(t, s)
	for id := range 20 {
		mustPut(t, n, blockOf(id, 0, raceSize))
	}
	mustFlush(t, s)
	mem.SetCapacityBytes(mem.UsedBytes())
	shed := 0
	for id := 100; id < 140; id++ {
		switch r := putOne(n, blockOf(id, 0, raceSize)); r.Status {
		case StatusOK: // there was room in the active segment
		case StatusShed:
			shed++
			if !errors.Is(r.Err, syscall.ENOSPC) {
				t.Errorf("shed: %v", r.Err)
			}
			wantStatus(t, n, id, raceSize, StatusMiss)
		default:
			t.Fatalf("put: %v %v", r.Status, r.Err)
		}
	}
	if shed == 0 {
		t.Fatalf("nothing was shed: %d used, %d segments", mem.UsedBytes(), s.Stats().Segments)
	}
	for id := range 20 {
		wantBlock(t, n, id, 0, raceSize)
	}
	if len(eventsOf(s, EventHealth)) == 0 {
		t.Error("no event says that the disk is full")
	}
	mem.SetCapacityBytes(1 << 40)
	mustPut(t, n, blockOf(200, 0, raceSize))
	mustFlush(t, s)
	wantNoBuffers(t, s)
	mustClose(t, s)
	s = mustOpen(t, o)
	defer mustClose(t, s)
	n = mustSpace(t, s)
	for id := range 20 {
		wantBlock(t, n, id, 0, raceSize)
	}
	wantBlock(t, n, 200, 0, raceSize)
}

// TestDiskFullAtEveryOperation lets one kind of operation after another fail
// for want of room. Whatever it hits, the store stays alive: reads are
// answered, no put that was refused is visible, and a reopen is whole.
func TestDiskFullAtEveryOperation(t *testing.T) {
	for _, where := range []string{"segments/", "wal/", "index/", ""} {
		for _, kind := range []vfs.OpKind{vfs.OpWrite, vfs.OpPreallocate, vfs.OpCreate, vfs.OpMkdir, vfs.OpSync} {
			t.Run(kind.String()+" "+where, func(t *testing.T) { diskFullAt(t, where, kind) })
		}
	}
}

func diskFullAt(t *testing.T, where string, kind vfs.OpKind) {
	mem := vfs.NewMem()
	var full atomic.Bool
	fs := vfs.WithHook(mem, func(op vfs.Op) error {
		if full.Load() && op.Kind == kind && strings.HasPrefix(op.Name, where) {
			return &iofs.PathError{Op: op.Kind.String(), Path: op.Name, Err: syscall.ENOSPC}
		}
		return nil
	})
	o := testOptions(fs)
	o.CallTimeout = 5 * time.Second
	s := mustOpen(t, o)
	n := mustSpace(t, s)
	for id := range 20 {
		mustPut(t, n, blockOf(id, 0, raceSize))
	}
	mustFlush(t, s)
	full.Store(true)
	status := map[int]Status{}
	for id := 100; id < 130; id++ {
		status[id] = putOne(n, blockOf(id, 0, raceSize)).Status
		if id%10 == 9 {
			_ = s.Flush(context.Background())
		}
	}
	allMiss := s.Health().State == HealthAllMiss
	for id := range 20 {
		p, r := getBlock(t, n, id, raceSize)
		switch {
		case r.Status == StatusOK && variantOf(id, p, 1) != 0:
			t.Fatal("WRONG BYTES with status OK")
		case r.Status != StatusOK && !allMiss:
			t.Errorf("get %d: %v %v", id, r.Status, r.Err)
		}
	}
	for id, st := range status {
		if st == StatusShed && !allMiss {
			wantStatus(t, n, id, raceSize, StatusMiss)
		}
	}
	full.Store(false)
	_ = s.Close(context.Background())
	o.private.fs = mem.CrashClone(vfs.CrashOptions{KeepAll: true})
	s = mustOpen(t, o)
	defer mustClose(t, s)
	n = mustSpace(t, s)
	for id := range 20 {
		wantBlock(t, n, id, 0, raceSize)
	}
	for id, st := range status {
		if st == StatusShed {
			wantStatus(t, n, id, raceSize, StatusMiss)
		}
	}
	mustPut(t, n, blockOf(200, 0, raceSize))
}
