package engine

import (
	"context"
	"errors"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers"
	"github.com/sealstone/sealstone/tiers/disk"
)

// holdFiles takes handles until no file more may be opened.
func holdFiles(t *testing.T, s *Store) (release func()) {
	t.Helper()
	var held []*disk.Handle
	for _, i := range s.vol.Segments() {
		h, err := s.vol.Acquire(i.ID)
		if errors.Is(err, tiers.ErrBusy) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, h)
	}
	if open, limit := s.vol.OpenFiles(); open < limit-1 {
		t.Fatalf("%d of %d files are open", open, limit)
	}
	return func() {
		for _, h := range held {
			h.Release()
		}
	}
}

// TestOpenFilesInUse: with every descriptor in use, reads miss and writes are
// shed; the store stays as healthy as it is, and goes on when some are free.
func TestOpenFilesInUse(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.MaxOpenFiles = 16
	s := mustOpen(t, o)
	defer mustClose(t, s)
	n := mustSpace(t, s)
	id := 0
	for range 14 {
		id = fillSegment(t, s, n, id)
		mustFlush(t, s)
	}
	last := id - 1
	wantBlock(t, n, 0, 0, raceSize) // used: an eviction would move it on
	release := holdFiles(t, s)

	shed, missed := 0, 0
	for i := range id {
		p, b := getParts(i, raceSize)
		switch r := n.Get(context.Background(), []GetBlock{b}, GetOptions{})[0]; {
		case r.Status == StatusOK && variantOf(i, p, 1) == 0:
		case r.Status == StatusMiss && untouched(p) && errors.Is(r.Err, tiers.ErrBusy):
			missed++
		default:
			t.Fatalf("get %d: %v %v", i, r.Status, r.Err)
		}
	}
	for i := 1000; i < 1020; i++ {
		switch r := putOne(n, blockOf(i, 0, raceSize)); r.Status {
		case StatusOK:
		case StatusShed:
			shed++
			wantStatus(t, n, i, raceSize, StatusMiss)
		default:
			t.Fatalf("put %d: %v %v", i, r.Status, r.Err)
		}
	}
	if missed == 0 || shed == 0 {
		t.Errorf("%d missed, %d shed: the test tests nothing", missed, shed)
	}
	for i := last - 20; i < last; i++ {
		if r := dropOne(n, i); r.Status != StatusOK && r.Status != StatusShed {
			t.Errorf("drop %d: %v %v", i, r.Status, r.Err)
		}
	}
	_, _ = s.EvictOnce(context.Background()) // may fail, must not break
	_ = s.Flush(context.Background())
	if h := s.Health(); h.State != HealthOK {
		t.Fatalf("health %+v", h)
	}

	release()
	mustFlush(t, s)
	mustEvict(t, s)
	wantBlock(t, n, 0, 0, raceSize)
	mustPut(t, n, blockOf(2000, 0, raceSize))
	mustDrop(t, n, last)
	wantStatus(t, n, last, raceSize, StatusMiss)
	if h := s.Health(); h.State != HealthOK {
		t.Errorf("health %+v", h)
	}
}
