package engine

import (
	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/tiers/disk"
)

// openPaths makes the readers.
func (s *Store) openPaths() error {
	s.readerPool = aligned.NewPool(max(64*mib, 4*s.o.MaxBlockBytes))
	r, err := disk.NewPreadReader(disk.PreadOptions{Workers: s.o.ReadWorkers, Pool: s.readerPool})
	if err != nil {
		return err
	}
	s.paths.set(&ioPath{name: r.Name(), rw: r})
	return nil
}
