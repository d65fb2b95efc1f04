package index

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"go.uber.org/goleak"

	"github.com/sealstone/sealstone/internal/vfs"
)

// fakeDB waits for a number of compactions.
type fakeDB struct {
	allowed, waiting atomic.Int64
	started          chan pebble.CompactionGrantHandle
}

func (f *fakeDB) GetAllowedWithoutPermission() int { return int(f.allowed.Load()) }
func (f *fakeDB) GetWaitingCompaction() (bool, pebble.WaitingCompaction) {
	return f.waiting.Load() > 0, pebble.WaitingCompaction{}
}
func (f *fakeDB) Schedule(h pebble.CompactionGrantHandle) bool {
	if f.waiting.Load() == 0 {
		return false
	}
	f.waiting.Add(-1)
	f.started <- h
	return true
}

func (f *fakeDB) next(t *testing.T) pebble.CompactionGrantHandle {
	t.Helper()
	select {
	case h := <-f.started:
		return h
	case <-time.After(hangTimeout):
		t.Fatal("nothing is granted")
		return nil
	}
}

func TestScheduler(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	db := &fakeDB{started: make(chan pebble.CompactionGrantHandle, 10)}
	db.allowed.Store(1)
	s := newScheduler()
	s.Register(2, db)
	if ok, _ := s.TrySchedule(); ok {
		t.Fatal("granted before Open has returned")
	}
	s.UpdateGetAllowedWithoutPermission()
	db.waiting.Store(3)
	s.start()
	first := db.next(t)
	if ok, _ := s.TrySchedule(); ok {
		t.Fatal("granted over the limit")
	}
	first.Done()
	second := db.next(t)
	second.Started()
	db.allowed.Store(2)
	s.UpdateGetAllowedWithoutPermission()
	third := db.next(t)
	second.Done()
	third.Done()
	ok, fourth := s.TrySchedule()
	if !ok {
		t.Fatal("not granted although nothing runs")
	}
	s.Unregister()
	fourth.Done()
	if ok, _ := s.TrySchedule(); ok || len(db.started) != 0 {
		t.Fatal("granted after the end")
	}
}

func TestSchedulerNeverStarted(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	s := newScheduler()
	s.Register(2, &fakeDB{})
	s.Unregister()
}

// TestCompactionsHappen: what waits is granted.
func TestCompactionsHappen(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	d := mustCreate(t, vfs.NewMem())
	defer mustClose(t, d)
	for lsn := uint64(1); lsn <= 40; lsn++ {
		setApplied(t, d, lsn)
		if err := d.Flush(testContext(t)); err != nil {
			t.Fatal(err)
		}
	}
	if m := d.db.Metrics(); m.Compact.Count == 0 {
		t.Errorf("40 flushes and no compaction: %v", m)
	}
}
