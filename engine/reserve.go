package engine

// Put sequences and segment ids are reserved durably in large steps, so that
// none is used twice whatever a crash takes (rules seqext, seqtomb, seqfloor).
const (
	sequenceStep = 1 << 20
	segmentStep  = 64
)

// idRange are numbers that are reserved and not handed out: next to bound, not
// including. Guarded by Store.mu.
type idRange struct{ next, bound uint64 }

// take hands out n numbers that follow one another; what is left where fewer
// are, is skipped by the next reservation.
func (r *idRange) take(n uint64) (first uint64, ok bool) {
	if r.bound-r.next < n {
		return 0, false
	}
	first = r.next
	r.next += n
	return first, true
}

// nextSequences hands out n put sequences and returns the first.
func (s *Store) nextSequences(n int) (first uint64, err error) {
	return s.reserved(&s.sequences, uint64(n), func() (uint64, uint64, error) { return s.meta.ReserveSequences(sequenceStep) })
}

func (s *Store) nextSegmentID() (uint64, error) {
	return s.reserved(&s.segmentIDs, 1, func() (uint64, uint64, error) { return s.meta.ReserveSegments(segmentStep) })
}

// reserved takes n numbers, after a further reservation if need be. That waits
// for the device, so nobody calls it with mu held.
func (s *Store) reserved(from *idRange, n uint64, reserve func() (first, bound uint64, err error)) (uint64, error) {
	if first, ok := s.takeIDs(from, n); ok {
		return first, nil
	}
	s.reserveMu.Lock()
	defer s.reserveMu.Unlock()
	for { // another one may have reserved meanwhile, and others taken it all
		if first, ok := s.takeIDs(from, n); ok {
			return first, nil
		}
		first, bound, err := reserve()
		if err != nil {
			s.metaFailed()
			return 0, err
		}
		s.mu.Lock()
		*from = idRange{first, bound}
		s.mu.Unlock()
	}
}

func (s *Store) takeIDs(from *idRange, n uint64) (first uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return from.take(n)
}

// metaFailed is called after a change of STORE or NAMESPACES failed: they take
// no more changes then, and what is on disk is known only to the next Open.
func (s *Store) metaFailed() {
	if err := s.meta.Err(); err != nil {
		s.health.set("metadata", HealthReadOnly, "%v", err)
	}
}
