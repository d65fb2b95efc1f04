package engine

import (
	"fmt"
	"math"

	"github.com/sealstone/sealstone/engine/meta"
)

// readOnly finishes an Open that changes nothing on disk: what the log's
// records will do to the index is worked out in a batch that is dropped, and
// put before the index in the overlay.
func (r *recovery) readOnly() error {
	s := r.s
	if r.lost != "" {
		return fmt.Errorf("%w: %s; a store opened read-only can not rebuild its index: open it for writing", ErrDamaged, r.lost)
	}
	c, err := (&offline{s: s, rec: r}).pendingChanges()
	if err != nil {
		return fmt.Errorf("engine: read the log: %w", err)
	}
	s.count.unproven.Add(int64(c.unproven))
	for k, e := range c.keys {
		if e == nil {
			s.overlay.add(k, overlayOp{lsn: r.log.End, seq: math.MaxUint64})
			continue
		}
		s.overlay.add(k, overlayOp{lsn: r.log.End, put: true, seq: e.Seq, entry: *e})
	}
	s.mark, s.applied = r.log.End, r.applied
	s.publishLive()
	s.takeUsesLocked(s.idx.Uses())
	s.health.set("read-only", HealthReadOnly, "opened read-only")
	return nil
}

// holdReadOnly takes the lock without writing into its file, which may name an
// owner that crashed, and from here on lets nothing change the directory.
func (s *Store) holdReadOnly() (err error) {
	defer func() { s.fs = lookOnlyFS{s.fs} }()
	s.lock, err = meta.HoldLock(s.fs, meta.CurrentOwner())
	return err
}
