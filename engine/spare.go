package engine

import (
	"context"
	"errors"
)

// The spare is a segment that was made before it is needed: to make one takes
// a preallocation and several syncs, and meanwhile no put goes on. It is no
// segment of the protocol until roll takes it: nothing is in it, and a crash
// leaves it as an empty one. There is at most one, for fresh blocks only, so
// that what is moved still goes to a segment younger than its victim.

// prepareSpare makes the spare if there is none and room for it without an
// eviction. If that fails, roll will meet the same and say so.
func (s *Store) prepareSpare(ctx context.Context) {
	if err := s.rollMu[classFresh].lock(ctx); err != nil {
		return
	}
	defer s.rollMu[classFresh].unlock()
	s.mu.Lock()
	idle := s.spare != nil || s.broken != nil || s.active[classFresh] == nil
	s.mu.Unlock()
	if idle || s.closing.Load() || !s.roomFor(classFresh, 0) {
		return
	}
	seg, err := s.newSegment(classFresh)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spare = seg
}

// takeSpare hands the spare out, or nil.
func (s *Store) takeSpare() *segment {
	s.mu.Lock()
	defer s.mu.Unlock()
	seg := s.spare
	s.spare = nil
	return seg
}

func (s *Store) hasSpare() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spare != nil
}

// dropSpare takes the spare's files away. It reports whether there was one.
func (s *Store) dropSpare() (had bool, err error) {
	seg := s.takeSpare()
	if seg == nil {
		return false, nil
	}
	return true, errors.Join(seg.writer.Close(), s.vol.Unlink(seg.id))
}
