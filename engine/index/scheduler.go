package index

import (
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// scheduler lets Pebble run as many compactions as it allows itself, but none
// before Open has returned. Open flushes, and the flush may start a compaction;
// when Open then fails (a full disk is enough) Pebble closes its tables without
// waiting, and the compaction panics on a goroutine that nobody can guard.
//
// It is also the handle of each grant.
type scheduler struct {
	// For those methods of a handle that only measure; its own are not used.
	*pebble.ConcurrencyLimitScheduler

	db   pebble.DBForCompaction
	poke chan struct{}
	stop chan struct{}
	done chan struct{} // closed by the granter

	mu      sync.Mutex
	ready   bool // Open has returned; a granter runs
	gone    bool
	running int
}

func newScheduler() *scheduler {
	return &scheduler{
		ConcurrencyLimitScheduler: &pebble.ConcurrencyLimitScheduler{},
		poke:                      make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
}

// Register is called in Open.
func (s *scheduler) Register(_ int, db pebble.DBForCompaction) { s.db = db }

// start lets go of what Open kept waiting.
func (s *scheduler) start() {
	s.mu.Lock()
	s.ready = true
	s.mu.Unlock()
	go s.grantLoop()
	s.wake()
}

// Unregister is called in Close. When it returns nothing is granted any more.
func (s *scheduler) Unregister() {
	s.mu.Lock()
	s.gone = true
	ready := s.ready
	s.mu.Unlock()
	if ready {
		close(s.stop)
		<-s.done
	}
}

// TrySchedule is called with locks of the DB held, before each compaction.
func (s *scheduler) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	if !s.take() {
		return false, nil
	}
	return true, s
}

// UpdateGetAllowedWithoutPermission is called likewise, after each flush.
func (s *scheduler) UpdateGetAllowedWithoutPermission() { s.wake() }

// Done ends a compaction.
func (s *scheduler) Done() {
	s.giveBack()
	s.wake()
}

func (s *scheduler) wake() {
	select {
	case s.poke <- struct{}{}:
	default:
	}
}

// take counts one more compaction if the DB allows it.
func (s *scheduler) take() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ready || s.gone || s.running >= s.db.GetAllowedWithoutPermission() {
		return false
	}
	s.running++
	return true
}

func (s *scheduler) giveBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
}

// grantLoop grants, whenever something has changed, what the DB waits for. It
// is a goroutine of its own because those who change something hold locks.
func (s *scheduler) grantLoop() {
	defer close(s.done)
	for {
		select {
		case <-s.stop:
			return
		case <-s.poke:
		}
		for s.take() {
			if waiting, _ := s.db.GetWaitingCompaction(); !waiting || !s.db.Schedule(s) {
				s.giveBack()
				break
			}
		}
	}
}
