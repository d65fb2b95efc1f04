package engine

import "github.com/sealstone/sealstone/tiers/disk"

// rememberSpoilt fills in the addresses that earlier runs quarantined. A crash
// may have come between a quarantine's tombstone and its record: the index
// then still leads to the address, and what shared it from now on would be
// lost with it when the index is rebuilt (rule shareguard).
func (s *Store) rememberSpoilt() {
	if s.o.ReadOnly {
		return
	}
	for _, i := range s.vol.Segments() {
		// What of a damaged sidecar is sound comes with the error; a missing
		// one names nothing.
		ts, _ := s.vol.ReadTombstones(i.ID)
		for _, t := range ts {
			if t.Kind == disk.TombstoneQuarantine {
				s.spoilt[disk.Address{Segment: i.ID, Page: t.Page}] = struct{}{}
			}
		}
	}
}
