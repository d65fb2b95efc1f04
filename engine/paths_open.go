package engine

import (
	"fmt"

	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/tiers"
	"github.com/sealstone/sealstone/tiers/disk"
)

// openPaths makes the readers of the paths that the probe has proven: the
// chosen one, and to fall back on those that cost nothing while they rest.
func (s *Store) openPaths() error {
	s.readerPool = aligned.NewPool(s.o.readerPoolBytes())
	names := []disk.PathName{s.probe.Chosen}
	for _, name := range []disk.PathName{disk.PathPread, disk.PathBuffered} {
		if name != s.probe.Chosen && s.probe.Path(name).State == disk.PathProven {
			names = append(names, name)
		}
	}
	for i, name := range names {
		p, err := s.openPath(name)
		if err == nil {
			s.paths.add(p)
			if i > 0 && name == disk.PathPread && s.o.Path == PathAuto {
				s.paths.alone = p
			}
			continue
		}
		if i == 0 && s.o.Path != PathAuto || i == len(names)-1 && s.paths.use() == nil {
			return fmt.Errorf("%w: %w", ErrPathRefused, err)
		}
		s.event(EventProbe, "path %s was proven and can not be opened: %v; the next one is used", name, err)
	}
	return nil
}

// openPath makes the reader of one path. An unproven one (nothing could be
// tried in an empty directory that is read only) reads through the page cache.
func (s *Store) openPath(name disk.PathName) (*ioPath, error) {
	o := disk.PreadOptions{Workers: s.o.ReadWorkers, Pool: s.readerPool}
	var rw tiers.ReadWriter
	var err error
	switch name {
	case disk.PathUring:
		rw, err = disk.NewUringReader(disk.UringOptions{Pread: o})
	case disk.PathPread:
		rw, err = disk.NewPreadReader(o)
	default:
		o.Buffered = true
		rw, err = disk.NewPreadReader(o)
	}
	if err != nil {
		return nil, err
	}
	return &ioPath{name: rw.Name(), rw: rw, dropsCache: name != disk.PathUring && name != disk.PathPread}, nil
}
