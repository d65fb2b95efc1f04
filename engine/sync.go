package engine

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/sealstone/sealstone/tiers/disk"
	"github.com/sealstone/sealstone/wal"
)

// syncOnce is one group sync: every segment written to, then the log. The
// durable mark then moves to where the log ended before the segments were
// synced (rule mark): a record that came in between may be durable before its
// extent is.
func (s *Store) syncOnce() {
	s.syncMu.Lock()
	defer s.syncMu.Unlock()
	s.mu.Lock()
	if s.broken != nil {
		s.mu.Unlock()
		return
	}
	end := s.log.End()
	idle := end == s.mark
	writers := s.dirtyLocked()
	s.unsynced = 0
	s.mu.Unlock()
	if idle && len(writers) == 0 {
		return
	}
	for _, w := range writers {
		if canaryLaw3Sync {
			break
		}
		if err := w.Sync(); err != nil {
			s.syncFailed("segment", w, err)
			return
		}
	}
	s.o.private.points("sync:between")
	if _, err := s.log.Sync(); err != nil {
		s.syncFailed("log", nil, err)
		return
	}
	s.count.syncs.Add(1)
	s.mu.Lock()
	s.mark = max(s.mark, end)
	s.log.SetMark(s.mark)
	s.progressLocked()
	s.mu.Unlock()
	kick(s.kickApply)
}

func (s *Store) dirtyLocked() (out []*disk.Writer) {
	for _, seg := range s.segs {
		if seg.writer != nil && !seg.lost && seg.writer.Dirty() {
			out = append(out, seg.writer)
		}
	}
	return out
}

// syncFailed: what the failed sync covered may be lost whatever a second one
// says, so it is withdrawn: visible no more, and never applied, but for drops
// and quarantines: their tombstones stand, so they are logged anew with the
// first writes. Whoever waits for it gets the error. The store is read-only
// until resume has new files.
func (s *Store) syncFailed(what string, w *disk.Writer, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w != nil {
		if seg := s.segs[w.ID()]; seg != nil {
			s.retireLocked(seg)
			seg.lost = true
		}
	}
	n := 0
	for n < len(s.pending) && s.pending[n].end <= s.mark {
		n++
	}
	for _, r := range s.pending[n:] {
		s.pendingBytes -= r.pendingBytes()
		if seg := s.segs[r.home()]; seg != nil {
			seg.pending--
		}
		r.charge.releaseLocked()
		s.undoLocked(r)
		s.debts.oweLocked(r)
	}
	s.hostWithdraw(s.pending[n:])
	s.count.withdrawn.Add(int64(len(s.pending) - n))
	s.pending = s.pending[:n:n]
	s.overlay.withdraw(s.mark)
	s.breakLocked("sync of "+what, err)
	s.events.add(s.o.private.now(), EventSyncFailed, "sync of "+what+" failed, what it covered is withdrawn: "+err.Error())
}

// undoLocked takes back what a record did when it was logged, beside the
// overlay.
func (s *Store) undoLocked(r *record) {
	switch r.Kind {
	case recordQuarantine:
		delete(s.bad, r.Entry.Address)
	case recordEvict:
		s.evictOpen = 0
		if seg := s.segs[r.Segment]; seg != nil {
			seg.evicted = false
		}
	}
}

func (s *Store) syncAndApply() {
	s.syncOnce()
	s.applyAll()
}

func (s *Store) kickIfMuchUnsynced() {
	s.mu.Lock()
	much := s.unsynced >= s.o.SyncBytes
	s.mu.Unlock()
	if much {
		kick(s.kickSync)
	}
}

// quietTime is how long after the last sync an empty commit frame repeats the
// mark in the log, so that a crash in an idle store finds nothing to verify.
const quietTime = time.Second

// syncLoop runs group syncs: at least every SyncInterval while there is
// something to sync, and whenever it is kicked. It also tries to go on after a
// failure.
func (s *Store) syncLoop() {
	defer s.workers.Done()
	t := time.NewTicker(s.o.SyncInterval)
	defer t.Stop()
	var q quiet
	for {
		select {
		case <-s.stop:
			return
		case <-t.C:
			s.tryResume(s.o.private.now())
			s.tryCalm(s.o.private.now())
			s.markWhenQuiet(&q, s.o.private.now())
		case <-s.kickSync:
		}
		s.syncOnce()
		// Also with nothing to sync: a segment may wait to be sealed.
		kick(s.kickApply)
	}
}

// quiet is since when the log has ended where it ends, and whether that is
// marked in it.
type quiet struct {
	end    wal.LSN
	since  time.Time
	marked bool
}

func (s *Store) markWhenQuiet(q *quiet, now time.Time) {
	if !s.orderMu.TryLock() {
		return // somebody writes to the log
	}
	defer s.orderMu.Unlock()
	if !s.isQuietSince(q, now) {
		return
	}
	err := s.log.AppendMark()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.breakLocked("log", err)
		return
	}
	// The frame holds no record: what is before it is all there is.
	s.mark = s.log.End()
	*q = quiet{end: s.mark, since: now, marked: true}
	s.progressLocked()
}

// isQuietSince reports whether the log has been durable and at rest for long
// enough, and not been marked since.
func (s *Store) isQuietSince(q *quiet, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	end := s.log.End()
	if s.broken != nil || s.mark != end || q.end != end {
		*q = quiet{end: end, since: now}
		return false
	}
	if now.Before(q.since) { // the clock was set back
		q.since = now
	}
	return !q.marked && now.Sub(q.since) >= quietTime
}

// Flush returns when everything put before it is durable and applied to the
// index, or the context ended.
func (s *Store) Flush(ctx context.Context) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.ops.done()
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	return s.flushUpTo(ctx)
}

func (s *Store) flushUpTo(ctx context.Context) error {
	s.mu.Lock()
	end := s.lastRecordEndLocked()
	s.mu.Unlock()
	return s.waitApplied(ctx, end)
}

// lastRecordEndLocked is behind the last record that is not applied yet; what
// is applied already needs no waiting for.
func (s *Store) lastRecordEndLocked() wal.LSN {
	if len(s.pending) == 0 {
		return s.applied
	}
	return s.pending[len(s.pending)-1].end
}

func isNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
