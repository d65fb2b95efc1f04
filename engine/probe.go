package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// ProbeReport is what the store's directory can do, as far as it was tried.
type ProbeReport = disk.ProbeReport

// Probe finds out what a directory can do, at length: all alignments, what
// io_uring does there, preallocation, holes, latencies, and the speed of each
// path. It makes a scratch file in dir of at most 64 MiB and a twentieth of
// the free space, and removes it. The directory may hold a store, also one
// that is open. Progress may be nil; it is called from another goroutine. The
// timeout bounds it all; 0 means 10 s.
//
// A path that is refused is no error. Errors: those of opening the directory,
// the cause of ctx, ErrInvalid.
func Probe(ctx context.Context, dir string, timeout time.Duration, progress func(done, total int64)) (*ProbeReport, error) {
	fsys, err := vfs.OpenOS(dir)
	if err != nil {
		return nil, fmt.Errorf("engine: probe %s: %w", dir, err)
	}
	r, err := disk.Probe(ctx, disk.ProbeOptions{FS: fsys, Measure: true, Timeout: timeout, Progress: progress})
	if err != nil {
		err = fmt.Errorf("engine: probe %s: %w", dir, err)
	}
	return r, errors.Join(err, fsys.Close())
}

// ProbeReport tells what was found out about the directory at Open. The copy
// is the caller's.
func (s *Store) ProbeReport() *ProbeReport { return s.probe.Clone() }

// probePaths tries the ways of moving bytes in the store's directory. What is
// proven is proven now: a report that an earlier Open kept gives figures of
// speed and nothing else. Errors: ErrPathRefused where Options.Path asks for
// a path that is not proven.
func (s *Store) probePaths() (*disk.ProbeReport, error) {
	if known := s.o.private.probe; known != nil {
		return known.Clone(), nil
	}
	stored := s.readProbe()
	r, err := s.probeOnce(stored == nil)
	if err == nil && r.SameGround(stored) {
		r.TakeFigures(stored)
	} else if err == nil && stored != nil {
		// Another device, kernel or boot, or another answer of a path.
		r, err = s.probeOnce(true)
	}
	if err != nil {
		return nil, fmt.Errorf("engine: probe %s: %w", s.dir, err)
	}
	if err := s.forcePath(r); err != nil {
		return nil, err
	}
	s.keepProbe(stored, r)
	s.tellProbe(r)
	return r, nil
}

// probeOnce runs a probe. What it measures with stays within the capacity: it
// takes no more than the segment that is kept free for moves, and no more than
// is left.
func (s *Store) probeOnce(measure bool) (*disk.ProbeReport, error) {
	o := disk.ProbeOptions{FS: s.fs, Quick: true, ReadOnly: s.o.ReadOnly}
	if measure && !s.o.ReadOnly && !s.o.private.workshop && s.o.Path == PathAuto {
		left := s.room.capacityBytes - s.strangeBytes - s.heldBytes()
		o.Measure, o.MeasureBytesMax = true, max(min(s.room.segmentBytes, left), 1)
	}
	return disk.Probe(context.Background(), o)
}

// forcePath puts the path of Options.Path in the place of the fastest.
func (s *Store) forcePath(r *disk.ProbeReport) error {
	if s.o.Path == PathAuto {
		return nil
	}
	name := disk.PathName(s.o.Path)
	p := r.Path(name)
	if p.State != disk.PathProven && !canaryLaw6 {
		return fmt.Errorf("%w: %s is %s in %s: %s; leave the choice to the store (%s), or run \"sealstone probe\" there to see what each path needs",
			ErrPathRefused, name, p.State, s.dir, p.Reason, PathAuto)
	}
	r.Chosen, r.ChosenBecause = name, "Options.Path asks for it"
	return nil
}

// tellProbe reports what was found in one line, and each warning in another.
func (s *Store) tellProbe(r *disk.ProbeReport) {
	s.event(EventProbe, "paths: %s", r.Summary())
	for _, w := range r.Warnings {
		s.event(EventProbe, "warning: %s", w)
	}
	if p := r.Path(disk.PathBuffered); p.Content {
		s.health.set("paths", HealthReadOnly, "files do not give back what was written to them (%s): mend or replace the file system, then open the store again", p.Reason)
	}
}
