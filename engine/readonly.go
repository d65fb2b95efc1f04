package engine

import (
	"fmt"

	"github.com/sealstone/sealstone/engine/meta"
	"github.com/sealstone/sealstone/wal"
)

// readOnly finishes an Open that changes nothing on disk: what the log has
// and the index has not stays in the overlay.
func (r *recovery) readOnly() error {
	s := r.s
	if r.lost != "" {
		return fmt.Errorf("%w: %s; a store opened read-only can not rebuild its index: open it for writing", ErrDamaged, r.lost)
	}
	_, err := wal.Recover(s.logOptions(), r.applied, func(w wal.Record) error {
		d, err := decodeRecord(w.Data)
		if err != nil {
			return err
		}
		if d.lsn, d.end = w.LSN, w.End; d.end > r.log.Mark && !r.proven(d) {
			s.count.unproven.Add(1)
			return nil
		}
		s.showRecord(d)
		return nil
	})
	s.mark, s.applied = r.log.End, r.applied
	s.publishLive()
	s.health.set("read-only", HealthReadOnly, "opened read-only")
	return err
}

// showRecord enters a record's effect without applying it.
func (s *Store) showRecord(d *record) {
	switch d.Kind {
	case recordPut:
		if v := s.overlay.look(d.Key); !v.found {
			s.overlay.add(d.Key, overlayOp{lsn: d.lsn, put: true, seq: d.Entry.Seq, entry: d.Entry})
		}
	case recordDrop:
		s.overlay.add(d.Key, overlayOp{lsn: d.lsn, seq: d.Entry.Seq})
	case recordQuarantine:
		s.bad[d.Entry.Address] = struct{}{}
	case recordMove:
		// The source stays readable until its segment is evicted.
		if _, gone := s.segs[d.From.Segment]; !gone {
			e := d.Entry
			if v := s.overlay.look(d.Key); v.found && v.entry.Seq == d.Entry.Seq {
				full := v.entry
				full.Extent = e.Extent
				s.overlay.add(d.Key, overlayOp{lsn: d.lsn, put: true, seq: e.Seq, entry: full})
			}
		}
	}
}

// holdReadOnly takes the lock without writing into its file, which may name an
// owner that crashed, and from here on lets nothing change the directory.
func (s *Store) holdReadOnly() (err error) {
	defer func() { s.fs = lookOnlyFS{s.fs} }()
	s.lock, err = meta.HoldLock(s.fs, meta.CurrentOwner())
	return err
}
