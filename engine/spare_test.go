package engine

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/sealstone/sealstone/internal/vfs"
)

// spared is a store on which one segment is in use and the next one is made.
func spared(t *testing.T, fs vfs.FS) (*Store, *Namespace, uint64) {
	t.Helper()
	s := mustOpen(t, liveOptions(fs))
	n := mustSpace(t, s)
	mustPut(t, n, blockOf(0, 0, raceSize))
	eventually(t, "the next segment is made", s.hasSpare)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s, n, s.spare.id
}

func retireActive(s *Store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retireLocked(s.active[classFresh])
}

func segmentFiles(t *testing.T, fs vfs.FS) (files int) {
	t.Helper()
	dirs, err := fs.List("segments")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		names, err := fs.List("segments/" + d)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, ".seg") {
				files++
			}
		}
	}
	return files
}

// TestSpareIsNext: a full segment is followed by the one that was made ahead,
// and that by another.
func TestSpareIsNext(t *testing.T) {
	checkLeaks(t)
	s, n, spare := spared(t, vfs.NewMem())
	retireActive(s)
	mustPut(t, n, blockOf(1, 0, raceSize))
	if at := entryOf(t, s, n, 1).Address.Segment; at != spare {
		t.Errorf("put into segment %d, the spare is %d", at, spare)
	}
	eventually(t, "another one is made", s.hasSpare)
	for id := range 2 {
		wantBlock(t, n, id, 0, raceSize)
	}
	mustClose(t, s)
}

// TestSpareIsNotLeftBehind: Close takes it away; a kill leaves an empty
// segment, with which Open and all that follows get along.
func TestSpareIsNotLeftBehind(t *testing.T) {
	checkLeaks(t)
	mem := vfs.NewMem()
	s, _, _ := spared(t, mem)
	mustFlush(t, s)
	killed := mem.CrashClone(vfs.CrashOptions{KeepAll: true})
	if files := segmentFiles(t, killed); files != 2 {
		t.Fatalf("%d segments while the store runs", files)
	}
	mustClose(t, s)
	if files := segmentFiles(t, mem); files != 1 {
		t.Errorf("%d segments after Close", files)
	}
	for _, lose := range []bool{false, true} {
		fs := killed.CrashClone(vfs.CrashOptions{KeepAll: true})
		if lose {
			loseIndex(t, fs)
		}
		s := mustOpen(t, testOptions(fs))
		n := mustSpace(t, s)
		wantBlock(t, n, 0, 0, raceSize)
		for range 2 {
			if _, err := s.EvictOnce(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		mustPut(t, n, blockOf(5, 0, raceSize))
		wantBlock(t, n, 5, 0, raceSize)
		mustClose(t, s)
		if r := mustVerify(t, fs); len(r.Damage) > 0 {
			t.Errorf("damage: %+v", r.Damage)
		}
	}
}

// TestSpareGivesWayToMoves: where no segment is free to move blocks into, the
// spare is given up for one.
func TestSpareGivesWayToMoves(t *testing.T) {
	checkLeaks(t)
	mem := vfs.NewMem()
	s, n, spare := spared(t, mem)
	held := s.vol.AllocatedBytes()
	// As if the index had grown into what was free.
	s.indexDiskBytes.Store(s.room.indexBytes + s.room.segmentBudget() - s.strangeBytes - held)
	if s.roomFor(classMoved, 0) {
		t.Fatal("there is still room")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.makeRoom(ctx, classMoved); err != nil {
		t.Fatalf("no room for moves: %v", err)
	}
	if _, there := s.vol.Segment(spare); there || s.hasSpare() {
		t.Error("the spare is still there")
	}
	wantBlock(t, n, 0, 0, raceSize)
	mustClose(t, s)
}
