package engine

// rememberSpoilt fills in the addresses that earlier runs quarantined: what
// shared one of them from now on would be lost with it when the index is
// rebuilt (rule shareguard).
func (s *Store) rememberSpoilt() {
	for _, i := range s.vol.Segments() {
		s.buriedIn(i.ID)
	}
}
