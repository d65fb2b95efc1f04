package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sealstone/sealstone/internal/vfs"
)

// After a failed write or sync the store is read-only. It goes on by itself
// on new files once a probe of the directory passes: nothing is ever tried
// again on a file that failed, because the kernel may have thrown away what
// the first failure was about, and would report success.
const (
	resumeFirst = time.Second
	resumeMost  = time.Minute
)

// errIndexGone: without an index there is nothing to go on with.
var errIndexGone = errors.New("engine: the index failed, the store must be opened again")

// tryResume goes on after a failure if it is time to try, and if it can.
// Called by the sync loop.
func (s *Store) tryResume(now time.Time) {
	s.mu.Lock()
	// Never longer than resumeMost, also when the clock was set back.
	broken, due := s.broken != nil, !now.Before(s.resumeDue) || s.resumeDue.Sub(now) > resumeMost
	if broken && due {
		s.resumeWait = min(max(2*s.resumeWait, resumeFirst), resumeMost)
		s.resumeDue = now.Add(s.resumeWait)
	}
	s.mu.Unlock()
	if !broken || !due {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.o.CallTimeout)
	defer cancel()
	if err := s.resume(ctx); err != nil {
		s.o.Logger.Warn("sealstone: still read-only", "dir", s.dir, "err", err)
		return
	}
}

// resume begins a new log and new segments. What is durable is applied first;
// what is logged and could not be made durable is logged anew, what a failed
// sync withdrew stays withdrawn, with tombstones. The old log goes only when
// the index is flushed past it (rule void), and before that nothing new is
// accepted.
func (s *Store) resume(ctx context.Context) error {
	if err := s.idx.Err(); err != nil {
		return fmt.Errorf("%w: %w", errIndexGone, err)
	}
	if err := s.evictMu.lock(ctx); err != nil {
		return err
	}
	defer s.evictMu.unlock()
	if err := s.probeWrites(); err != nil {
		return fmt.Errorf("engine: probe: %w", err)
	}
	s.syncMu.Lock()
	defer s.syncMu.Unlock()
	s.applyMu.Lock()
	defer s.applyMu.Unlock()
	for s.applySome() {
	}
	if err := s.settledBelowMark(); err != nil {
		return err
	}
	if err := s.syncSegments(); err != nil {
		return err
	}
	if err := s.changeLog(ctx); err != nil {
		return err
	}
	s.health.clear("broken")
	return nil
}

// settledBelowMark: what is durable is applied, and segments whose EVICT is
// applied are gone for good, so that nothing of the old log is needed.
func (s *Store) settledBelowMark() error {
	s.mu.Lock()
	stuck := len(s.pending) > 0 && s.pending[0].end <= s.mark
	evicting := map[uint64]bool{}
	for _, r := range s.pending {
		evicting[r.Segment] = r.Kind == recordEvict
	}
	var gone []*segment
	for _, seg := range s.segs {
		if seg.evicted && !evicting[seg.id] {
			gone = append(gone, seg)
		}
	}
	s.mu.Unlock()
	if stuck {
		return errors.New("engine: durable records can not be applied: " + s.stuckReason().Error())
	}
	for _, seg := range gone {
		if err := s.unlinkVictim(seg); err != nil {
			return err
		}
	}
	return nil
}

// probeWrites writes, syncs and reads back a scratch file.
func (s *Store) probeWrites() (err error) {
	const name, size = quarantineDir + "/probe.tmp", 64 << 10
	f, err := s.fs.Open(name, vfs.Create|vfs.Trunc|vfs.ReadWrite)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close(), s.fs.Remove(name)) }()
	want := make([]byte, size)
	for i := range want {
		want[i] = byte(i*7 + i>>8)
	}
	if _, err := f.WriteAt(want, 0); err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), s.fs.SyncDir(quarantineDir)); err != nil {
		return err
	}
	got := make([]byte, size)
	if _, err := f.ReadAt(got, 0); err != nil {
		return err
	}
	if string(got) != string(want) {
		return errors.New("what was read back is not what was written")
	}
	return nil
}

// syncSegments syncs what was written since the last good sync; a segment
// that fails, now or before, is given up for writing.
func (s *Store) syncSegments() error {
	s.mu.Lock()
	writers := s.dirtyLocked()
	s.mu.Unlock()
	for _, w := range writers {
		if err := w.Sync(); err != nil {
			s.syncFailed("segment", w, err)
			return err
		}
	}
	return nil
}
