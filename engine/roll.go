package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/sealstone/sealstone/tiers/disk"
)

// roll makes a new active segment of a class, once there is room for it.
func (s *Store) roll(ctx context.Context, class uint8) error {
	if err := s.rollMu[class].lock(ctx); err != nil {
		return err
	}
	defer s.rollMu[class].unlock()
	s.mu.Lock()
	have := s.active[class] != nil
	s.mu.Unlock()
	if have {
		return nil // another put was faster
	}
	var seg *segment
	if class == classFresh {
		seg = s.takeSpare()
	}
	if seg == nil {
		if err := s.makeRoom(ctx, class); err != nil {
			return err
		}
		var err error
		if seg, err = s.newSegment(class); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.segs[seg.id], s.active[class] = seg, seg
	kick(s.kickEvict)
	return nil
}

// newSegment makes the files of a segment, which the store does not know yet.
func (s *Store) newSegment(class uint8) (*segment, error) {
	id, err := s.nextSegmentID()
	if err != nil {
		return nil, fmt.Errorf("engine: new segment: %w", err)
	}
	w, err := s.vol.Create(id, class)
	if err != nil {
		if isNoSpace(err) {
			s.noSpace(err)
			return nil, fmt.Errorf("%w: no room on the disk for a segment: %w", ErrShed, err)
		}
		return nil, fmt.Errorf("engine: new segment: %w", err)
	}
	s.noteDiskBytes()
	return &segment{id: id, class: class, writer: w}, nil
}

// retire closes a segment to new extents.
func (s *Store) retire(seg *segment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retireLocked(seg)
}

func (s *Store) retireLocked(seg *segment) {
	seg.retired = true
	if s.active[seg.class] == seg {
		s.active[seg.class] = nil
	}
}

// sealRetired seals every retired segment whose extents all have an applied
// record (rule footsync). Called by the applier.
func (s *Store) sealRetired() {
	for _, seg := range s.sealable() {
		err := s.seal(seg)
		s.mu.Lock()
		seg.sealing = false
		if err == nil {
			seg.sealed, seg.writer, seg.entries = true, nil, nil
		} else {
			// It stays readable, and is sealed when the store opens again.
			seg.lost = true
			s.breakLocked(fmt.Sprintf("footer of segment %d", seg.id), err)
		}
		s.progressLocked()
		s.mu.Unlock()
	}
}

func (s *Store) sealable() (out []*segment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, seg := range s.segs {
		if seg.writer != nil && seg.retired && !seg.sealing && !seg.lost && seg.inflight == 0 && seg.pending == 0 {
			seg.sealing = true
			out = append(out, seg)
		}
	}
	return out
}

func (s *Store) seal(seg *segment) error {
	s.mu.Lock()
	entries := slices.Clone(seg.entries)
	s.mu.Unlock()
	sortEntries(entries)
	if err := seg.writer.Err(); err != nil {
		return err
	}
	return seg.writer.Seal(entries)
}

func sortEntries(entries []disk.FooterEntry) {
	slices.SortFunc(entries, func(a, b disk.FooterEntry) int { return cmp.Compare(a.Page, b.Page) })
}
